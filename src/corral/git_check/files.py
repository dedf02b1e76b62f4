"""Files of a git directory that a command may have written: by descriptor, without following a link."""

from __future__ import annotations

import errno
import os
import stat
import sys

from corral.git_formats.pointer import is_head
from corral.untrusted_files.removal import open_up
from corral.untrusted_files.unchanged import latest_ns, tells_of_mappings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Entry = tuple[str, bool, bool]  # a name, and whether it is a directory, a regular file

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NAME = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
MOST_TEXT_BYTES = 4 << 20
_MOST_NAME_BYTES = 65  # of an object, with the end of the line
_HEX_AND_NEWLINE = b"0123456789abcdef\n"
_TRIES = 3
_NOTHING = (FileNotFoundError, NotADirectoryError)
_NO_DIRECTORY = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
_NO_FILE = frozenset({errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.EISDIR})


def link_text(handle: int, name: str) -> bytes:
    try:
        return os.fsencode(os.readlink(name, dir_fd=handle))
    except OSError:
        return b""


def entries_of(handle: int) -> Iterator[Entry]:
    with os.scandir(handle) as entries:
        for entry in entries:
            yield entry.name, entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False)


def inside(handle: int, name: str, *, may_open: bool = True) -> Iterator[int]:
    """A subdirectory, once, for as long as it is needed; not at all if it is gone."""
    inner = open_directory(handle, name, may_open=may_open)
    if inner >= 0:
        try:
            yield inner
        finally:
            os.close(inner)


def open_directory(handle: int, name: str, *, may_open: bool = True) -> int:
    """A descriptor of a directory; -1 if there is none of that name, or only a link to one.

    A command may have taken its owner's rights away. What the host has closed stays closed: before commands
    that is an error.
    """
    try:
        inner = os.open(name, _DIRECTORY, dir_fd=handle)
    except PermissionError:
        if not may_open:
            raise
        return open_up(handle, name)
    except OSError as problem:
        if problem.errno in _NO_DIRECTORY:
            return -1
        raise
    if may_open:
        _let_owner_in(inner)
    return inner


def _let_owner_in(handle: int) -> None:
    """With the right to read alone, nothing in a directory can be looked at."""
    status = os.fstat(handle)
    if status.st_mode & 0o500 != 0o500 and status.st_uid == os.geteuid() != 0:
        os.fchmod(handle, stat.S_IMODE(status.st_mode) | 0o700)


def reopen(path: str, mode: int) -> None:
    """Give a directory's owner the rights back that he had when this was its mode, if it is there."""
    try:
        handle = os.open(path, _NAME | os.O_DIRECTORY)
    except OSError:
        return  # who opens it to look into it is told
    try:
        status = os.fstat(handle)
        missing = mode & 0o700 & ~status.st_mode
        if missing and status.st_uid == os.geteuid():
            place = f"/proc/self/fd/{handle}" if sys.platform == "linux" else handle
            os.chmod(place, stat.S_IMODE(status.st_mode) | missing)
    finally:
        os.close(handle)


def descend(handle: int, path: str, *, may_open: bool = True) -> int:
    """A descriptor of a directory further down, reached without following a link; -1 if there is none."""
    here = os.dup(handle)
    for part in filter(None, path.split("/")):
        above = here
        try:
            here = open_directory(above, part, may_open=may_open)
        finally:
            os.close(above)
        if here < 0:
            break
    return here


def has_no_link(path: str) -> bool:
    """Whether nothing on an absolute path is a link, and nothing hides whether it is.

    Name by name: a path may be too long for the kernel here, and short enough for who begins further down.
    """
    parts = [part for part in path.split("/") if part not in {"", "."}]
    obstacle = _first_obstacle(os.open("/", _NAME), parts)
    if obstacle is None:
        return True
    number, problem = obstacle
    # Nobody comes where nothing is; nor does anything lead back.
    return isinstance(problem, _NOTHING) and ".." not in parts[number:]


def is_there(handle: int, path: str) -> bool:
    """Whether there is anything at a path below a directory, also behind a link; if nobody can say, yes."""
    obstacle = _first_obstacle(os.dup(handle), [*filter(None, path.split("/"))])
    return obstacle is None or not isinstance(obstacle[1], _NOTHING)


def _first_obstacle(here: int, parts: list[str]) -> tuple[int, OSError | None] | None:
    """What stands in the way of going name by name: the number of the name, and an error, or None for a link.

    Nothing if nothing does. Closes the descriptor that it is given.
    """
    try:
        for number, part in enumerate(parts):
            try:
                inner = os.open(part, _NAME, dir_fd=here)
            except OSError as problem:
                return number, problem
            os.close(here)
            here = inner
            if stat.S_ISLNK(os.fstat(here).st_mode):
                return number, None
    finally:
        os.close(here)
    return None


