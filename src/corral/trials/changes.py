"""Find the changes of a trial: its layers against the workspace as it is now."""

from __future__ import annotations

import errno
import os
import stat

from corral.model.rules.pattern import is_pattern, is_protected, literal
from corral.runtime.handoff import is_handoff
from corral.trials.change import ChangeAction, EntryKind, Reserve, TrialChange, kind_of
from corral.trials.git.links import LinksOfGit
from corral.trials.layer import open_stack
from corral.trials.record import reading_trial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from corral.trials.layer import Entry, LayerStack
    from corral.trials.record import TrialRecord

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1 << 20
#: What git takes for a repository; `commondir` says where the rest of it is.
_BARE = (frozenset({"HEAD", "objects", "refs"}), frozenset({"HEAD", "commondir"}))
PARTS = frozenset.union(*_BARE)
#: What of a repository is brought over as what it means, or is of no use to anybody else (`trials/git`).
_UNDERSTOOD = (
    *("objects", "refs", "logs", "HEAD", "index", "packed-refs"),
    *("ORIG_HEAD", "FETCH_HEAD", "COMMIT_EDITMSG", "AUTO_MERGE", "gc.log", "gc.pid", "info/refs"),
)
#: Deeper than anybody works. What lies deeper stays in the trial.
MOST_DEPTH = 200
#: No set-id bit, no sticky bit.
MODE_BITS = 0o777


def find_changes(record: TrialRecord) -> Iterator[TrialChange]:
    """All changes, a directory before what is in it. Raises SetupError where they cannot be read."""
    with reading_trial(record), open_stack(record.layers) as stack:
        root = os.open(record.root, _DIRECTORY)
        try:
            yield from _Walk(record).directory(stack, root, "")
        finally:
            os.close(root)


class _Walk:
    def __init__(self, record: TrialRecord) -> None:
        self._record = record
        self._links = LinksOfGit(record, folded)
        offset = record.workspace[len(record.root) + 1 :]
        self._offset = f"{offset}/" if offset else ""
        names = tuple(map(folded, record.protect))
        self._patterns = tuple(filter(is_pattern, names))
        plain = [literal(name) for name in names if not is_pattern(name)]
        self._names = frozenset(name for name in plain if "/" not in name)
        self._paths = tuple(f"/{name}/" for name in plain if "/" in name)
        self._git_directories: tuple[str, ...] = ()  # without the name `.git`, each with a slash
        self._held = tuple(f"/{folded(held)}/" for held in record.protected)
        self._understood = {
            f"{repository}/{name}" for repository in record.repositories for name in _UNDERSTOOD
        }

    def directory(self, stack: LayerStack, host: int, above: str) -> Iterator[TrialChange]:
        """`host` is the same directory on the host, or -1 where nothing of it shows through."""
        entries = tuple(stack.entries())
        known = {entry.name for entry in entries}
        if above and _is_git_directory({entry.name for entry in entries if entry.status is not None}, host):
            self._git_directories += (above,)
        for entry in entries:
            yield from self._entry(stack, entry, host, f"{above}{entry.name}")
        if stack.is_opaque and host >= 0:
            for name in sorted(set(os.listdir(host)) - known):
                yield from self.removed(host, name, f"{above}{name}")

    def _entry(self, stack: LayerStack, entry: Entry, host: int, path: str) -> Iterable[TrialChange]:
        """Plainly where it can be: most are files, and a generator for each takes as long as the rest."""
        if path in self._understood:
            return ()
        before = _look(host, entry.name)
        if entry.problem or _is_too_deep(path):
            return (TrialChange(path, ChangeAction.CHANGED, EntryKind.OTHER, reserve=Reserve.UNREADABLE),)
        if entry.status is None:
            return () if before is None else self.removed(host, entry.name, path)
        was_directory = before is not None and stat.S_ISDIR(before.st_mode)
        if was_directory or stat.S_ISDIR(entry.status.st_mode):
            return self._with_directory(stack, entry, before, host, path)
        change = self._compared(stack, entry, before, host, path)
        return () if change is None else (change,)

    def _with_directory(
        self, stack: LayerStack, entry: Entry, before: os.stat_result | None, host: int, path: str
    ) -> Iterator[TrialChange]:
        """Where a directory is, or was."""
        assert entry.status is not None
        is_directory = stat.S_ISDIR(entry.status.st_mode)
        if not is_directory:
            yield from self._inside_removed(host, entry.name, path)
        change = self._compared(stack, entry, before, host, path)
        if change is not None:
            yield change
        if is_directory:
            yield from self._inside(stack, entry, before, host, path)

    def _inside(
        self, stack: LayerStack, entry: Entry, before: os.stat_result | None, host: int, path: str
    ) -> Iterator[TrialChange]:
        inner = -1
        if before is not None and stat.S_ISDIR(before.st_mode):
            inner = os.open(entry.name, _DIRECTORY, dir_fd=host)
        try:
            with stack.enter(entry) as below:
                yield from self.directory(below, inner, f"{path}/")
        finally:
            if inner >= 0:
                os.close(inner)

    def removed(self, host: int, name: str, path: str) -> Iterator[TrialChange]:
        """Something of the host's that a command removed, and all that is in it."""
        status = _look(host, name)
        if status is None:
            return
        kind = kind_of(status)
        is_seen = kind is not EntryKind.DIRECTORY or not _is_too_deep(path)
        if kind is EntryKind.DIRECTORY and is_seen:
            yield from self._inside_removed(host, name, path)
        mode = stat.S_IMODE(status.st_mode)
        yield TrialChange(
            *(path, ChangeAction.DELETED, kind, kind),
            before_size=status.st_size if kind is EntryKind.FILE else 0,
            before_mode=mode,
            reserve=self._reserve(path, kind) if is_seen else Reserve.UNREADABLE,
            is_run_later=is_handoff(self._in_workspace(path)),
        )

    def _inside_removed(self, host: int, name: str, path: str) -> Iterator[TrialChange]:
        inner = os.open(name, _DIRECTORY, dir_fd=host)
        try:
            if _is_git_directory(set(), inner):  # a bare one: its name says nothing
                self._git_directories += (f"{path}/",)
            for each in sorted(os.listdir(inner)):
                yield from self.removed(inner, each, f"{path}/{each}")
        finally:
            os.close(inner)

    def _compared(
        self, stack: LayerStack, entry: Entry, before: os.stat_result | None, host: int, path: str
    ) -> TrialChange | None:
        """The change of one entry; None if it is as it was: copied up and not changed."""
        assert entry.status is not None
        kind, was = kind_of(entry.status), kind_of(before) if before is not None else None
        mode = stat.S_IMODE(entry.status.st_mode) & MODE_BITS
        before_mode = stat.S_IMODE(before.st_mode) if before is not None else 0
        is_same = kind is was and before is not None and _is_same(stack, entry, host, before)
        if is_same and (mode == before_mode & MODE_BITS or kind is EntryKind.LINK):
            return None
        reserve = self._reserve(path, kind)
        if kind is EntryKind.LINK and (was is EntryKind.DIRECTORY or self._links.are_followed(path)):
            reserve = reserve or Reserve.PROTECTED  # whoever goes this way on the host goes elsewhere
        return TrialChange(
            *(path, ChangeAction.CHANGED if before is not None else ChangeAction.ADDED, kind, was),
            entry.status.st_size if kind is EntryKind.FILE else 0,
            before.st_size if before is not None and was is EntryKind.FILE else 0,
            mode,
            before_mode,
            reserve,
            is_handoff(self._in_workspace(path)),
            is_same,
            stack.read_link(entry) if kind is EntryKind.LINK else "",
        )

    def _reserve(self, path: str, kind: EntryKind) -> Reserve:
        """INVARIANT: names are compared folded: the file system of the workspace may find them so."""
        parts = path.lower().split("/") if path.isascii() else [folded(part) for part in path.split("/")]
        if ".git" in parts or "git~1" in parts or path.startswith(self._git_directories):
            return Reserve.GIT
        if kind is EntryKind.OTHER:
            return Reserve.SPECIAL
        below = f"/{'/'.join(parts)}/"
        is_held = below.startswith(self._held) or not self._names.isdisjoint(parts)
        is_held = is_held or any(name in below for name in self._paths)
        is_held = is_held or bool(self._patterns and is_protected(parts, self._patterns))
        return Reserve.PROTECTED if is_held else Reserve.NONE

    def _in_workspace(self, path: str) -> str:
        return path.removeprefix(self._offset)


