"""Attacks on other processes, and on what the caller forgot to close or to clear."""

from __future__ import annotations

import ctypes
import os
import shutil

from corral.model.feature import Feature
from corral.selftest.judge import grows, leaked, proved
from corral.selftest.numbers import syscall_numbers
from corral.selftest.probe import EscapeProbe, Language, NotHereError, python_probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

    from corral.selftest.probe import Setup
    from corral.selftest.stage import Stage

_DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        import signal
        for number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)
        for fd in (0, 1, 2): os.close(fd)
        end = time.monotonic() + 4
        while time.monotonic() < end:
            with open(WS + '/pulse', 'a') as file: file.write('x')
            time.sleep(0.02)
    os._exit(0)
while not os.path.exists(WS + '/pulse'): time.sleep(0.01)
"""


def _victim(stage: Stage) -> subprocess.Popen[bytes]:
    process = stage.victim({"CORRAL_VICTIM": stage.secret})
    stage.remembered["victim"] = process
    stage.arguments.append(str(process.pid))
    return process


def _with_victim(stage: Stage) -> None:
    _victim(stage)


def _victim_and(*names: str) -> Setup:
    def setup(stage: Stage) -> None:
        _victim(stage)
        stage.arguments += syscall_numbers(*names)

    return setup


def _is_dead(stage: Stage, _output: str) -> str:
    process: subprocess.Popen[bytes] = stage.remembered["victim"]  # type: ignore[assignment]
    try:
        process.wait(0.2)
    except Exception:
        return _is_stopped(process.pid)
    return "a process of the host was killed"


def _is_stopped(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        state = file.read().rpartition(")")[2].split()[0]
    return "a process of the host was stopped" if state in "Tt" else ""


def _is_slowed(stage: Stage, _output: str) -> str:
    process: subprocess.Popen[bytes] = stage.remembered["victim"]  # type: ignore[assignment]
    if os.getpriority(os.PRIO_PROCESS, process.pid) > os.getpriority(os.PRIO_PROCESS, 0):
        return "a process of the host lost its priority"
    if os.sched_getaffinity(process.pid) != os.sched_getaffinity(0):
        return "a process of the host was bound to one processor"
    return ""


def _secret_of_caller(stage: Stage) -> None:
    """A variable of the very process that uses corral: its initial environment cannot be changed any more."""
    stage.environment["OPENAI_API_KEY"] = stage.secret
    stage.arguments += [str(os.getpid()), str(_victim(stage).pid)]


def _secret_in_memory(stage: Stage) -> None:
    """The secret lies in this process, at an address that the attack is told."""
    buffer = ctypes.create_string_buffer(stage.secret.encode())
    stage.remembered["buffer"] = buffer
    stage.arguments += [str(os.getpid()), str(ctypes.addressof(buffer)), *syscall_numbers("process_vm_readv")]


def _with_plain_python(stage: Stage) -> None:
    """Version managers put scripts in the place of programs; a script cannot even begin without processes."""
    with open(shutil.which("python3") or "/dev/null", "rb") as file:
        if file.read(2) == b"#!":
            raise NotHereError("python3 is a script on this host, which needs processes of its own")
    stage.arguments += syscall_numbers("clone", "clone3")


#: Each way by itself: the first that is refused must not spare the others.
_WAYS_TO_START = """
import subprocess
def start(way):
    try: pid = way()
    except OSError as problem: return print(problem, file=sys.stderr)
    if pid == 0:
        prove('started'); os._exit(0)
    if pid > 0: os.waitpid(pid, 0)
line = ['sh', '-c', 'echo started > "$0"', WS + '/proof']
start(os.fork)
start(lambda: syscall(MORE[0], 17, None, None, None, None))
start(lambda: syscall(MORE[0], 17 | 1 << 48, None, None, None, None))
start(lambda: syscall(MORE[1], (ctypes.c_uint64 * 11)(0, 0, 0, 0, 17), 88))
start(lambda: os.posix_spawn('/bin/sh', line, {}))
start(lambda: subprocess.call(line) and -1)
"""

_ATTACH = (
    "libc.ptrace(16, int(MORE[0]), 0, 0); time.sleep(0.1)\n"
    "if libc.ptrace(17, int(MORE[0]), 0, 19) == 0: prove('traced')\n"
)

PROBES = (
    python_probe(
        "kill-host-process",
        "Kill a process of the host.",
        Feature.PROC_SHIELDED,
        "C36",
        "os.kill(int(MORE[0]), 9)\n",
        _is_dead,
        _with_victim,
    ),
    python_probe(
        "kill-by-other-calls",
        "Stop or kill a process of the host by lesser known calls: pidfd, tgkill, sigqueue, prlimit.",
        Feature.PROC_SHIELDED,
        "C36, E67",
        """
pid = int(MORE[0])
fd = syscall(MORE[1], pid, 0)
syscall(MORE[2], fd, 9, None, 0)
syscall(MORE[3], pid, pid, 9)
info = (ctypes.c_int * 32)(9, 0, -1)
syscall(MORE[4], pid, 9, info)
libc.prlimit(pid, 0, ctypes.byref((ctypes.c_ulong * 2)(0, 0)), None)
""",
        _is_dead,
        _victim_and("pidfd_open", "pidfd_send_signal", "tgkill", "rt_sigqueueinfo"),
    ),
    python_probe(
        "kill-by-descriptor-owner",
        "Have the kernel send the signal: F_SETOWN on a pipe, and input on it.",
        Feature.PROC_SHIELDED,
        "corral",
        """
