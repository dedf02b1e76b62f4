"""proc.single: the command starts no further process."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from support.confinement import attempt, python, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Attempt, Case, Script, Stage

pytestmark = pytest.mark.proves(Feature.PROC_SINGLE)

# A process that was started leaves a file.
_START = """
import ctypes, os, platform, signal, subprocess
libc = ctypes.CDLL(None, use_errno=True)
clone, flags = (56 if platform.machine() == 'x86_64' else 220), signal.SIGCHLD
{way}
if pid == 0:
    open('mark', 'w').close()
    os._exit(0)
if pid > 0: os.waitpid(pid, 0)
"""
_WAYS = {
    "fork": "pid = os.fork()",
    "clone": "pid = libc.syscall(clone, ctypes.c_ulong(flags), None, None, None, None)",
    # The reserved upper half is no way around a filter that sees 32 bits.
    "clone-high": "pid = libc.syscall(clone, ctypes.c_ulong(flags | 1 << 48), None, None, None, None)",
    "clone3": "arguments = (ctypes.c_uint64 * 11)(0, 0, 0, 0, flags)\n"
    "pid = libc.syscall(435, arguments, ctypes.c_size_t(88))",
    "posix_spawn": "pid = os.posix_spawn('/bin/sh', ['sh', '-c', ': > mark'], {})",
    "vfork": "subprocess.run(['/bin/sh', '-c', ': > mark'], check=True); pid = -1",
}
_LINES = {
    "background": ": > mark & wait",
    "pipeline": "echo word | cat > mark",
    "substitution": "seen=$(: > mark)",
    "subshell": "(: > mark)",
}

# Threads and exec are no further process: they must go on working, or too much was removed.
_THREAD_AND_EXEC = """
import os, threading
thread = threading.Thread(target=lambda: print('thread', flush=True))
thread.start(); thread.join()
try:
    if os.fork() == 0:
        open('mark', 'w').close()
        os._exit(0)
    os.wait()
except PermissionError:
    print('refused', flush=True)
os.execv('/bin/echo', ['echo', 'executed'])
"""


@pytest.mark.parametrize("way", _WAYS.values(), ids=_WAYS)
def test_no_system_call_starts_a_process(backend: Case, stage: Stage, way: str) -> None:
    assert not _attempted(backend, stage, python(_START.format(way=way))).worked


@pytest.mark.parametrize("line", _LINES.values(), ids=_LINES)
def test_a_shell_starts_no_process(backend: Case, stage: Stage, line: str) -> None:
    assert not _attempted(backend, stage, shell(line)).worked


def test_threads_and_exec_remain(backend: Case, stage: Stage) -> None:
    done = _attempted(backend, stage, python(_THREAD_AND_EXEC))

    assert not done.worked
    assert done.result.stdout_bytes.split() == [b"alive", b"thread", b"refused", b"executed"]


def _attempted(backend: Case, stage: Stage, script: Script) -> Attempt:
    mark = stage.work / "mark"
    return attempt(
        backend,
        stage,
        script,
        effect=lambda _: mark.exists(),
        reset=mark.unlink,
        capabilities=["process:none"],
    )
