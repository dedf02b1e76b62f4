"""What looks at directories and repositories have found, kept from one run to the next.

In corral's state directory, which no command can write. It is believed only as far as the kernel says that
nothing has changed since (`unchanged.py`); a host where it cannot be kept looks at everything every time.
"""

from __future__ import annotations

import contextlib
import marshal
import os
from binascii import crc32

from corral.git_check.hazard import Hazard
from corral.untrusted_files.quarantine import make_private
from corral.untrusted_files.unchanged import Memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from corral.git_check.tracked import Tracked

    Identity = tuple[int, int]  # device, inode
    # What was found in a git directory: hazards, gitlinks, directories in the index, whether it is whole,
    # what its directories of objects are, the steps it took.
    Found = tuple[
        list[Hazard], tuple[str, ...], tuple[Tracked, ...], bool, dict[str, Identity], dict[str, int]
    ]
    Key = tuple[str, str, bool]  # a git directory, its worktree, whether the plan holds its settings

_FORMAT = 2
_MOST_BYTES = 1 << 28
_MOST_FILES = 256
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class Memories:
    """What was found in git directories, for as long as they stay as they are."""

    def __init__(self) -> None:
        self._stored: dict[Key, Any] = {}  # of an earlier run
        self._known: dict[Key, tuple[Memory, Found]] = {}
        self.is_changed = False

    def resume(self, stored: dict[Key, Any]) -> None:
        self._stored = stored

    def find(self, key: Key) -> Found | None:
        """None if there is none, or not any more."""
        if key not in self._known and key in self._stored:
            stamps, hazards, *rest = self._stored.pop(key)
            self._known[key] = (Memory(stamps), ([Hazard(*values) for values in hazards], *rest))
        memory, found = self._known.get(key, (None, None))
        return found if memory is not None and memory.holds() else None

    def forget(self, key: Key) -> None:
        self._stored.pop(key, None)
        self.is_changed |= self._known.pop(key, None) is not None

    def keep(self, key: Key, memory: Memory, found: Found) -> None:
        self._known[key] = (memory, found)
        self.is_changed |= memory.is_reliable

    def to_store(self) -> dict[Key, Any]:
        """Of what this run has asked for."""
        return {
            key: (memory.stamps, [_values(hazard) for hazard in hazards], *rest)
            for key, (memory, (hazards, *rest)) in self._known.items()
            if memory.is_reliable
        }


def _values(hazard: Hazard) -> tuple[object, ...]:
    return (hazard.place, hazard.why, hazard.content, hazard.instead, hazard.is_unfinished)


class Remembered:
    """Of one set of writable paths; `identity` is what all of it depends on besides the files themselves."""

    def __init__(self, directory: str, identity: tuple[tuple[str, ...], ...]) -> None:
        self._identity: tuple[Any, ...] = (_FORMAT, *identity)
        name = f"{crc32(repr(identity).encode('utf-8', 'surrogateescape')):08x}"
        self._path = os.path.join(directory, name) if directory else ""

    def load(self) -> tuple[dict[Any, Any], dict[Any, Any]] | None:
        """What was kept last, if it is of the same identity."""
        try:
            identity, folders, repositories = marshal.loads(_read(self._path))  # noqa: S302 - corral's own file
        except (OSError, ValueError, EOFError, TypeError):
            return None
        return (folders, repositories) if identity == self._identity else None

    def save(self, folders: dict[Any, Any], repositories: dict[Any, Any]) -> None:
        """Replace it as a whole. Where that fails, the next run looks for itself."""
        if not self._path:
            return
        temporary = f"{self._path}.{os.urandom(4).hex()}"
        with contextlib.suppress(OSError, ValueError):
            data = marshal.dumps((self._identity, folders, repositories))
            make_private(os.path.dirname(self._path))
            descriptor = os.open(temporary, _NEW, 0o600)
            try:
                with open(descriptor, "wb") as file:
                    file.write(data)
                os.rename(temporary, self._path)
            except OSError:
                os.unlink(temporary)
            forget_oldest(os.path.dirname(self._path), _MOST_FILES)


def forget_oldest(directory: str, most: int) -> None:
    """There is one file for each workspace, and some workspaces are used once. Raises OSError."""
    with os.scandir(directory) as entries:
        paths = [entry.path for entry in entries]
    if len(paths) > most:
        for path in sorted(paths, key=os.path.getmtime)[: -most // 2]:
            os.unlink(path)


def _read(path: str) -> bytes:
    """TRUST: a file of the caller's own; in the state directory of somebody else nothing is believed."""
    descriptor = os.open(path, _READ)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or status.st_size > _MOST_BYTES:
            return b""
        return file.read()