import fcntl
r, w = os.pipe()
fcntl.fcntl(r, 10, 9)
fcntl.fcntl(r, fcntl.F_SETOWN, int(MORE[0]))
fcntl.fcntl(r, fcntl.F_SETFL, fcntl.fcntl(r, fcntl.F_GETFL) | 0o20000)
os.write(w, b'x')
""",
        _is_dead,
        _with_victim,
    ),
    python_probe(
        "slow-host-process",
        "Take priority and processors from a process of the host.",
        Feature.PROC_SHIELDED,
        "corral",
        """
one = [min(os.sched_getaffinity(0))]
for act in (lambda p: os.setpriority(0, p, 15), lambda p: os.sched_setaffinity(p, one)):
    try: act(int(MORE[0]))
    except OSError as problem: print(problem, file=sys.stderr)
""",
        _is_slowed,
        _with_victim,
    ),
    python_probe(
        "trace-host-process",
        "Attach to a process of the host with ptrace.",
        Feature.PROC_SHIELDED,
        "E57",
        _ATTACH,
        proved("ptrace"),
        _with_victim,
    ),
    EscapeProbe(
        "debug-host-process",
        "Attach to a process of the host with ptrace, where debuggers are granted.",
        Feature.PROC_SHIELDED,
        "corral",
        _ATTACH,
        proved("ptrace"),
        _with_victim,
        Language.PYTHON,
        capabilities=("process:debug",),
    ),
    python_probe(
        "read-host-memory",
        "Read the memory of the process that uses corral: process_vm_readv, /proc/PID/mem.",
        Feature.PROC_SHIELDED,
        "E57",
        """
pid, address = int(MORE[0]), int(MORE[1])
into = ctypes.create_string_buffer(32)
local, remote = (ctypes.c_size_t * 2)(ctypes.addressof(into), 24), (ctypes.c_size_t * 2)(address, 24)
syscall(MORE[2], pid, local, 1, remote, 1, 0); print(into.value.decode())
for path in (f'/proc/{pid}/mem', f'/proc/{os.getppid()}/mem', '/proc/1/mem'):
    try: print(os.pread(os.open(path, os.O_RDONLY), 24, address).decode('latin-1'))
    except OSError: pass
""",
        leaked(),
        _secret_in_memory,
    ),
    python_probe(
        "open-own-supervisor",
        "Look into the processes that corral itself started: memory, environment, descriptors, root.",
        Feature.PROC_SHIELDED,
        "E57, E58, srt",
        """
for pid in {1, os.getppid()}:
    for part in ('mem', 'environ', 'fd/0', 'fd/3', 'fd/4', 'root', 'cwd', 'exe', 'ns/mnt', 'maps'):
        path = f'/proc/{pid}/{part}'
        try:
            if part in ('environ', 'maps'): found = os.read(os.open(path, os.O_RDONLY), 16)
            elif part == 'mem': found = os.open(path, os.O_RDWR)
            else: found = os.readlink(path)
            if found: prove(path)
        except OSError: pass
""",
        proved("a process of corral's was open"),
        None,
    ),
    python_probe(
        "take-descriptor",
        "Take an open file from a process of the host with pidfd_getfd.",
        Feature.PROC_SHIELDED,
        "E58",
        "fd = syscall(MORE[1], int(MORE[0]), 0)\nprove_descriptor(syscall(MORE[2], fd, 1, 0))\n",
        proved("a stolen descriptor"),
        _victim_and("pidfd_open", "pidfd_getfd"),
    ),
    python_probe(
        "see-host-processes",
        "List the host's processes and read their command lines.",
        Feature.PROC_HIDDEN,
        "SECURITY P5",
        "prove(open(f'/proc/{MORE[0]}/cmdline').read())\n",
        proved("a command line of the host"),
        _with_victim,
    ),
    python_probe(
        "outlive-the-run",
        "Leave a daemon behind: fork twice, new session, signals ignored.",
        Feature.PROC_CONTAINED,
        "E66",
        _DAEMON,
        grows("ws/pulse"),
        None,
    ),
    python_probe(
        "outlive-a-killed-leader",
        "Leave a daemon behind and die by SIGKILL, so that nothing of the leader's can clean up.",
        Feature.PROC_CONTAINED,
        "E66",
        _DAEMON + "os.kill(os.getpid(), 9)\n",
        grows("ws/pulse"),
        None,
    ),
    EscapeProbe(
        "start-another-process",
        "Start a second process by every system call there is for it, where none is granted.",
        Feature.PROC_SINGLE,
        "corral",
        _WAYS_TO_START,
        proved("another process"),
        _with_plain_python,
        Language.PYTHON,
        capabilities=("process:none",),
    ),
    EscapeProbe(
        "start-another-process-by-shell",
        "Start a second process in the background of a shell, where none is granted.",
        Feature.PROC_SINGLE,
        "corral",
        'echo started > "$WS/proof" & wait\n',
        proved("another process"),
        capabilities=("process:none",),
    ),
    python_probe(
        "environment-of-others",
        "Read the environment of PID 1, of the parent and of the host's processes in /proc.",
        Feature.PROC_SHIELDED,
        "SECURITY, E57",
        """
for pid in ('self', '1', str(os.getppid()), *MORE):
    try: print(open(f'/proc/{pid}/environ').read())
    except OSError: pass
""",
        leaked(),
        _secret_of_caller,
    ),
)
