"""Attacks by way of the host's sockets, shared memory, queues and keys."""

from __future__ import annotations

import ctypes
import os
import socket

from corral.model.feature import Feature
from corral.selftest.judge import leaked, proved, received, written
from corral.selftest.numbers import syscall_numbers
from corral.selftest.probe import EscapeProbe, Language, NotHereError, where_mounted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.selftest.probe import Judge, Setup
    from corral.selftest.stage import Stage

_IPC_CREAT, _IPC_RMID, _BYTES = 0o1000, 0, 64


def _stream_socket(stage: Stage) -> None:
    stage.listen("Unix", socket.AF_UNIX, socket.SOCK_STREAM, stage.at("out/docker.sock"))


def _datagram_socket(stage: Stage) -> None:
    stage.listen("Unix", socket.AF_UNIX, socket.SOCK_DGRAM, stage.at("out/log.sock"))


def _workspace_socket(stage: Stage) -> None:
    stage.listen("Unix", socket.AF_UNIX, socket.SOCK_STREAM, stage.at("ws/service.sock"))


def _abstract_socket(stage: Stage) -> None:
    stage.listen("Unix", socket.AF_UNIX, socket.SOCK_STREAM, "\0corral-" + stage.token)


def _ring(stage: Stage) -> None:
    stage.arguments += syscall_numbers("io_uring_setup")


def _segment(stage: Stage) -> None:
    """A shared memory segment of the host with the secret in it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    key = int(stage.token[:7], 16)
    number = libc.shmget(key, _BYTES, _IPC_CREAT | 0o600)
    if number < 0:
        raise NotHereError("no System V shared memory here")
    stage.on_leaving(lambda: libc.shmctl(number, _IPC_RMID, None))
    address = ctypes.c_void_p(libc.shmat(number, None, 0))
    ctypes.memmove(address, stage.secret.encode(), len(stage.secret))
    libc.shmdt(address)
    stage.arguments += [str(key), str(number)]


def _queue(stage: Stage) -> None:
    """A message queue of the host with the secret in it."""
    libc = ctypes.CDLL(None, use_errno=True)
    key = int(stage.token[:7], 16)
    number = libc.msgget(key, _IPC_CREAT | 0o600)
    if number < 0:
        raise NotHereError("no System V message queues here")
    stage.on_leaving(lambda: libc.msgctl(number, _IPC_RMID, None))
    message = ctypes.c_long(1).value.to_bytes(ctypes.sizeof(ctypes.c_long), "little") + stage.secret.encode()
    libc.msgsnd(number, message, len(stage.secret), 0)
    stage.arguments += [str(key), str(number)]


def _posix_memory(stage: Stage) -> None:
    path = f"/dev/shm/corral-{stage.token}"
    if not os.path.isdir("/dev/shm"):
        raise NotHereError("there is no /dev/shm")
    with open(path, "w", encoding="ascii") as file:
        file.write(stage.secret)
    stage.on_leaving(lambda: os.unlink(path))
    stage.arguments.append(path)


def _fifo(stage: Stage) -> None:
    """A named pipe of the host; a reader holds it open, so that a writer need not wait."""
    path = stage.at("out/pipe")
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    stage.on_leaving(lambda: os.close(descriptor))
    stage.remembered["pipe"] = descriptor


def _has_pipe_bytes(stage: Stage, _output: str) -> str:
    try:
        found = os.read(int(str(stage.remembered["pipe"])), 100)
    except BlockingIOError:
        return ""
    return "the host's named pipe was written" if stage.token.encode() in found else ""


def _other_project(stage: Stage) -> None:
    os.mkdir(stage.at("out/project"))


def _key(stage: Stage) -> None:
    """A key with the secret in the keyring of the caller's session."""
    numbers = [int(text) for text in syscall_numbers("add_key", "keyctl")]
    libc = ctypes.CDLL(None, use_errno=True)
    name, payload = f"corral-{stage.token}".encode(), stage.secret.encode()
    serial = libc.syscall(numbers[0], b"user", name, payload, len(payload), -4)
    if serial < 0:
        raise NotHereError("the kernel keeps no keys for this user")
    stage.on_leaving(lambda: libc.syscall(numbers[1], 21, serial, 0, 0, 0))  # KEYCTL_INVALIDATE
    stage.arguments += [str(numbers[1]), str(serial)]


def _ipc(  # noqa: PLR0917 (the fields of a probe, in their order)
    name: str,
    title: str,
    source: str,
    script: str,
    judge: Judge,
    setup: Setup,
    *,
    feature: Feature = Feature.IPC_PRIVATE,
    limits: tuple[tuple[str, str], ...] = (),
) -> EscapeProbe:
    return EscapeProbe(name, title, feature, source, script, judge, setup, Language.PYTHON, limits=limits)


