"""What a trial did to a repository: references, HEAD, stash and index, against the host's as they are."""

from __future__ import annotations

from corral.git_formats.config import MalformedConfig, read_config
from corral.git_formats.index import MalformedIndex
from corral.git_formats.index_entries import GITLINK, mean_the_same, read_entries, renew, write_entries
from corral.git_formats.keys import has_extensions, hash_length
from corral.git_formats.refs import LogEntry, MalformedRefs, is_object_id
from corral.model.record import Record
from corral.trials.git.links import find_links_before
from corral.trials.git.state import HEAD, INDEX, UNFINISHED, GitBases, read_state
from corral.trials.git.view import open_host, open_inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from corral.git_formats.index_entries import IndexEntries, IndexEntry
    from corral.trials.git.state import GitState
    from corral.trials.git.view import GitView
    from corral.trials.record import TrialRecord

#: Others are the repository's own business (bisect, rewritten), or change what objects mean (replace).
_TAKEN = ("refs/heads/", "refs/tags/", "refs/remotes/", "refs/notes/")
_MOST_INDEX, _MOST_CONFIG = 512 << 20, 1 << 20
_SHORT = 7


class RefMove(Record):
    """A reference that a trial has moved, made or removed; HEAD may also be `ref: ` and a name."""

    name: str
    old: str  # what it was when the trial began; empty if it was not there
    new: str  # empty if it was removed
    now: str = ""  # what the host has

    @property
    def is_conflict(self) -> bool:
        return self.now not in {self.old, self.new}

    def describe(self) -> str:
        """Which it is, and from where to where."""
        return f"{self.name}  {_short(self.old) or 'new'} -> {_short(self.new) or 'removed'}"


class StashMove(Record):
    old: tuple[LogEntry, ...]
    new: tuple[LogEntry, ...]
    is_conflict: bool = False

    def describe(self) -> str:
        return f"stash  {len(self.old)} -> {len(self.new)} entries"


class IndexMove(Record):
    old: bytes  # the host's, whole
    new: bytes  # with the trial's entries
    changed: int  # entries
    is_conflict: bool = False
    objects: tuple[str, ...] = ()  # that the old one does not name
    directories: frozenset[bytes] = frozenset()  # of the entries that changed

    def describe(self) -> str:
        return f"index  {self.changed} {'entry' if self.changed == 1 else 'entries'} changed"


class GitChanges(Record):
    """Everything that is to be brought over into one repository."""

    repository: str  # its git directory, relative to the root of the trial
    moves: tuple[RefMove, ...] = ()
    head: RefMove | None = None
    stash: StashMove | None = None
    index: IndexMove | None = None
    problem: str = ""  # why nothing of it can be brought over
    left: tuple[str, ...] = ()  # references that are never brought over
    hash_length: int = 20

    @property
    def is_empty(self) -> bool:
        return not (self.moves or self.head or self.stash or self.index or self.problem or self.left)

    def parts(self) -> Iterator[RefMove | StashMove | IndexMove]:
        yield from self.moves
        for part in (self.head, self.stash, self.index):
            if part is not None:
                yield part

    def conflicts(self) -> list[str]:
        """What the host has changed meanwhile, as well."""
        named = [move.name for move in self.moves if move.is_conflict]
        named += [HEAD] if self.head is not None and self.head.is_conflict else []
        named += ["stash"] if self.stash is not None and self.stash.is_conflict else []
        return named + ([INDEX] if self.index is not None and self.index.is_conflict else [])

    def without_conflicts(self) -> GitChanges:
        return self.replace(
            moves=tuple(move for move in self.moves if not move.is_conflict),
            head=None if self.head is None or self.head.is_conflict else self.head,
            stash=None if self.stash is None or self.stash.is_conflict else self.stash,
            index=None if self.index is None or self.index.is_conflict else self.index,
        )

    def taking_theirs(self) -> GitChanges:
        """The same from what the host has now, whatever that is."""
        head = self.head
        return self.replace(
            moves=tuple(move.replace(old=move.now) for move in self.moves),
            head=head.replace(old=head.now) if head is not None else None,
        )

    def lines(self) -> Iterator[str]:
        """For a person."""
        where = self.repository.removesuffix(".git")
        for part in self.parts():
            yield f"git      {where}{part.describe()}"
        yield from self.lines_left()

    def lines_left(self) -> Iterator[str]:
        """What is not brought over."""
        if self.problem:
            yield f"git      {self.repository} stays in the trial: {self.problem}"
        for name in self.left:
            yield f"git      {name} stays in the trial: it is not a branch, tag or note"

    def to_json(self) -> dict[str, Any]:
        refs = [{"name": move.name, "old": move.old, "new": move.new} for move in self.moves]
        return {
            "repository": self.repository,
            "refs": refs,
            "head": {"old": self.head.old, "new": self.head.new} if self.head is not None else None,
            "stash": len(self.stash.new) - len(self.stash.old) if self.stash is not None else 0,
            "index": self.index.changed if self.index is not None else 0,
            "conflicts": self.conflicts(),
            "problem": self.problem or None,
        }


