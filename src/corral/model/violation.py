"""Violation: something the command tried that the policy forbids."""

from __future__ import annotations

from enum import StrEnum

from corral.model.endpoint import has_port
from corral.model.errors import CorralError
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
        """One sentence that a person or a model can act on: with flags at the command line, else without."""
        hint = f"; to permit it: {self._remedy()}" if self.hint else ""
        guess = " (guessed from the output)" if self.evidence is Evidence.INFERRED else ""
        return f"{self.feature.value}: {self.subject}: {self.detail}{guess}{hint}"

    def _remedy(self) -> str:
        """For a name that was looked up, http and https: nobody knows yet which of them was meant."""
        scheme, _, host = self.hint.removeprefix("network:").partition(":")
        is_of_lookup = scheme == "https" and not has_port(self.subject)
        if CorralError.speaks_of_flags:
            return f"--allow {host}" if is_of_lookup else f"--cap {self.hint}"
        return f"'network:http:{host}' and '{self.hint}'" if is_of_lookup else f"'{self.hint}'"
