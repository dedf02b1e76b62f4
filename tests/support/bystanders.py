"""Things of the host that a confined command might get at: sockets, a process, shared memory."""

from __future__ import annotations

import ctypes
import os
import select
import socket
import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


class Listener:
    """A socket of the host. What has arrived is there as soon as the sender is gone."""

    def __init__(self, family: int, kind: int, address: object) -> None:
        self._socket = socket.socket(family, kind)
        self._socket.bind(address)  # type: ignore[arg-type]
        if kind == socket.SOCK_STREAM:
            self._socket.listen(8)
        self._socket.setblocking(False)
        self.is_stream = kind == socket.SOCK_STREAM
        self.address = self._socket.getsockname()

    def take(self) -> bytes:
        """Everything that came since the last time."""
        try:
            if not self.is_stream:
                return self._socket.recv(4096)
            peer, _ = self._socket.accept()
        except BlockingIOError:
            return b""
        with peer:
            peer.settimeout(5)
            return peer.recv(4096) or b"connected"

    def close(self) -> None:
        self._socket.close()


# It lets anyone of the same user trace it (Yama), and answers each line: so it can be asked whether it lives.
_VICTIM = """
import ctypes, sys
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)
print('ready', flush=True)
for line in sys.stdin:
    print(line, end='', flush=True)
"""


class Victim:
    """A process of the host. Its secret is in its environment and in its arguments, its number in a file."""

    def __init__(self, number: Path) -> None:
        self._number = number
        self._process: subprocess.Popen[bytes] | None = None
        self.secret = f"secret-{os.urandom(8).hex()}"
        self.revive()

    def revive(self) -> None:
        """Start it, in place of one that was killed."""
        if self._process is not None:
            self.close()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _VICTIM, self.secret],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"SECRET": self.secret},
            close_fds=True,
        )
        if self._read() != b"ready\n":
            raise RuntimeError("the victim did not start")
        self._number.write_text(str(self._process.pid))

    def is_dead(self) -> bool:
        """It does not answer. A fatal signal that was sent before the question is taken before the answer."""
        try:
            self._process.stdin.write(b"ping\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return True
        return self._read() != b"ping\n"

    def _read(self) -> bytes:
        readable, _, _ = select.select([self._process.stdout], [], [], 10)
        return self._process.stdout.readline() if readable else b""

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class SharedMemory:
    """A System V segment of the host."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.shmat.restype = ctypes.c_void_p
        self.key = int.from_bytes(os.urandom(3), "little") + 1
        self._id = self._libc.shmget(self.key, ctypes.c_size_t(4096), 0o1600)
        if self._id < 0:
            raise RuntimeError("there is no shared memory on this host")
        self._at = self._libc.shmat(self._id, None, 0)

    def content(self) -> bytes:
        return ctypes.string_at(self._at, 4)

    def clear(self) -> None:
        ctypes.memset(self._at, 0, 4)

    def close(self) -> None:
        self._libc.shmdt(ctypes.c_void_p(self._at))
        self._libc.shmctl(self._id, 0, None)