PROBES = (
    _ipc(
        "unix-socket",
        "Connect to a service's Unix socket, such as docker.sock.",
        "C26, C29, landrun #43",
        "s = socket.socket(socket.AF_UNIX); s.connect(OUT + '/docker.sock'); s.send(b'GET /')\n",
        received("Unix"),
        _stream_socket,
        feature=Feature.NET_NONE,
    ),
    _ipc(
        "unix-socket-by-proc",
        "The same by the detour of /proc/self/root and a symbolic link.",
        "C26, A4",
        """
os.symlink(OUT + '/docker.sock', 's')
for path in ('s', '/proc/self/root' + OUT + '/docker.sock', '../out/docker.sock'):
    try: socket.socket(socket.AF_UNIX).connect(path)
    except OSError: pass
""",
        received("Unix"),
        _stream_socket,
        feature=Feature.NET_NONE,
    ),
    _ipc(
        "unix-datagram",
        "Send a datagram to a service's Unix socket.",
        "C31, nono #1096",
        "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', OUT + '/log.sock')\n",
        received("Unix"),
        _datagram_socket,
        feature=Feature.NET_NONE,
    ),
    _ipc(
        "unix-datagram-by-pair",
        "Send to a service's Unix socket from one end of a datagram pair.",
        "corral",
        "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', OUT + '/log.sock')\n",
        received("Unix"),
        _datagram_socket,
        feature=Feature.NET_NONE,
    ),
    _ipc(
        "unix-socket-in-workspace",
        "Connect to a service's Unix socket that lies in the workspace.",
        "corral",
        "socket.socket(socket.AF_UNIX).connect(WS + '/service.sock')\n",
        received("Unix"),
        _workspace_socket,
        feature=Feature.NET_NONE,
        limits=where_mounted("sockets of the host inside a granted directory are documented as not covered"),
    ),
    _ipc(
        "abstract-socket",
        "Connect to an abstract Unix socket of the host.",
        "C32, bubblewrap #330",
        "socket.socket(socket.AF_UNIX).connect('\\0corral-' + TOKEN)\n",
        received("Unix"),
        _abstract_socket,
    ),
    _ipc(
        "io-uring",
        "Set up an io_uring, which opens sockets and files out of the filter's sight.",
        "C33, codex #10814",
        "prove_descriptor(syscall(MORE[0], 8, ctypes.create_string_buffer(256)))\n",
        proved("io_uring"),
        _ring,
        feature=Feature.SYSCALLS,
    ),
    _ipc(
        "shared-memory-segment",
        "Attach a System V shared memory segment of a host process.",
        "C35, codex #39586",
        """
libc.shmat.restype = ctypes.c_void_p
for number in (libc.shmget(int(MORE[0]), 0, 0), int(MORE[1])):
    address = libc.shmat(number, None, 0)
    if address and address != ctypes.c_void_p(-1).value: print(ctypes.string_at(address, 24).decode())
""",
        leaked(),
        _segment,
    ),
    _ipc(
        "message-queue",
        "Take a message out of a System V queue of a host process.",
        "C35",
        """
for number in (libc.msgget(int(MORE[0]), 0), int(MORE[1])):
    message = ctypes.create_string_buffer(72)
    if libc.msgrcv(number, message, 64, 0, 0o4000) > 0: print(message.raw[8:].rstrip(bytes(1)).decode())
""",
        leaked(),
        _queue,
    ),
    _ipc(
        "posix-shared-memory",
        "Read a POSIX shared memory object of a host process in /dev/shm.",
        "C35, isolate 2.6",
        "print(open(MORE[0]).read())\n",
        leaked(),
        _posix_memory,
        feature=Feature.FS_READ,
    ),
    _ipc(
        "named-pipe",
        "Write commands into a named pipe that a host process reads.",
        "SECURITY",
        "fd = os.open(OUT + '/pipe', os.O_WRONLY | os.O_NONBLOCK); os.write(fd, TOKEN.encode())\n",
        _has_pipe_bytes,
        _fifo,
        feature=Feature.FS_WRITE,
    ),
    _ipc(
        "session-key",
        "Read a key in the keyring of the caller's session, which no namespace separates.",
        "E61",
        """
payload = ctypes.create_string_buffer(64)
if syscall(MORE[0], 11, int(MORE[1]), payload, 64) > 0: print(payload.value.decode())
""",
        leaked(),
        _key,
    ),
    EscapeProbe(
        "workspace-of-another",
        "Write into another project's directory beside the workspace.",
        Feature.FS_WRITE,
        "corral",
        'echo "$TOKEN" > "$WS/../out/project/main.py"',
        written("out/project/main.py"),
        _other_project,
    ),
)
