"""Journal: what an apply is going to do, written down before it does anything, and how far it has come.

Killed at any point, whoever comes next reads it and goes on, or goes back. Each step is done by one call that
happens or does not (a rename, a link, an unlink), and what is there afterwards tells which. So that a file is
done is written down together with what is next.
"""

from __future__ import annotations

import errno
import json
import os
from enum import StrEnum
from json.encoder import encode_basestring_ascii as quote

from corral.model.record import Record
from corral.trials.git.bring_over import read_plans, write_plans
from corral.trials.stamp import Stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from corral.trials.git.plan import GitChanges
    from corral.trials.record import TrialRecord

_STEPS, _PROGRESS, _BACKUP = "steps", "progress", "backup"


class StepKind(StrEnum):
    REMOVE = "remove"  # a file or a link
    REMOVE_DIRECTORY = "rmdir"
    DIRECTORY = "mkdir"
    FILE = "file"
    LINK = "link"
    MODE = "chmod"


class ApplyStep(Record):
    do: StepKind
    path: str
    mode: int = 0
    before: Stamp | None = None  # what must be there
    text: str = ""  # of a link that was there


class Staged(Record):
    """What a step puts in its place."""

    device: int
    inode: int
    written_ns: int = -1  # the time of its content
    by_exchange: bool = False  # what was there is then among the backups


class JournalMark(StrEnum):
    """A line of the progress: what it is about, a step's number, numbers."""

    STAGED = "staged"  # this object is what will be there
    DONE = "done"
    LEFT = "left"  # a step that could not be done: the host was there first
    APPLIED = "applied"  # all steps
    UNDOING = "undoing"
    RESTAGED = "restaged"
    UNDONE = "undone"
    OVER = "over"  # all that can be undone is


class Journal:
    def __init__(self, directory: str, number: int, steps: tuple[ApplyStep, ...]) -> None:
        self.directory, self.number, self.steps = directory, number, steps
        self.git = read_plans(directory)
        self._identity = directory.split("/")[-3]  # of the trial
        self.staged: dict[int, Staged] = {}
        self.done: dict[int, Stamp | None] = {}
        self.left: set[int] = set()
        self.restaged: dict[int, tuple[int, int]] = {}
        self.undone: set[int] = set()
        self.is_applied = self.is_undoing = self.is_over = False
        self._unwritten = ""
        path = os.path.join(directory, _PROGRESS)
        self._progress = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._read()

    def close(self) -> None:
        os.close(self._progress)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_unfinished(self) -> bool:
        """Whether somebody was killed, or had no room, on the way."""
        return not self.is_over and (self.is_undoing or not self.is_applied)

    @property
    def backups(self) -> str:
        """The directory of what was replaced and removed."""
        return os.path.join(self.directory, _BACKUP)

    def backup(self, number: int) -> str:
        """Where the file that a step removes lies."""
        return f"{self.directory}/{_BACKUP}/{number}"

    def temporary(self, number: int) -> str:
        """The name beside its place under which a step makes what it puts there."""
        return f".corral-apply-{self._identity}-{self.number}-{number}"

    def note(self, mark: JournalMark, *values: object) -> None:
        """Write down how far it has come. One write: it is there as a whole, or cut off and not read."""
        self._write(f'["{mark.value}"{"".join([f", {value}" for value in values])}]\n')
        self._take(mark, values)

    def note_staged(self, number: int, made: os.stat_result, *, by_exchange: bool = False) -> None:
        """This object is what a step is about to put in its place."""
        staged = Staged(made.st_dev, made.st_ino, made.st_mtime_ns, by_exchange)
        how = "true" if by_exchange else "false"
        self._write(f'["staged", {number}, {made.st_dev}, {made.st_ino}, {made.st_mtime_ns}, {how}]\n')
        self.staged[number] = staged

    def note_done(self, number: int, stamp: Stamp | None) -> None:
        """A step is done. INVARIANT: that is written down, by `settle` or the next note, before more is."""
        self._unwritten += f'["done", {number}, {stamp.to_json() if stamp is not None else "null"}]\n'
        self.done[number] = stamp

    def settle(self) -> None:
        """Write down what is not yet."""
        if self._unwritten:
            self._write("")

    def _write(self, line: str) -> None:
        data = (self._unwritten + line).encode("ascii")
        written = os.write(self._progress, data)
        if written != len(data):  # ORDER: before the next line is written, by whomever
            os.ftruncate(self._progress, os.fstat(self._progress).st_size - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.directory)
        self._unwritten = ""

    def _read(self) -> None:
        with open(os.path.join(self.directory, _PROGRESS), encoding="ascii") as file:
            text = file.read()
        whole, _, cut = text.rpartition("\n")
        if cut:  # ORDER: before the next line is written
            os.ftruncate(self._progress, len(text) - len(cut))
        for line in filter(None, whole.split("\n")):
            mark, *values = json.loads(line)
            self._take(JournalMark(mark), values)

    def _take(self, mark: JournalMark, values: Iterable[object]) -> None:
        values = list(values)
        number = values[0] if values and isinstance(values[0], int) else 0
        match mark:
            case JournalMark.STAGED:
                self.staged[number] = Staged(*values[1:])  # type: ignore[arg-type]
            case JournalMark.DONE:
                fields = values[1]
                self.done[number] = Stamp(*fields) if isinstance(fields, list) else None
            case JournalMark.LEFT:
                self.left.add(number)
            case JournalMark.RESTAGED:
                self.restaged[number] = (int(str(values[1])), int(str(values[2])))
            case JournalMark.UNDONE:
                self.undone.add(number)
            case JournalMark.APPLIED:
                self.is_applied = True
            case JournalMark.UNDOING:
                self.is_undoing = True
            case JournalMark.OVER:
                self.is_over = True


def make_journal(
    record: TrialRecord, steps: tuple[ApplyStep, ...], git: Sequence[GitChanges] = ()
) -> Journal:
    """Write down what is to be done. INVARIANT: whole, before anything is."""
    place = os.path.join(record.directory, "journals")
    os.makedirs(place, mode=0o700, exist_ok=True)
    number = max(_numbers(place), default=0) + 1
    directory = os.path.join(place, str(number))
    os.makedirs(os.path.join(directory, _BACKUP), mode=0o700)
    path = os.path.join(directory, _STEPS)
    write_plans(directory, git)  # ORDER: before the steps: with them, the journal is there
    with open(f"{path}.new", "w", encoding="ascii") as file:
        for step in steps:
            before = step.before.to_json() if step.before is not None else "null"
            file.write(f'["{step.do}", {quote(step.path)}, {step.mode}, {before}, {quote(step.text)}]\n')
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{path}.new", path)
    return Journal(directory, number, steps)


def read_journals(record: TrialRecord) -> list[Journal]:
    """All of a trial, the latest last; the caller closes them. One without steps never began."""
    place = os.path.join(record.directory, "journals")
    found = []
    for number in sorted(_numbers(place)):
        directory = os.path.join(place, str(number))
        try:
            with open(os.path.join(directory, _STEPS), encoding="ascii") as file:
                steps = tuple(_step(line) for line in file)
        except FileNotFoundError:
            continue
        found.append(Journal(directory, number, steps))
    return found


def _step(line: str) -> ApplyStep:
    do, path, mode, before, text = json.loads(line)
    return ApplyStep(StepKind(do), path, mode, Stamp(*before) if before is not None else None, text)


def _numbers(place: str) -> list[int]:
    try:
        return [int(name) for name in os.listdir(place) if name.isdigit()]
    except FileNotFoundError:
        return []