def _is_git_directory(names: set[str], host: int) -> bool:
    """Whether git would take it for a repository, by what a trial and the host have there together."""
    added = set(map(folded, names))
    return is_repository(name for name in PARTS if name.lower() in added or _look(host, name) is not None)


def is_repository(names: Iterable[str]) -> bool:
    """Whether git would take a directory for one that has these of its parts."""
    there = set(names)
    return any(there >= bare for bare in _BARE)


def _is_too_deep(path: str) -> bool:
    return path.count("/") >= MOST_DEPTH


def folded(text: str) -> str:
    """One spelling for all that a file system might take for the same, and for names that git would."""
    from unicodedata import category, normalize

    if text.isascii():
        return text.lower()
    plain = normalize("NFKC", text).casefold()
    return "".join(character for character in normalize("NFKC", plain) if category(character) != "Cf")


def _look(host: int, name: str) -> os.stat_result | None:
    if host < 0:
        return None
    try:
        return os.stat(name, dir_fd=host, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _is_same(stack: LayerStack, entry: Entry, host: int, before: os.stat_result) -> bool:
    """Whether there is the same in both, of the same kind."""
    assert entry.status is not None
    if stat.S_ISDIR(before.st_mode):
        return True
    if stat.S_ISLNK(before.st_mode):
        return stack.read_link(entry) == os.readlink(entry.name, dir_fd=host)
    if not stat.S_ISREG(before.st_mode) or before.st_size != entry.status.st_size:
        return False
    try:
        other = os.open(entry.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=host)
    except OSError:
        return False
    try:
        own = stack.open_file(entry)
        try:
            return _have_same_bytes(own, other)
        finally:
            os.close(own)
    finally:
        os.close(other)


def _have_same_bytes(one: int, other: int) -> bool:
    """Of two files of one size. Where both have a hole nothing is read: it may be a terabyte long."""
    at = 0
    while (start := _next_data(one, other, at)) >= 0:
        piece = os.pread(one, _PIECE, start)
        if piece != os.pread(other, len(piece) or 1, start):
            return False
        at = start + (len(piece) or _PIECE)
    return True


def _next_data(one: int, other: int, at: int) -> int:
    """Where one of two files has something; -1 if neither has."""
    found = []
    for handle in (one, other):
        try:
            found.append(os.lseek(handle, at, os.SEEK_DATA))
        except OSError as problem:
            if problem.errno != errno.ENXIO:  # this file system does not tell
                size = os.fstat(handle).st_size
                found += [at] if at < size else []
    return min(found, default=-1)
