"""Find the files that configure a run: the user's own, and those of the project, upwards from a directory.

On the way of every `corral run`: nothing is imported here that takes time, and nothing is parsed.
"""

from __future__ import annotations

import os
import stat

from corral.host.directory import no_directory
from corral.host.real import CONFIG_NAMES, config_directory, state_directory
from corral.model.errors import PolicyError
from corral.model.record import Record

PYPROJECT = "pyproject.toml"
TRUST_FILE = "trusted"  # in the state directory
PREFIX = "CORRAL_"
#: Variables that are no settings: the mark inside a sandbox, another launcher.
OTHER_VARIABLES = frozenset(
    {"CORRAL_SANDBOX", "CORRAL_LAUNCHER", "CORRAL_CONFIG", "CORRAL_AGENT", "CORRAL_PYTHON_WASM"}
)
_MOST_BYTES = 1024 * 1024
_FIX = "fix or remove it, or run with --no-config to leave all configuration out"


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
    found = [_read(os.path.join(directory, name), is_project=False) for name in CONFIG_NAMES if directory]
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
    owners = _owners(directory)
    while True:
        for name in (*CONFIG_NAMES, PYPROJECT):
            file = _read(os.path.join(directory, name), is_project=True, owners=owners)
            if file is not None:
                found.append(file)
        if directory == "/":
            return found
        directory = os.path.dirname(directory)


def working_directory() -> str:
    """Where the caller is. Raises PolicyError if that is nowhere."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        fix = "change into an existing directory"
        raise no_directory("the working directory", "it has been removed", fix) from None


def named_by_environment() -> str | None:
    """The user file that $CORRAL_CONFIG names: empty for none at all.

    TRUST: a relative one would be another in each directory, such as one that a command has written to.
    """
    named = os.environ.get("CORRAL_CONFIG")
    if named and not named.startswith("/"):
        raise _unusable(named, "CORRAL_CONFIG must be an absolute path")
    return named


def find_foreign_files(directory: str) -> list[str]:
    """Files of strangers on the way up, which do not count."""
    owners = _owners(directory)
    found = []
    while True:
        for name in (*CONFIG_NAMES, PYPROJECT):
            path = os.path.join(directory, name)
            try:
                if os.lstat(path).st_uid not in owners:
                    found.append(path)
            except OSError:
                continue
        if directory == "/":
            return found
        directory = os.path.dirname(directory)


def _owners(directory: str) -> set[int]:
    """Whose files count: root's, the caller's, and those of whom the workspace belongs to."""
    try:
        return {0, os.geteuid(), os.stat(directory).st_uid}
    except OSError as problem:
        fix = "name an existing directory that you can enter"
        raise no_directory(directory, problem.strerror or str(problem), fix) from None


def has_trusted_files() -> bool:
    """Whether any project file was ever trusted: then it has to be seen whether it is still the same."""
    state = state_directory()
    return bool(state) and os.path.lexists(os.path.join(state, TRUST_FILE))


def has_variables() -> bool:
    """Whether the environment says anything that may be a setting."""
    return any(name.startswith(PREFIX) and name not in OTHER_VARIABLES for name in os.environ)


def read_named(path: str, *, is_project: bool = False) -> Found:
    """A file that someone named; it has to be there. A project's is known by its real path."""
    place = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    owners = _owners(place) if is_project else None
    file = _read(os.path.join(place, os.path.basename(path)), is_project=is_project, owners=owners)
    if file is None:
        if os.path.lexists(path):
            raise _unusable(path, "it belongs to somebody else")
        raise _unusable(
            path, "there is no such file", fix="check the name; `corral policy init` writes a file"
        )
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
    except (OSError, ValueError) as problem:
        _check_absent(path, problem, owners)
        return None
    try:
        status = os.fstat(descriptor)
        if owners is not None and status.st_uid not in owners:
            return None
        is_file = stat.S_ISREG(status.st_mode)
        data = b""
        while is_file and len(data) <= _MOST_BYTES and (piece := os.read(descriptor, _MOST_BYTES + 1)):
            data += piece
        if os.path.basename(path) == PYPROJECT and b"corral" not in data:
            return None  # it is for others
        if not is_file or len(data) > _MOST_BYTES:
            raise _unusable(path, "it is larger than 1 MiB" if is_file else "it is not a file")
    except OSError as problem:
        raise _unusable(path, problem.strerror or str(problem)) from None
    finally:
        os.close(descriptor)
    try:
        return Found(path, data.decode("utf-8"), is_project)
    except UnicodeDecodeError as problem:
        raise _unusable(path, f"it is not UTF-8: {problem}") from None


def _check_absent(path: str, problem: OSError | ValueError, owners: set[int] | None) -> None:
    """Return if there is nothing that counts. A file that may say something and cannot be read is refused."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as unknown:
        raise _unusable(path, str(unknown)) from None
    if owners is not None and status.st_uid not in owners:
        return
    is_link = stat.S_ISLNK(status.st_mode)
    if os.path.basename(path) == PYPROJECT and not is_link and not stat.S_ISREG(status.st_mode):
        return
    if owners is not None and is_link and os.path.basename(path) == PYPROJECT and not _mentions_corral(path):
        return  # usual in some build trees
    why = "it is a symbolic link" if owners is not None and is_link else str(problem)
    raise _unusable(path, "it is a broken link" if is_link and not os.path.exists(path) else why)


def _mentions_corral(path: str) -> bool:
    """Whether what a link leads to configures corral; nothing else is told of it."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return stat.S_ISREG(os.fstat(descriptor).st_mode) and b"corral" in os.read(descriptor, _MOST_BYTES)
    finally:
        os.close(descriptor)


def _unusable(path: str, why: str, fix: str = _FIX) -> PolicyError:
    return PolicyError(
        "configuration-file",
        f"the configuration {path} cannot be used",
        why=why,
        fix=fix,
    )
