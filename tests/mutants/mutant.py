"""A mutant: corral with one thing removed, and the tests that must notice."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Answer(Enum):
    """What the tests are expected to say."""

    CAUGHT = "caught"  # a test of what is broken fails
    REFUSED = "refused"  # nothing runs any more: what was removed is missed by the launcher itself
    SURVIVES = "survives"  # nothing can be noticed, for the reason that is given


@dataclass(frozen=True)
class Edit:
    """A text that occurs exactly once in a file, and what stands there instead."""

    file: str
    before: str
    after: str

    def apply(self, text: str) -> str:
        found = text.count(self.before)
        if found != 1:
            raise ValueError(f"{self.file}: {self.before!r} is there {found} times, not once")
        return text.replace(self.before, self.after)


@dataclass(frozen=True)
class Mutant:
    """`tests` are node ids. `why` is needed where no test is expected to catch it."""

    name: str
    breaks: str  # the promise, in words
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]
    answer: Answer = Answer.CAUGHT
    why: str = ""


def mutate(mutant: Mutant, read: dict[str, str] | None = None) -> dict[str, str]:
    """The files that a mutant changes, by their names. Raises ValueError if an edit does not fit."""
    changed: dict[str, str] = dict(read or {})
    for edit in mutant.edits:
        text = changed.get(edit.file)
        changed[edit.file] = edit.apply((ROOT / edit.file).read_text() if text is None else text)
    return changed