def is_gone(path: str) -> bool:
    """Not merely out of sight."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def is_whole(handle: int) -> bool:
    """Whether git takes it for a git directory. Where it does not, it goes up and works in another one."""
    head = read_file(handle, "HEAD") or b""
    return is_head(head) and all(_is_open(handle, name) for name in ("objects", "refs"))


def is_git_directory(handle: int) -> bool:
    """Whether git might take it for one: with all that it needs, or with a word on where that is."""
    others = ("objects", "refs")
    has_others = has_entry(handle, "commondir") or all(has_entry(handle, name) for name in others)
    return has_others and has_entry(handle, "HEAD")


def _is_open(handle: int, name: str) -> bool:
    try:
        status = os.stat(name, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_mode & 0o700 == 0o700


def in_the_way(handle: int) -> list[str]:
    """What stands in the place of `HEAD`, `objects` or `refs`, and has to go before these can be made."""
    wrong = ["HEAD"] if has_entry(handle, "HEAD") and not is_head(read_file(handle, "HEAD") or b"") else []
    return wrong + [
        name for name in ("objects", "refs") if has_entry(handle, name) and not _is_kept(handle, name)
    ]


def _is_kept(handle: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode)


def make_whole(handle: int, head: bytes) -> None:
    """Put back what makes it a git directory. Links and the like have been removed."""
    _let_owner_write(handle)
    if not has_entry(handle, "HEAD"):
        write_new(handle, "HEAD", head)
    for name in ("objects", "refs"):
        if not has_entry(handle, name):
            os.mkdir(name, dir_fd=handle)
        elif not _is_open(handle, name):
            os.close(open_up(handle, name))


def _let_owner_write(handle: int) -> None:
    status = os.fstat(handle)
    if status.st_mode & 0o300 != 0o300 and status.st_uid == os.geteuid():
        os.fchmod(handle, stat.S_IMODE(status.st_mode) | 0o700)


def write_new(handle: int, name: str, content: bytes) -> None:
    """Make a file that is not there."""
    with os.fdopen(os.open(name, _NEW_FILE, 0o644, dir_fd=handle), "wb") as file:
        file.write(content)


def changed_ns(handle: int, name: str) -> int:
    """When it was last changed, or renamed, at the latest, which nobody can set; 0 if it is gone."""
    try:
        return latest_ns(os.stat(name, dir_fd=handle, follow_symlinks=False).st_ctime_ns)
    except FileNotFoundError:
        return 0


def names_of(handle: int, name: str) -> int:
    """How many names a file has; 0 if it is gone."""
    try:
        return os.stat(name, dir_fd=handle, follow_symlinks=False).st_nlink
    except FileNotFoundError:
        return 0


def has_entry(handle: int, name: str) -> bool:
    """Whether there is anything of that name."""
    try:
        os.stat(name, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def identity_of(handle: int, name: str, count: Callable[[int], None] = lambda _: None) -> bytes:
    """What tells a file that is not read from others, and from itself after a change; empty if it is gone.

    Where a change by mapping leaves no new time it is read after all; `count` is told how many bytes.
    """
    try:
        status = os.stat(name, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        return b""
    identity = repr((status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns)).encode()
    return identity if tells_of_mappings(status.st_dev) else identity + _digest_of(handle, name, count)


def _digest_of(handle: int, name: str, count: Callable[[int], None]) -> bytes:
    """Of a file's content; empty for what is no file."""
    for descriptor, size in _opened(handle, name):
        from hashlib import file_digest

        count(size)
        with open(descriptor, "rb", closefd=False) as file:
            return file_digest(file, "sha256").digest()
    return b""


def read_file(
    handle: int, name: str, limit: int = MOST_TEXT_BYTES, count: Callable[[int], None] = lambda _: None
) -> bytes | None:
    """The content of a file; None if it is not a file, or larger than the limit, or gone, or never the same.

    `count` is told how many bytes are about to be read.
    """
    for descriptor, _ in _opened(handle, name):
        for _ in range(_TRIES):
            size = os.fstat(descriptor).st_size
            if size > limit:
                break
            count(size)
            data = os.pread(descriptor, size + 1, 0)
            if len(data) == size:
                return data
    return None


def read_head(handle: int, name: str, most: int, count: Callable[[int], None]) -> bytes | None:
    """The first bytes of a file; None if it is not a file, or gone."""
    for descriptor, size in _opened(handle, name):
        count(min(size, most))
        return os.pread(descriptor, most, 0)
    return None


def is_reference(handle: int, name: str) -> bool:
    """Whether it is a file with the name of an object and nothing else. Quick: there may be very many."""
    try:
        descriptor = os.open(name, _FILE, dir_fd=handle)
    except OSError:
        return False
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_size > _MOST_NAME_BYTES:
            return False
        data = os.read(descriptor, _MOST_NAME_BYTES + 1)
    finally:
        os.close(descriptor)
    return len(data) == status.st_size and data.rstrip(b"\n").isalnum() and not data.strip(_HEX_AND_NEWLINE)


def _opened(handle: int, name: str) -> Iterator[tuple[int, int]]:
    """A regular file and its size, once, for as long as it is needed; not at all if there is none."""
    try:
        descriptor = _open_file(handle, name)
    except OSError as problem:
        if problem.errno in _NO_FILE:
            return
        raise
    try:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            yield descriptor, status.st_size
    finally:
        os.close(descriptor)


def _open_file(handle: int, name: str) -> int:
    try:
        return os.open(name, _FILE, dir_fd=handle)
    except PermissionError:
        if sys.platform != "linux":
            os.chmod(name, 0o600, dir_fd=handle, follow_symlinks=False)
            return os.open(name, _FILE, dir_fd=handle)
        path_only = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
        try:
            os.chmod(f"/proc/self/fd/{path_only}", 0o600)
            return os.open(f"/proc/self/fd/{path_only}", _FILE & ~os.O_NOFOLLOW)
        finally:
            os.close(path_only)
