"""Attacks on the kernel's doors: namespaces, foreign system-call tables, calls that exploits are made of."""

from __future__ import annotations

import os

from corral.model.feature import Feature
from corral.selftest.judge import proved, written
from corral.selftest.numbers import syscall_numbers
from corral.selftest.probe import EscapeProbe, Language, NotHereError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.selftest.probe import Judge, Setup
    from corral.selftest.stage import Stage

_X32_BIT = 0x4000_0000


def _numbers(*names: str) -> Setup:
    def setup(stage: Stage) -> None:
        stage.arguments += syscall_numbers(*names)

    return setup


def _only_x86(stage: Stage) -> None:
    if os.uname().machine != "x86_64":
        raise NotHereError("only x86_64 has a second system-call table")
    stage.arguments += syscall_numbers("socket")


def _repository(stage: Stage) -> None:
    stage.repository()


def _repository_and_mount_calls(stage: Stage) -> None:
    stage.repository()
    stage.arguments += syscall_numbers("mount_setattr", "open_tree", "move_mount")


def _set_user_id(stage: Stage) -> None:
    """A program that belongs to root and has the set-user-ID bit, where the attack is not root itself."""
    for path in ("/usr/bin/su", "/bin/su", "/usr/bin/passwd", "/usr/bin/mount", "/usr/bin/newgrp"):
        if os.path.exists(path) and os.stat(path).st_mode & 0o4000:
            stage.arguments.append(path)
            return
    raise NotHereError("there is no set-user-ID program on this host")


def _typed(stage: Stage, _output: str) -> str:
    """Whether the token waits in the input of the terminal, as if the user had typed it."""
    terminal = int(str(stage.remembered["terminal"]))
    os.set_blocking(terminal, False)
    try:
        found = os.read(terminal, 4096)
    except OSError:
        return ""
    return "the text was typed into the caller's terminal" if stage.token.encode() in found else ""


def _legacy_terminal(stage: Stage) -> None:
    del stage
    try:
        with open("/proc/sys/dev/tty/legacy_tiocsti", encoding="ascii") as file:
            is_off = file.read().strip() == "0"
    except OSError:
        return  # older kernels always permit it
    if is_off and os.geteuid() != 0:
        raise NotHereError("this kernel has TIOCSTI switched off (dev.tty.legacy_tiocsti)")


def _kernel(  # noqa: PLR0917 (the fields of a probe, in their order)
    name: str, title: str, feature: Feature, source: str, script: str, judge: Judge, setup: Setup
) -> EscapeProbe:
    return EscapeProbe(name, title, feature, source, script, judge, setup, Language.PYTHON)


def _descriptor_call(name: str, call: str, title: str, arguments: str, source: str = "E61") -> EscapeProbe:
    """A call that yields a descriptor; the name that the kernel gives to it is the proof."""
    script = f"prove_descriptor(syscall(MORE[0], {arguments}))\n"
    return _kernel(name, title, Feature.SYSCALLS, source, script, proved(call), _numbers(call))


#: socket(AF_UNIX, SOCK_STREAM, 0), number 359 of i386.
_INT80 = r"""
import mmap, struct
code = bytes([0x53, 0xB8]) + struct.pack('<I', 359) + bytes([0xBB]) + struct.pack('<I', 1) + bytes([0xB9]) \
    + struct.pack('<I', 1) + bytes([0x31, 0xD2, 0xCD, 0x80, 0x5B, 0xC3])
page = mmap.mmap(-1, 4096, prot=7)
page.write(code)
function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
prove_descriptor(function())
"""

# TRUST: as root and unconfined these calls would change the mounts of the host itself. They are made only in
# a mount namespace of the attack's own, or by a process that has no capability in any other.
_REMOUNT = """
own = libc.unshare(0x20000) == 0 and libc.mount(None, b'/', None, 0x44000, None) == 0
powerless = any(line.split() == ['CapEff:', '0' * 16] for line in open('/proc/self/status')) \\
    if os.path.exists('/proc/self/status') else not own
if own or powerless:
    for path in (b'.git/hooks', b'.git'):
        libc.mount(None, path, None, 0x1020, None)
        syscall(MORE[0], -100, ctypes.c_char_p(path), 0, ctypes.c_char_p(bytes(8) + b'\\1' + bytes(23)), 32)
        fd = syscall(MORE[1], -100, ctypes.c_char_p(path), 1)
        if fd >= 0: syscall(MORE[2], fd, ctypes.c_char_p(b''), -100, ctypes.c_char_p(path), 4)
open('.git/hooks/pre-commit', 'w').write(TOKEN)
"""

_TIOCSTI = """
import fcntl, termios
targets = [0, 1, 2]
try: targets.append(os.open('/dev/tty', os.O_RDWR))
except OSError: pass
for fd in targets:
    for request in (0x5412, 0x1_0000_5412):
        libc.ioctl(fd, ctypes.c_ulong(0x540E), 1)
        for byte in (TOKEN + '\\n').encode():
            libc.ioctl(fd, ctypes.c_ulong(request), ctypes.byref(ctypes.c_char(byte)))
"""

