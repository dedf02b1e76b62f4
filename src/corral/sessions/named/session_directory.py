"""SessionDirectory: where named sessions are reached, opened once and checked to be ours alone."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat

from corral.host.real import control_directories
from corral.model.errors import PolicyError, SetupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_NAME = 64
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
RECORD, SOCKET, LOG, OLD_LOG, LOCK = ".session", ".sock", ".log", ".log.1", ".lock"
_KINDS = (RECORD, SOCKET, LOG, OLD_LOG, LOCK)


class SessionDirectory:
    """One open directory. Everything is done by its descriptor: a path may lead elsewhere a moment later."""

    def __init__(self, path: str, handle: int) -> None:
        self.path = path
        self.handle = handle

    def close(self) -> None:
        """Release it; for those who look again and again."""
        os.close(self.handle)

    def copy(self) -> SessionDirectory:
        """The same, with a descriptor of its own."""
        return SessionDirectory(self.path, os.dup(self.handle))

    def address(self, name: str) -> str:
        """The socket of a session, in a form that is short enough for any directory."""
        return f"/proc/self/fd/{self.handle}/{name}{SOCKET}"

    def read(self, file: str, most_bytes: int) -> bytes:
        """A file in it; empty if it is not there, no file, or too large."""
        try:
            descriptor = self.open(file, os.O_RDONLY)
        except OSError:
            return b""
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > most_bytes:
                return b""
            return os.read(descriptor, most_bytes)
        finally:
            os.close(descriptor)

    def open(self, file: str, flags: int) -> int:
        """Open a file in it, never a link. Raises OSError."""
        more = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        return os.open(file, flags | more, 0o600, dir_fd=self.handle)

    def replace(self, file: str, data: bytes) -> None:
        """Write a file as a whole. Raises OSError."""
        temporary = f"{file}.{os.getpid()}"
        self.remove(temporary)
        descriptor = self.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)
        os.rename(temporary, file, src_dir_fd=self.handle, dst_dir_fd=self.handle)

    def rename(self, file: str, other: str) -> None:
        """Give a file another name in it. Raises OSError."""
        os.rename(file, other, src_dir_fd=self.handle, dst_dir_fd=self.handle)

    def remove(self, file: str) -> None:
        """Remove a file of it, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(file, dir_fd=self.handle)

    def forget(self, name: str) -> None:
        """Remove everything of a session. The caller holds its lock."""
        for kind in _KINDS:
            self.remove(f"{name}{kind}")

    def names(self) -> tuple[str, ...]:
        """The sessions that there are records of."""
        found = (file.removesuffix(RECORD) for file in os.listdir(self.handle) if file.endswith(RECORD))
        return tuple(sorted(name for name in found if is_name(name)))

    def lock(self, name: str) -> int:
        """Be the only one who starts or clears away this session: a descriptor, or -1 if another is.

        The process of a session has it for as long as it lives.
        """
        while True:
            descriptor = self.open(f"{name}{LOCK}", os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                current = os.stat(f"{name}{LOCK}", dir_fd=self.handle, follow_symlinks=False)
                if os.path.samestat(current, os.fstat(descriptor)):
                    return descriptor
            except BlockingIOError:
                os.close(descriptor)
                return -1
            except FileNotFoundError:  # cleared away a moment ago: once more
                pass
            os.close(descriptor)


def open_session_directories() -> Iterator[SessionDirectory]:
    """The directories that are there, the one for new sessions first. Raises SetupError."""
    for path in control_directories():
        place = _open(path)
        if place is not None:
            yield place


def make_session_directory() -> SessionDirectory:
    """The directory for a new session. Raises SetupError."""
    for path in control_directories()[:1]:
        try:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, mode=0o700)
        except OSError as problem:
            raise _unusable(path, problem.strerror or str(problem)) from problem
        place = _open(path)
        if place is not None:
            return place
    raise _unusable("the runtime directory", "there is neither XDG_RUNTIME_DIR nor a home directory")


def _open(path: str) -> SessionDirectory | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise _unusable(path, problem.strerror or str(problem)) from problem
    status = os.fstat(handle)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        os.close(handle)
        raise _unusable(path, "it belongs to somebody else, or others may enter it")
    return SessionDirectory(path, handle)


def _unusable(path: str, why: str) -> SetupError:
    return SetupError(
        "session-place",
        f"{path} cannot be used for sessions",
        why=why,
        fix="remove it, or give it back to yourself alone (`chmod 700`); or set XDG_RUNTIME_DIR",
    )


def is_name(name: str) -> bool:
    """Whether a session can be called so."""
    return 0 < len(name) <= _MOST_NAME and _LETTERS.issuperset(name) and name[0] not in ".-"


def check_name(name: str) -> str:
    """The name itself. Raises PolicyError."""
    if not is_name(name):
        raise PolicyError(
            "session-name",
            f"a session cannot be called {name[:80]!r}",
            why=f"a name has up to {_MOST_NAME} letters, digits, dots, underlines and hyphens, and does not "
            "begin with a dot or a hyphen",
            fix="choose another one, or leave it out to name it after the workspace",
        )
    return name


def default_name(workspace: str) -> str:
    """What the session of a workspace is called: its directory, and a number that tells it from others."""
    from binascii import crc32  # `hashlib` takes longer to import, and nobody gains from a collision

    plain = "".join(letter if letter in _LETTERS else "-" for letter in os.path.basename(workspace))
    number = crc32(workspace.encode("utf-8", "surrogateescape"))
    return f"{plain.lstrip('.-')[:48] or 'workspace'}-{number:08x}"
