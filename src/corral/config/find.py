"""Find the files that configure a run: the user's own, and those of the project, upwards from a directory.

On the way of every `corral run`: nothing is imported here that takes time, and nothing is parsed.
"""

from __future__ import annotations

import os
import stat

from corral.host import config_directory
from corral.model.errors import PolicyError
from corral.model.record import Record

FILE_NAMES = ("corral.toml", "corral.json")
PYPROJECT = "pyproject.toml"
PREFIX = "CORRAL_"
#: Variables that are no settings: the mark inside a sandbox, another launcher.
OTHER_VARIABLES = frozenset({"CORRAL_SANDBOX", "CORRAL_LAUNCHER", "CORRAL_CONFIG", "CORRAL_AGENT"})
_MOST_BYTES = 1024 * 1024


class Found(Record):
    """A file as it was read, once: what is parsed is what was hashed."""

    path: str
    text: str
    is_project: bool


def find_user_file(named: str | None = None) -> Found | None:
    """The user's file: the one that was named (empty: none), or the one in the configuration directory."""
    if named is not None:
        return read_named(named) if named else None
    directory = config_directory()
    found = [_read(os.path.join(directory, name), is_project=False) for name in FILE_NAMES if directory]
    files = [file for file in found if file is not None]
    if len(files) > 1:
        raise PolicyError(
            "two-files",
            "your configuration is not clear",
            why=f"there are both {files[0].path} and {files[1].path}",
            fix="keep one of them",
        )
    return files[0] if files else None


def find_project_files(directory: str) -> list[Found]:
    """The project's files, from the nearest to the outermost. All of them count, since each only narrows."""
    found = []
    owners = {0, os.geteuid(), os.stat(directory).st_uid}
    while True:
        for name in (*FILE_NAMES, PYPROJECT):
            file = _read(os.path.join(directory, name), is_project=True, owners=owners)
            if file is not None and (name != PYPROJECT or "corral" in file.text):
                found.append(file)
        if directory == "/":
            return found
        directory = os.path.dirname(directory)


def has_variables() -> bool:
    """Whether the environment says anything that may be a setting."""
    return any(name.startswith(PREFIX) and name not in OTHER_VARIABLES for name in os.environ)


def read_named(path: str, *, is_project: bool = False) -> Found:
    """A file that someone named; it has to be there. A project's is known by its real path."""
    place = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    file = _read(os.path.join(place, os.path.basename(path)), is_project=is_project)
    if file is None:
        raise _unusable(path, "there is no such file")
    return file


def _read(path: str, *, is_project: bool, owners: set[int] | None = None) -> Found | None:
    """Read a file that may not be there.

    TRUST: a project's file may be the work of an earlier command. It is never followed as a link (its
    mistakes are printed, and would show what is in the file it leads to), and nothing waits for a FIFO.
    A stranger's file in a directory for everyone, such as /tmp, is not the project's.
    """
    try:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_NOFOLLOW if is_project else 0)
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as problem:
        _check_absent(path, problem, owners)
        return None
    try:
        status = os.fstat(descriptor)
        if owners is not None and status.st_uid not in owners:
            return None
        if not stat.S_ISREG(status.st_mode):
            raise _unusable(path, "it is not a file")
        if status.st_size > _MOST_BYTES:
            raise _unusable(path, "it is larger than 1 MiB")
        data = b""
        while len(data) <= _MOST_BYTES and (piece := os.read(descriptor, _MOST_BYTES + 1)):
            data += piece
    except OSError as problem:
        raise _unusable(path, problem.strerror or str(problem)) from None
    finally:
        os.close(descriptor)
    try:
        return Found(path, data.decode("utf-8"), is_project)
    except UnicodeDecodeError as problem:
        raise _unusable(path, f"it is not UTF-8: {problem}") from None


def _check_absent(path: str, problem: OSError | ValueError, owners: set[int] | None) -> None:
    """A file that cannot be opened may say something: that is refused, unless a stranger put it there."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return
    if owners is not None and status.st_uid not in owners:
        return
    if os.path.basename(path) == PYPROJECT and stat.S_ISLNK(status.st_mode):
        return  # usual in some build trees; what it says of corral does not count there
    is_link = owners is not None and stat.S_ISLNK(status.st_mode)
    why = "it is a symbolic link" if is_link else getattr(problem, "strerror", None) or str(problem)
    raise _unusable(path, why)


def _unusable(path: str, why: str) -> PolicyError:
    return PolicyError(
        "configuration-file",
        f"the configuration {path} cannot be used",
        why=why,
        fix="mend or remove it, or run with --no-config to leave all configuration out",
    )
