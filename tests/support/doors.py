"""A door in the workspace: the command sends a descriptor of its directory out, and somebody goes through it.

While the sandbox lives, its mounts hold for such a descriptor. The question is what holds when it has ended,
and what a command of another sandbox can do with it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import threading

import pytest

from support.confinement import python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.confinement import Script

_NAME = "door"
SEND = python(f"""
import os, socket
with socket.socket(socket.AF_UNIX) as door:
    door.connect({_NAME!r})
    socket.send_fds(door, [b'.'], [os.open('.', os.O_RDONLY | os.O_DIRECTORY)])
""")


def receive(text: str) -> Script:
    """Receive a descriptor, say so, and go on with a text to which it is known as `given`."""
    return python(f"""
import os, socket
with socket.socket(socket.AF_UNIX) as door:
    door.connect({_NAME!r})
    given = socket.recv_fds(door, 1, 1)[1][0]
print('received', flush=True)
{text}
""")


class Door:
    """Receives the descriptor, after its sender has ended."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self.came = 0

    def write(self, name: str, text: str) -> None:
        """Append to a file beneath the descriptor that came, if one did and it can be."""
        with self._open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as file:
            if file >= 0:
                os.write(file, text.encode())

    def read(self, name: str) -> str:
        """What is in a file beneath the descriptor that came; nothing if it cannot be read."""
        with self._open(name, os.O_RDONLY) as file:
            return os.read(file, 1000).decode() if file >= 0 else ""

    @contextlib.contextmanager
    def _open(self, name: str, flags: int) -> Iterator[int]:
        directory = self._take()
        try:
            file = os.open(name, flags, 0o755, dir_fd=directory) if directory >= 0 else -1
        except OSError:
            file = -1
        try:
            yield file
        finally:
            for descriptor in (file, directory):
                if descriptor >= 0:
                    os.close(descriptor)

    @contextlib.contextmanager
    def handing_on(self) -> Iterator[None]:
        """Give the descriptor that came to each command that comes next. Its sender has ended."""
        directory = self._take()
        if directory < 0:
            raise RuntimeError("no descriptor came: there is nothing to hand on")
        self._listening.setblocking(True)
        giving = threading.Thread(target=self._give, args=(directory,))
        giving.start()
        try:
            yield
        finally:
            self._listening.shutdown(socket.SHUT_RDWR)  # which ends the wait for another one
            giving.join()
            os.close(directory)

    def _give(self, directory: int) -> None:
        while True:
            try:
                caller, _ = self._listening.accept()
            except OSError:
                return
            with caller:
                socket.send_fds(caller, [b"."], [directory])

    def _take(self) -> int:
        try:
            caller, _ = self._listening.accept()
        except BlockingIOError:
            return -1
        with caller:
            _, descriptors, _, _ = socket.recv_fds(caller, 1, 1)
        self.came += len(descriptors)
        return descriptors[0] if descriptors else -1


@contextlib.contextmanager
def open_door(directory: Path) -> Iterator[Door]:
    """A socket in a directory whose path may be too long for an address."""
    handle = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"/proc/self/fd/{handle}/{_NAME}")
        os.close(handle)
        listening.setblocking(False)
        listening.listen()
        yield Door(listening)


@contextlib.contextmanager
def redirected(number: int, path: Path, flags: int) -> Iterator[None]:
    """One of our stdin, stdout and stderr leads to a file for a while, and so does that of who is started."""
    kept = os.dup(number)
    opened = os.open(path, flags)
    os.dup2(opened, number)
    os.close(opened)
    try:
        yield
    finally:
        os.dup2(kept, number)
        os.close(kept)


def make_null_device(path: Path) -> Path:
    """A null device of the test's own: nothing that is tried is tried on the host's."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        path.chmod(0o666)
        os.close(os.open(path, os.O_RDWR))
    except OSError as problem:
        pytest.skip(f"no device file can be made or used here: {problem.strerror}")
    return path


def make_deep_directory(top: Path) -> int:
    """A descriptor of a directory whose path is longer than the kernel can tell."""
    handle = os.open(top, os.O_PATH | os.O_DIRECTORY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=handle)
        deeper = os.open("d" * 200, os.O_PATH | os.O_DIRECTORY, dir_fd=handle)
        os.close(handle)
        handle = deeper
    return handle