PROBES = (
    _kernel(
        "user-namespace",
        "Make a user namespace, in which one has every capability.",
        Feature.PRIVILEGES,
        "E61, OpenShell #578",
        """
before = os.stat('/proc/self/ns/user').st_ino if os.path.exists('/proc/self/ns/user') else 0
if libc.unshare(0x10000000) == 0: prove(f'{before}: a new one was made')
""",
        proved("user namespace"),
        _numbers("unshare"),
    ),
    _kernel(
        "user-namespace-by-clone3",
        "The same with clone3, whose flags a filter cannot see.",
        Feature.PRIVILEGES,
        "E61",
        """
import struct
arguments = struct.pack('<8Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0)
pid = syscall(MORE[0], ctypes.c_char_p(arguments), len(arguments))
if pid == 0: prove('a child in a new user namespace'); os._exit(0)
if pid > 0: os.waitpid(pid, 0)
""",
        proved("user namespace"),
        _numbers("clone3"),
    ),
    _kernel(
        "unmount-shield",
        "Make a user and mount namespace, take the protecting mounts away and plant a hook.",
        Feature.FS_PROTECT,
        "A15, OpenShell #578",
        """
libc.unshare(0x10020000)
for path in (b'.git/hooks', b'.git', b'.git/hooks'): libc.umount2(path, 2)
open('.git/hooks/pre-commit', 'w').write(TOKEN)
""",
        written("ws/.git/hooks/pre-commit"),
        _repository,
    ),
    _kernel(
        "remount-writable",
        "Make the read-only file systems writable again: mount(2), mount_setattr(2), the new mount calls.",
        Feature.FS_PROTECT,
        "SECURITY",
        _REMOUNT,
        written("ws/.git/hooks/pre-commit"),
        _repository_and_mount_calls,
    ),
    _kernel(
        "x32-table",
        "Make a socket through the x32 system-call table, which filters forget.",
        Feature.SYSCALLS,
        "E55, firejail",
        f"prove_descriptor(syscall({_X32_BIT} | int(MORE[0]), 1, 1, 0))\n",
        proved("x32 socket"),
        _only_x86,
    ),
    _kernel(
        "i386-table",
        "Make a socket by `int 0x80`, through the 32-bit system-call table.",
        Feature.SYSCALLS,
        "E56, isolate 2.6",
        _INT80,
        proved("i386 socket"),
        _only_x86,
    ),
    _descriptor_call(
        "userfaultfd", "userfaultfd", "Open a userfaultfd, which makes kernel races easy to win.", "0"
    ),
    _descriptor_call(
        "perf-event",
        "perf_event_open",
        "Open a performance counter.",
        "ctypes.c_char_p(b'\\1\\0\\0\\0\\x70\\0\\0\\0' + bytes(104)), 0, -1, -1, 0",
    ),
    _descriptor_call(
        "bpf-map",
        "bpf",
        "Make a BPF map.",
        "0, ctypes.c_char_p(b'\\2\\0\\0\\0\\4\\0\\0\\0\\4\\0\\0\\0\\1\\0\\0\\0' + bytes(112)), 128",
    ),
    _descriptor_call("fanotify", "fanotify_init", "Watch the whole file system with fanotify.", "0x200, 0"),
    _descriptor_call(
        "new-file-system",
        "fsopen",
        "Have the kernel prepare a new file system.",
        "ctypes.c_char_p(b'tmpfs'), 1",
    ),
    _kernel(
        "add-key",
        "Add a key to the keyring of the caller's session.",
        Feature.SYSCALLS,
        "E61",
        """
text = ctypes.c_char_p
serial = syscall(MORE[0], text(b'user'), text(b'corral-selftest'), text(b'x'), 1, -4)
if serial > 0: prove(f'key {serial}'); syscall(MORE[1], 21, serial, 0, 0, 0)
""",
        proved("key"),
        _numbers("add_key", "keyctl"),
    ),
    _kernel(
        "personality",
        "Switch address randomisation off for what is run next.",
        Feature.SYSCALLS,
        "SECURITY",
        "if libc.personality(0x40000) >= 0 and libc.personality(0xffffffff) & 0x40000: prove('no ASLR')\n",
        proved("personality"),
        _numbers("personality"),
    ),
    EscapeProbe(
        "set-user-id",
        "Become root with a set-user-ID program.",
        Feature.PRIVILEGES,
        "E60, OpenShell #585",
        """
import subprocess
child = subprocess.Popen([MORE[0]], stdin=subprocess.PIPE, stdout=-3, stderr=-3)  # DEVNULL
end = time.monotonic() + 1
while time.monotonic() < end and child.poll() is None:
    for line in open(f'/proc/{child.pid}/status'):
        if line.startswith('Uid:') and line.split()[2] == '0' and os.geteuid() != 0: prove('effective user 0')
child.kill()
""",
        proved("a set-user-ID program ran with its rights"),
        _set_user_id,
        language=Language.PYTHON,
    ),
    EscapeProbe(
        "capabilities-of-root",
        "As root, use a capability: change an owner, take another group, raise the priority.",
        Feature.PRIVILEGES,
        "SECURITY",
        """
open('f', 'w').close()
for act in (lambda: os.chown('f', 1, 1), lambda: os.setgid(12345), lambda: os.nice(-5)):
    try: act(); prove(act.__code__.co_names)
    except OSError: pass
""",
        proved("a capability was used"),
        language=Language.PYTHON,
    ),
    EscapeProbe(
        "type-into-terminal",
        "Type a command into the caller's terminal (TIOCSTI), also with the upper bits set.",
        Feature.TERMINAL,
        "E59, CVE-2017-5226, CVE-2019-10063",
        _TIOCSTI,
        _typed,
        _legacy_terminal,
        language=Language.PYTHON,
        needs_terminal=True,
        runner_holds="the command has a session of its own" if os.geteuid() else "",
    ),
)