def find_git_changes(record: TrialRecord) -> tuple[GitChanges, ...]:
    """What is to be brought over of each repository that the trial has changed."""
    if not record.repositories:
        return ()
    bases = GitBases(record)
    plans = (_plan(record, bases, repository) for repository in record.repositories)
    return tuple(plan for plan in plans if plan is not None and not plan.is_empty)


def _plan(record: TrialRecord, bases: GitBases, repository: str) -> GitChanges | None:
    try:
        with open_inside(record, repository) as inside, open_host(record, repository) as host:
            if not inside.is_layered:
                return None
            return _compare(record, repository, bases, inside, host)
    except (OSError, MalformedRefs, MalformedIndex, MalformedConfig) as problem:
        why = problem.strerror or str(problem) if isinstance(problem, OSError) else str(problem)
        return GitChanges(repository, problem=why)


def _compare(
    record: TrialRecord, repository: str, bases: GitBases, inside: GitView, host: GitView
) -> GitChanges:
    began = bases.state(repository)
    if inside.is_replaced("refs") or inside.is_replaced("objects"):  # git itself never removes these
        return GitChanges(repository, problem="the trial has made another repository in its place")
    unfinished = [name for name in UNFINISHED if inside.has(name) or host.has(name)]
    if unfinished:
        return GitChanges(
            repository, problem=f"a merge, rebase or the like is not finished ({unfinished[0]})"
        )
    if began is None:
        return GitChanges(repository, problem="it could not be read when the trial began")
    length = _check_format(host)
    if inside.read("shallow", _MOST_CONFIG) != host.read("shallow", _MOST_CONFIG):
        return GitChanges(repository, problem="the trial has changed how much of the history is there")
    after, now = read_state(inside), read_state(host)
    moves = list(_moves(began, after, now))
    head = RefMove(HEAD, began.head, after.head, now.head)
    index = _index(inside, host, length, lambda entries: _is_other(bases, repository, now, entries))
    links = find_links_before(record, repository, index.directories) if index is not None else []
    if links:
        why = f"the workspace has a link, {links[0]}, where its index has files"
        return GitChanges(repository, problem=f"{why}: git would remove them through it")
    return GitChanges(
        repository,
        moves=tuple(move for move in moves if _is_taken(move)),
        head=head if _is_needed(head) else None,
        stash=_stash(began, after, now),
        index=index,
        left=tuple(move.name for move in moves if not _is_taken(move)),
        hash_length=length,
    )


def _check_format(host: GitView) -> int:
    entries = read_config(host.read("config", _MOST_CONFIG) or b"")
    storage = [entry.value for entry in entries if entry.name == "extensions.refstorage"]
    if has_extensions(entries) and storage and storage[-1] != "files":
        raise MalformedRefs(f"its references are kept as {storage[-1]}")
    return hash_length(entries)


