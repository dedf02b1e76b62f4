"""CheckResult: what a check has to say about the text of a command. It is advice, and never a proof."""

from __future__ import annotations

from enum import StrEnum

from corral.model.printable import printable
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: What a person and a program are told with every answer.
ADVICE = "advice from the text alone: `allow` says that no rule objects, not that the command is safe"
#: The rule of what cannot be known from the text.
UNKNOWN_RULE = "unknown"
_LONGEST = 120


class CheckVerdict(StrEnum):
    """From the most lenient to the strictest."""

    ALLOW = "allow"  # no rule objects
    ASK = "ask"  # a person should look; also whatever cannot be resolved
    DENY = "deny"

    @property
    def rank(self) -> int:
        """How strict it is."""
        return _ORDER.index(self)


_ORDER = (CheckVerdict.ALLOW, CheckVerdict.ASK, CheckVerdict.DENY)


class CheckFinding(Record):
    """One rule that matches, and the part of the text it matches."""

    verdict: CheckVerdict
    rule: str
    kind: str
    sentence: str
    start: int  # in characters of the text
    end: int
    text: str  # that part, or its beginning

    def describe(self) -> str:
        """One line for a person."""
        return f"{self.verdict.value}: {self.sentence}: {printable(self.text)} [{self.rule}]"

    def to_json(self) -> dict[str, Any]:
        """All fields, in JSON's own types."""
        return {name: getattr(self, name) for name in self._fields}


class CheckResult(Record):
    verdict: CheckVerdict
    findings: tuple[CheckFinding, ...] = ()
    #: Parts of the text whose value is not in it, and on which no rule hung: they may hold anything.
    unknown: tuple[tuple[int, int], ...] = ()

    @property
    def reasons(self) -> tuple[CheckFinding, ...]:
        """The findings, the strictest first."""
        return tuple(sorted(self.findings, key=lambda found: (-found.verdict.rank, found.start)))

    def to_json(self) -> dict[str, Any]:
        """The whole answer in JSON's own types."""
        return {
            "v": 1,
            "verdict": self.verdict.value,
            "reasons": [found.to_json() for found in self.reasons],
            "unknown": [{"start": start, "end": end} for start, end in self.unknown],
            "advisory": ADVICE,
        }


def make_result(findings: list[CheckFinding], unknown: list[tuple[int, int]]) -> CheckResult:
    """The strictest of all findings, each said once."""
    said = tuple(dict.fromkeys(findings))
    verdict = max((found.verdict for found in said), key=lambda each: each.rank, default=CheckVerdict.ALLOW)
    return CheckResult(verdict, said, tuple(dict.fromkeys(unknown)))


def shorten(text: str) -> str:
    """A part of a command, short enough for a line."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
