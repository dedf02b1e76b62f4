"""Fidelity: how much of a policy each backend of a host would hold, clause by clause."""

from __future__ import annotations

from enum import StrEnum

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from corral.model.feature import Feature


class Hold(StrEnum):
    ENFORCED = "enforced"
    APPROXIMATED = "approximated"  # something is done, but less than is promised: it counts as not enforced
    NOT_ENFORCEABLE = "not enforceable"


#: From the weakest on: a clause is held no better than the weakest of what it needs.
_WEAKEST_FIRST = (Hold.NOT_ENFORCEABLE, Hold.APPROXIMATED, Hold.ENFORCED)


class Clause(Record):
    """One row of a policy: a capability, or several of one verb, or what holds for every policy."""

    text: str
    features: tuple[Feature, ...]  # what it needs; none: it gives, and there is nothing to hold
    always: bool = False  # no capability asks for it: it holds whatever the policy says


class Finding(Record):
    feature: Feature
    hold: Hold
    how: str  # the mechanism, or what is done instead; empty where nothing is


class BackendFidelity(Record):
    """What one backend would make of a plan."""

    backend: str
    available: bool
    findings: tuple[
        Finding, ...
    ] = ()  # one for each feature that the plan requires; none if it is unavailable
    version: str = ""
    reason: str = ""  # why it is unavailable
    fix: str = ""

    @property
    def lacking(self) -> tuple[Finding, ...]:
        """What it does not enforce, whether or not it comes near."""
        return tuple(finding for finding in self.findings if finding.hold is not Hold.ENFORCED)

    @property
    def enforces_all(self) -> bool:
        return self.available and not self.lacking

    def hold_of(self, features: Iterable[Feature]) -> Hold | None:
        """How well it holds all of these together; None if it is unavailable or there is nothing to hold."""
        wanted = frozenset(features)
        found = {finding.hold for finding in self.findings if finding.feature in wanted}
        if self.available and wanted and not found:
            return Hold.NOT_ENFORCEABLE  # a default, which nobody requires
        return next((hold for hold in _WEAKEST_FIRST if hold in found), None)


class Fidelity(Record):
    """A policy on this host: its clauses, every backend, and what `run` would do."""

    clauses: tuple[Clause, ...]
    backends: tuple[BackendFidelity, ...]  # in the registry's order
    waived: frozenset[Feature]
    chosen: str  # the backend that would be taken; empty: the command would be refused
    refusal: str = ""  # why; or why `none` would be taken, though nobody asked for it by name
    fix: str = ""
    reasons: tuple[str, ...] = ()  # the parts of the refusal, one for each backend that was tried

    @property
    def falls_back(self) -> bool:
        """Whether nothing would confine the command, because `fallback` permits that."""
        return bool(self.chosen and self.refusal)
