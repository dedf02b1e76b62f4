"""Violation: something the command tried that the policy forbids."""

from __future__ import annotations

from enum import StrEnum

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.feature import Feature


class Evidence(StrEnum):
    OBSERVED = "observed"  # the enforcing mechanism told us
    INFERRED = "inferred"  # guessed from what the command printed; may be wrong


class Violation(Record):
    feature: Feature
    subject: str
    evidence: Evidence
    detail: str = ""
    hint: str = ""  # the capability that would permit it
    risk: str = ""  # what whoever follows the hint gives away besides
    is_prevented: bool = False  # it never happened, so that nothing had to be removed

    def describe(self) -> str:
        """One sentence that a person or a model can act on: with flags at the command line, else without."""
        from corral.model.event import event_of  # most runs have none

        return event_of(self).describe()
