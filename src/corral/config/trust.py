"""Trust: project files that the user has read and accepted, by the hash of what they say.

The list is a file in corral's state directory, which no command is ever granted. A file that has changed
since is a project file like any other.
"""

from __future__ import annotations

import contextlib
import os

from corral.config.document import DocumentProblems, read_document
from corral.config.find import PYPROJECT, TRUST_FILE
from corral.host.real import CONFIG_NAMES
from corral.host.state import read_state, write_state
from corral.model.errors import PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from corral.config.find import Found

_FILE = TRUST_FILE
_NAMES = (*CONFIG_NAMES, PYPROJECT)
_MOST_BYTES = 1024 * 1024


def fingerprint(found: Found) -> str:
    """A hash of all that counts in a file: of pyproject.toml the table [tool.corral], else the whole text."""
    import hashlib

    text = found.text
    if os.path.basename(found.path) == PYPROJECT:
        text = _corral_table(found)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def is_trusted(found: Found) -> bool:
    """Whether exactly this was accepted, for this path."""
    known = _load()
    return found.path in known and known[found.path] == fingerprint(found)


def forget_missing(workspace: str, there: Iterable[str]) -> None:
    """Forget trusted files of a workspace, and above it, that are gone or say nothing any more."""
    known = _load()
    above = {os.path.join(directory, name) for directory in _upwards(workspace) for name in _NAMES}
    gone = [path for path in known if path in above and path not in set(there)]
    if gone:
        with contextlib.suppress(PolicyError):
            _store({path: digest for path, digest in known.items() if path not in gone})


def _upwards(directory: str) -> Iterator[str]:
    while True:
        yield directory
        if directory == "/":
            return
        directory = os.path.dirname(directory)


def check_trust(found: Found) -> bool:
    """Whether a file is trusted; one that was and has changed is forgotten.

    TRUST: otherwise a command could put back what the user once accepted and then took out.
    """
    known = _load()
    if found.path not in known:
        return False
    if known[found.path] == fingerprint(found):
        return True
    del known[found.path]
    with contextlib.suppress(PolicyError):  # it is not believed now, whether or not that can be kept
        _store(known)
    return False


def was_trusted(found: Found) -> bool:
    """Whether the path is on the list, with this or with another content."""
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


def _corral_table(found: Found) -> str:
    """The table in a form that spaces and comments do not change; the whole text if it cannot be read."""
    import json

    try:
        tool = read_document(found.text, found.path).table.get("tool")
    except DocumentProblems:
        return found.text
    table = tool.get("corral") if isinstance(tool, dict) else None
    return json.dumps(table, sort_keys=True, default=str)


def _load() -> dict[str, str]:
    """Path -> fingerprint. A list that is not there, or not ours, trusts nothing."""
    entries = os.fsdecode(read_state(_FILE, _MOST_BYTES)).split("\0")  # the one character that no path has
    pairs = (entry.partition(" ") for entry in entries)
    return {path: digest for digest, _, path in pairs if path}


def _store(known: dict[str, str]) -> None:
    entries = (f"{digest} {name}\0" for name, digest in sorted(known.items()))
    try:
        write_state(_FILE, os.fsencode("".join(entries)))
    except OSError as problem:
        raise PolicyError(
            "trust-not-kept",
            "the file could not be marked as trusted",
            why=problem.strerror or str(problem),
            fix="make the state directory writable, or set XDG_STATE_HOME",
        ) from problem
