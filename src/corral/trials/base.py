"""Bases: how the workspace was where a trial changed it, and what the host has changed there since.

The workspace is not looked at before a trial, which would take as long as the workspace is large. When the
command has ended, what it changed is: whatever has a time of change later than the beginning was changed by
the host meanwhile. From then on each path must stay the very object that was seen.
"""

from __future__ import annotations

import json
import os
from json.encoder import encode_basestring_ascii as quote

from corral.trials.change import EntryKind
from corral.trials.host_tree import HostTree
from corral.trials.originals import Originals, copy_originals
from corral.trials.stamp import Stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from corral.trials.change import TrialChange
    from corral.trials.record import TrialRecord

_NAME = "bases"


class Bases:
    """What the host had at the paths of a trial. Kept as lines, the last of which counts for its path."""

    def __init__(self, record: TrialRecord) -> None:
        self._record = record
        self._path = os.path.join(record.directory, _NAME)
        self._known: dict[str, tuple[Stamp | None, bool]] = {}
        self.seen: dict[str, Stamp | None] = {}  # what was there when conflicts were looked for
        self.is_settled = False
        for line in _lines(self._path):
            self.is_settled = True
            if line:
                path, fields, late = json.loads(line)
                self._known[path] = (Stamp(*fields) if fields is not None else None, late)

    def settle(self, changes: Iterable[TrialChange]) -> None:
        """Look at what the host has, where nobody has looked before. ORDER: when the command has ended."""
        originals = Originals(self._record)
        with HostTree(self._record) as tree:
            found: dict[str, tuple[Stamp | None, bool]] = {}
            seen: set[str] = set()
            for change in changes:
                above = change.path.rpartition("/")[0]
                paths = (change.path,) if above in seen else (*_above(change.path), change.path)
                seen.add(above)
                for path in paths:
                    if path not in self._known and path not in found:
                        stamp = tree.stamp(path)
                        late = stamp is not None and stamp.changed_ns > self._record.began_ns
                        if stamp is not None:
                            found[path] = (stamp, late)
                        if stamp is not None and path == change.path and not late:
                            originals.keep(tree, path, stamp)
        self._write(found)

    def note(self, changed: Iterable[tuple[str, Stamp | None]]) -> None:
        """What corral itself has just made of some paths."""
        self._write({path: (stamp, False) for path, stamp in changed})

    def conflicts(self, tree: HostTree, changes: Iterable[TrialChange]) -> dict[str, str]:
        """What the host did meanwhile to the paths of changes, in words."""
        known: dict[str, str] = {}  # of directories, each of which is looked at once
        found: dict[str, str] = {}
        for change in changes:
            above = change.path.rpartition("/")[0]
            if above not in known:
                known[above] = self._conflict_above(tree, change.path)
            why = known[above] or self._conflict(tree, change.path)
            if why:
                found[change.path] = why
        return found

    def _conflict_above(self, tree: HostTree, below: str) -> str:
        for path in _above(below):
            base, _ = self._known.get(path, (None, False))
            now = tree.stamp(path)
            if base is not None and not base.is_same(now):
                return f"{path} is a different directory now"
            if base is None and now is not None and now.kind != EntryKind.DIRECTORY:
                return f"{path} was created by the host in the meantime"
        return ""

    def _conflict(self, tree: HostTree, path: str) -> str:
        base, late = self._known.get(path, (None, False))
        now = self.seen[path] = tree.stamp(path)
        if base is None:
            return "the host created it in the meantime" if now is not None else ""
        if now is None:
            return "the host removed it in the meantime"
        return "the host changed it in the meantime" if late or not base.is_same(now) else ""

    def _write(self, found: dict[str, tuple[Stamp | None, bool]]) -> None:
        self._known.update(found)
        with open(self._path, "a", encoding="ascii") as file:
            file.write("\n" if not self.is_settled else "")
            for path, (stamp, late) in found.items():
                fields = stamp.to_json() if stamp is not None else "null"
                file.write(f"[{quote(path)}, {fields}, {'true' if late else 'false'}]\n")
        self.is_settled = True


def _above(path: str) -> Iterator[str]:
    parts = path.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts)))


def _lines(path: str) -> list[str]:
    """Whole lines; one that was cut off when somebody was killed is left out."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().split("\n")[:-1]
    except FileNotFoundError:
        return []


def copy_bases(record: TrialRecord, other: TrialRecord) -> None:
    """A fork has seen what the trial before it has seen."""
    data = b"".join(line.encode("ascii") + b"\n" for line in _lines(os.path.join(record.directory, _NAME)))
    with open(os.path.join(other.directory, _NAME), "wb") as file:
        file.write(data)
    copy_originals(record, other)