def _moves(began: GitState, after: GitState, now: GitState) -> Iterator[RefMove]:
    for name in sorted(began.refs.keys() | after.refs.keys()):
        move = RefMove(name, *(state.refs.get(name, "") for state in (began, after, now)))
        if _is_needed(move):
            yield move


def _is_needed(move: RefMove) -> bool:
    """Whether the trial has changed it, and the host has not come to the same."""
    return move.new not in {move.old, move.now}


def _is_taken(move: RefMove) -> bool:
    values = (move.old, move.new, move.now)
    return move.name.startswith(_TAKEN) and all(not value or is_object_id(value) for value in values)


def _stash(began: GitState, after: GitState, now: GitState) -> StashMove | None:
    if _marks(after.stash) in (_marks(began.stash), _marks(now.stash)):
        return None
    return StashMove(now.stash, after.stash, _marks(now.stash) != _marks(began.stash))


def _marks(log: tuple[LogEntry, ...]) -> list[tuple[str, str]]:
    return [(entry.new, entry.message) for entry in log]


def _index(
    inside: GitView, host: GitView, length: int, is_conflict: Callable[[IndexEntries], bool]
) -> IndexMove | None:
    if not inside.has_in_layer(INDEX):
        return None
    new, old = (view.read(INDEX, _MOST_INDEX) or b"" for view in (inside, host))
    after, before = read_entries(new, length), _host_entries(old, length)
    changed = _changed(before, after)
    if not changed:
        return None
    known = {entry.object_id for entry in before.values()}
    objects = {
        entry.object_id.hex()
        for key in changed
        if (entry := after.get(key)) is not None and entry.mode != GITLINK and entry.object_id not in known
    }
    written = write_entries(renew(after, before), length)
    directories = _directories(changed, after)
    return IndexMove(old, written, len(changed), is_conflict(before), tuple(sorted(objects)), directories)


def directories_back(index: IndexMove, length: int) -> tuple[frozenset[bytes], frozenset[bytes]]:
    """Those that an index has when its move is undone, and those that come back. Raises MalformedIndex."""
    before, after = read_entries(index.old, length), read_entries(index.new, length)
    return _directories(before, before), _directories(_changed(after, before), before)


def _changed(before: IndexEntries, after: IndexEntries) -> list[tuple[bytes, int]]:
    return [
        key
        for key in after.keys() | before.keys()
        if key not in after or not after[key].means(before.get(key))
    ]


def _directories(changed: Iterable[tuple[bytes, int]], after: IndexEntries) -> frozenset[bytes]:
    return frozenset(_way_to(key, after[key]) for key in changed if key in after) - {b""}


def _way_to(key: tuple[bytes, int], entry: IndexEntry) -> bytes:
    """The directory of an entry. A submodule is one, and a file in conflict is written at its own end."""
    path, stage = key
    return path if stage or entry.mode == GITLINK else path.rpartition(b"/")[0]


def _is_other(bases: GitBases, repository: str, now: GitState, entries: IndexEntries) -> bool:
    """Whether the host's index says something else than when the trial began. It may be another file: git
    makes one when it has looked at files."""
    began, base = bases.state(repository), bases.index(repository)
    if began is not None and began.index == now.index:
        return False
    length = len(next(iter(entries.values())).object_id) if entries else 20
    return base is None or not mean_the_same(read_entries(base, length), entries)


def _host_entries(data: bytes, length: int) -> IndexEntries:
    try:
        return read_entries(data, length)
    except MalformedIndex as problem:
        raise MalformedIndex(f"the index of the workspace cannot be replaced: {problem}") from None


def _short(value: str) -> str:
    return value[:_SHORT] if is_object_id(value) else value.removeprefix("ref: ")


def tips(plan: GitChanges) -> tuple[str, ...]:
    """The objects that everything else hangs on."""
    found = [move.new for move in (*plan.moves, *((plan.head,) if plan.head else ())) if move.new]
    found += [entry.new for entry in plan.stash.new] if plan.stash is not None else []
    found += plan.index.objects if plan.index is not None else ()
    return tuple(dict.fromkeys(tip for tip in found if is_object_id(tip)))
