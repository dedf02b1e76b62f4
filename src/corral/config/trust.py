"""Trust: project files that the user has read and accepted, by the hash of what they say.

The list is a file in corral's state directory, which no command is ever granted. A file that has changed
since is a project file like any other.
"""

from __future__ import annotations

import os

from corral.config.find import PYPROJECT
from corral.host import state_directory
from corral.model.errors import PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.config.find import Found

_FILE = "trusted"


def fingerprint(found: Found) -> str:
    """A hash of all that counts in a file: of pyproject.toml the table [tool.corral], else the whole text."""
    import hashlib

    text = found.text
    if os.path.basename(found.path) == PYPROJECT:
        text = _corral_table(text)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def is_trusted(found: Found) -> bool:
    """Whether exactly this was accepted, for this path."""
    known = _load()
    return found.path in known and known[found.path] == fingerprint(found)


def was_trusted(found: Found) -> bool:
    """Whether the path was accepted at some time, with this or with another content."""
    return found.path in _load()


def trust(found: Found) -> str:
    """Accept a file as it is now; returns its fingerprint."""
    known = _load()
    known[found.path] = fingerprint(found)
    _store(known)
    return known[found.path]


def distrust(path: str) -> bool:
    """Take the acceptance back; False if there was none."""
    known = _load()
    if path not in known:
        return False
    del known[path]
    _store(known)
    return True


def _corral_table(text: str) -> str:
    import json
    import tomllib

    tool = tomllib.loads(text).get("tool")
    table = tool.get("corral") if isinstance(tool, dict) else None
    return json.dumps(table, sort_keys=True, default=str)


def _load() -> dict[str, str]:
    """Path -> fingerprint. A list that is not there, or not ours, trusts nothing."""
    if not state_directory():
        return {}
    try:
        descriptor = os.open(_path(), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return {}
    with open(descriptor, encoding="utf-8", errors="surrogateescape") as file:
        if os.fstat(descriptor).st_uid != os.geteuid():
            return {}
        pairs = (line.rstrip("\n").partition(" ") for line in file)
        return {path: digest for digest, _, path in pairs if path}


def _store(known: dict[str, str]) -> None:
    path = _path()
    temporary = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.writelines(f"{digest} {name}\n" for name, digest in sorted(known.items()))
        os.rename(temporary, path)
    except OSError as problem:
        raise PolicyError(
            "trust-not-kept",
            "the file could not be marked as trusted",
            why=f"{path}: {problem.strerror}",
            fix="make the state directory writable",
        ) from problem


def _path() -> str:
    state = state_directory()
    if not state:
        raise PolicyError(
            "trust-not-kept",
            "there is no place to remember trusted files",
            why="you have no home directory",
            fix="set XDG_STATE_HOME",
        )
    return os.path.join(state, _FILE)
