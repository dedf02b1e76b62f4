"""Event: something that corral decided or saw during a run, who knows it, and what would allow it.

Names and words in an event may be the command's own. They are shown so that they can neither forge, hide nor
colour a line, and a hint can be pasted into a shell as it stands.
"""

from __future__ import annotations

from enum import StrEnum

from corral.model.errors import CorralError
from corral.model.feature import Feature
from corral.model.network.bundles import bundle_of
from corral.model.network.endpoint import has_port
from corral.model.printable import printable, quoted
from corral.model.record import Record
from corral.model.violation import Evidence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from corral.model.violation import Violation

    #: Is told of events as they come, one at a time, perhaps in a thread of corral's own.
    Listener = Callable[["Event"], object]


class EventKind(StrEnum):
    REFUSED = "refused"  # the command tried what the policy does not permit
    TAKEN = "removed"  # what it made went to quarantine, or back to what it was
    LIMIT = "limit"  # it came to a limit
    DISCARDED = "discarded"  # it was written into a private area, and is gone with that


#: The subject of what is about the run itself.
THE_COMMAND = "the command"
#: Longer names are cut in the middle where they are shown.
_LONGEST = 300
#: What hosts and corral's own words are made of; a path has a slash.
_WORDS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:[] '")


class Event(Record):
    kind: EventKind
    feature: Feature
    subject: str
    evidence: Evidence
    reason: str = ""
    hint: str = ""  # the capability that would permit it; or `waive:FEATURE`, where only that would
    risk: str = ""  # what whoever follows the hint gives away besides
    count: int = 1  # how often; in a result

    def describe(self) -> str:
        """One line that a person or a model can act on: with flags at the command line, else without."""
        guess = " (guessed from the output)" if self.evidence is Evidence.INFERRED else ""
        times = f" ({self.count} times)" if self.count > 1 else ""
        return (
            f"{self.feature.value}: {shown(self.subject)}: {_cut(self.reason)}{guess}{times}{self._advice()}"
        )

    def _advice(self) -> str:
        remedy = self.remedy()
        if not remedy:
            return ""
        risk = f"; beware: {self.risk}" if self.risk else ""
        return f"{risk}; to permit it: {remedy}"

    def remedy(self) -> str:
        """What to type, or to pass, so that it is permitted; empty where nothing would, or nothing should."""
        if not self.hint:
            return ""
        if CorralError.speaks_of_flags:
            return flags_for(self.hint, is_lookup=self._is_lookup())
        if self._is_lookup():
            host = self.hint.removeprefix("network:https:")
            return f"'network:http:{host}' and '{self.hint}'"
        if self.hint.startswith(_WAIVER):
            return f"waive=['{self.hint.removeprefix(_WAIVER)}']"
        return f"'{printable(self.hint)}'"

    def _is_lookup(self) -> bool:
        """For a name that was looked up, http and https: nobody knows yet which of them was meant."""
        return self.hint.startswith("network:https:") and not has_port(self.subject)

    def to_json(self) -> dict[str, Any]:
        """All fields, in JSON's own types."""
        return {
            **{name: getattr(self, name) for name in self._fields},
            "kind": self.kind.value,
            "feature": self.feature.value,
            "evidence": self.evidence.value,
        }


def event_of(violation: Violation, count: int = 1) -> Event:
    """What a violation is as an event."""
    is_limit = violation.feature.value.startswith("limit.")
    kind = EventKind.LIMIT if is_limit else EventKind.REFUSED
    is_seen = violation.evidence is Evidence.OBSERVED and not violation.is_prevented
    if violation.feature is Feature.FS_PROTECT and is_seen:
        kind = EventKind.TAKEN
    return Event(
        kind,
        violation.feature,
        violation.subject,
        violation.evidence,
        violation.detail,
        violation.hint,
        violation.risk,
        count,
    )


def flags_for(hint: str, *, is_lookup: bool = False) -> str:
    """A capability as it is typed after `corral run`."""
    if hint.startswith(_WAIVER):
        return f"--waive {quoted(hint.removeprefix(_WAIVER))}"
    if is_lookup:
        host = hint.removeprefix("network:https:")
        bundle = bundle_of(host)
        return f"--allow {quoted(host)}" + (
            f" (or all that its client needs: --allow {bundle})" if bundle else ""
        )
    for prefix, flag in _FLAGS.items():
        if hint.startswith(prefix):
            return f"{flag} {quoted(hint.removeprefix(prefix))}"
    return f"--cap {quoted(hint)}"


def shown(subject: str) -> str:
    """A name as it stands in a line: in quotes where it could be taken for other words of that line."""
    return _cut(subject) if _WORDS.issuperset(subject) else quoted(_cut(subject))


def _cut(text: str) -> str:
    if len(text) <= _LONGEST:
        return printable(text)
    half = _LONGEST // 2
    return printable(f"{text[:half]}[...]{text[-half:]}")


_WAIVER = "waive:"
_FLAGS = {
    "filesystem:read:": "--read",
    "filesystem:write:": "--write",
    "time:limit:": "--timeout",
    "memory:limit:": "--memory",
    "pids:limit:": "--pids",
    "output:limit:": "--output-limit",
}
