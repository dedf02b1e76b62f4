"""Move references, HEAD, the stash and the index of a repository from one state to another, and back.

INVARIANT: each is moved only from the value that was expected, by git, under git's own locks. Whatever is at
its goal already is left; so whoever was killed on the way is followed by somebody who does the rest.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable

from corral.git_formats.index_entries import mean_the_same, read_entries, renew, write_entries
from corral.git_formats.refs import target_of
from corral.trials.git.plan import GitChanges, IndexMove, RefMove, StashMove
from corral.trials.git.program import GitFailed
from corral.trials.git.state import HEAD, INDEX, STASH, read_state
from corral.trials.git.view import open_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from corral.git_formats.refs import LogEntry
    from corral.trials.git.program import GitProgram
    from corral.trials.git.state import GitState
    from corral.trials.git.view import GitView
    from corral.trials.record import TrialRecord

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK = "index.lock"
_MOST_INDEX = 512 << 20


class Moved(Exception):
    """The host has another value than was expected."""


def reverse(plan: GitChanges) -> GitChanges:
    """The way back."""
    head, stash, index = plan.head, plan.stash, plan.index
    return plan.replace(
        moves=tuple(RefMove(move.name, move.new, move.old) for move in plan.moves),
        head=RefMove(HEAD, head.new, head.old) if head is not None else None,
        stash=StashMove(stash.new, stash.old) if stash is not None else None,
        index=IndexMove(index.new, index.old, index.changed) if index is not None else None,
    )


def find_moved(record: TrialRecord, plan: GitChanges) -> list[str]:
    """What of a plan the host has neither as it was before nor as it is after it."""
    with open_host(record, plan.repository) as host:
        now = read_state(host)
        found = [move.name for move in plan.moves if now.refs.get(move.name, "") not in {move.old, move.new}]
        if plan.head is not None and now.head not in {plan.head.old, plan.head.new}:
            found.append(HEAD)
        if plan.stash is not None and not _is_on_its_way(plan.stash, now.stash):
            found.append(STASH)
        if plan.index is not None and not _index_fits(host, plan.index, plan.hash_length):
            found.append(INDEX)
    return found


class Mover:
    """Carries out one plan. What is not as expected is noted in `left`, what is at its goal in `done`."""

    def __init__(self, record: TrialRecord, plan: GitChanges, git: GitProgram, about: str) -> None:
        self._record, self._plan, self._git, self._about = record, plan, git, about
        self.done: list[str] = []
        self.left: dict[str, str] = {}

    def run(self, skip: Iterable[str] = ()) -> None:
        """Everything but some. Raises OSError."""
        plan, skipped = self._plan, frozenset(skip)
        with open_host(self._record, plan.repository) as host:
            self._host = host
            self._directory = f"/proc/self/fd/{host.host}"
            moves = [move for move in plan.moves if move.name not in skipped]
            # ORDER: what goes first, as `a` must before there can be `a/b`.
            self._refs([move for move in moves if not move.new], read_state(host))
            self._refs([move for move in moves if move.new], read_state(host))
            for name, part, act in (
                (HEAD, plan.head, self._move_head),
                (STASH, plan.stash, self._move_stash),
                (INDEX, plan.index, self._move_index),
            ):
                if part is not None and name not in skipped:
                    self._try(name, act)

    def _try(self, name: str, act: Callable[[], None]) -> None:
        try:
            act()
            self.done.append(name)
        except (GitFailed, Moved) as problem:
            self.left[name] = str(problem)

    def _refs(self, moves: Sequence[RefMove], now: GitState) -> None:
        for move in moves:
            if now.refs.get(move.name, "") == move.new:
                self.done.append(move.name)
        todo = [move for move in moves if move.name not in self.done]
        if not todo:
            return
        try:
            self._update(todo)
            self.done += [move.name for move in todo]
        except GitFailed:  # one of them: which?
            for move in todo:
                self._try(move.name, lambda move=move: self._update([move]))  # type: ignore[misc]

    def _update(self, moves: Sequence[RefMove]) -> None:
        none = "0" * (2 * self._plan.hash_length)
        lines = []
        for move in moves:
            if move.new:
                lines.append(f"update {move.name}\0{move.new}\0{move.old or none}\0")
            else:
                lines.append(f"delete {move.name}\0{move.old}\0")
        words = "".join(lines).encode("utf-8")
        self._run("update-ref", "--no-deref", "-m", self._about, "--stdin", "-z", words=words)

    def _move_head(self) -> None:
        head = self._plan.head
        assert head is not None
        now = read_state(self._host).head
        if now == head.new:
            return
        if now != head.old:
            raise Moved("it is elsewhere by now")
        if target_of(head.new):
            self._run("symbolic-ref", "-m", self._about, HEAD, target_of(head.new))
        else:
            self._run("update-ref", "--no-deref", "-m", self._about, HEAD, head.new)

    def _move_stash(self) -> None:
        stash = self._plan.stash
        assert stash is not None
        now = read_state(self._host).stash
        if not _is_on_its_way(stash, now):
            raise Moved("the host has stashed or dropped something meanwhile")
        if not _is_beginning(now, stash.new):
            self._run("update-ref", "-d", STASH, now[-1].new)
            now = ()
        for entry in stash.new[len(now) :]:
            self._push(entry, now[-1].new if now else "0" * (2 * self._plan.hash_length))
            now = (*now, entry)

    def _push(self, entry: LogEntry, old: str) -> None:
        more = {
            "GIT_COMMITTER_NAME": entry.name or "unknown",
            "GIT_COMMITTER_EMAIL": entry.email,
            "GIT_COMMITTER_DATE": entry.date,
        }
        self._run("update-ref", "--create-reflog", "-m", entry.message, STASH, entry.new, old, more=more)

    def _move_index(self) -> None:
        """As git does: beside it, under its lock, put in its place by one call."""
        index, length = self._plan.index, self._plan.hash_length
        assert index is not None
        directory = self._host.host
        try:
            lock = os.open(_LOCK, _NEW, 0o666, dir_fd=directory)
        except FileExistsError:
            raise OSError(
                errno.EBUSY, "another git is at work there, or was killed: index.lock", _LOCK
            ) from None
        try:
            with os.fdopen(lock, "wb") as file:
                if not _index_fits(self._host, index, length):
                    raise Moved("the host has staged something else meanwhile")
                now = read_entries(self._host.read(INDEX, _MOST_INDEX) or b"", length)
                file.write(write_entries(renew(read_entries(index.new, length), now), length))
            self._check_index(length, index)
            os.rename(_LOCK, INDEX, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(_LOCK, dir_fd=directory)
            raise

    def _check_index(self, length: int, index: IndexMove) -> None:
        """Git must read what was meant."""
        more = {"GIT_INDEX_FILE": f"{self._directory}/{_LOCK}"}
        said = self._run("ls-files", "-s", "-z", more=more)
        meant = b"".join(
            b"%06o %s %d\t%s\0" % (entry.mode, entry.object_id.hex().encode(), stage, path)
            for (path, stage), entry in sorted(read_entries(index.new, length).items())
        )
        if said != meant:
            raise GitFailed("git reads another index than was written")

    def _run(self, *arguments: str, words: bytes = b"", more: dict[str, str] | None = None) -> bytes:
        kept = (self._host.host,)
        return self._git.run(self._directory, arguments, words=words, more=more, kept=kept)


def _index_fits(host: GitView, index: IndexMove, length: int) -> bool:
    now = read_entries(host.read(INDEX, _MOST_INDEX) or b"", length)
    return any(mean_the_same(now, read_entries(data, length)) for data in (index.old, index.new))


def _is_on_its_way(stash: StashMove, now: Sequence[LogEntry]) -> bool:
    return _ids(now) == _ids(stash.old) or _is_beginning(now, stash.new)


def _is_beginning(now: Sequence[LogEntry], whole: Sequence[LogEntry]) -> bool:
    return _ids(now) == _ids(whole[: len(now)])


def _ids(log: Sequence[LogEntry]) -> list[tuple[str, str]]:
    return [(entry.new, entry.message) for entry in log]
