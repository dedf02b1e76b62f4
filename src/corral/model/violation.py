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

    def describe(self) -> str:
        """One sentence that a person or a model can act on."""
        hint = f"; to permit it: {self._flag()}" if self.hint else ""
        guess = " (guessed from the output)" if self.evidence is Evidence.INFERRED else ""
        return f"{self.feature.value}: {self.subject}: {self.detail}{guess}{hint}"

    def _flag(self) -> str:
        """For a name that was looked up, http and https: nobody knows yet which of them was meant."""
        if self.hint == f"network:https:{self.subject}":
            return f"--allow {self.subject}"
        return f"--cap {self.hint}"
