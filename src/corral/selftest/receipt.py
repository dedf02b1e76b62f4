"""Receipt: what a run of the battery found, on which host, in a form that can be kept and compared."""

from __future__ import annotations

import hashlib
import json
import os

from corral import __version__
from corral.host.real import RealHost
from corral.model.record import Record
from corral.selftest.probe import ProbeOutcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from corral.selftest.probe import ProbeReport


class HostFacts(Record):
    kernel: str
    machine: str
    uid: int
    landlock_abi: int
    corral_version: str
    launcher_sha256: str  # empty where there is no launcher


class Receipt(Record):
    host: HostFacts
    backend: str
    probes: tuple[ProbeReport, ...]

    @property
    def ok(self) -> bool:
        """Nothing escaped, nothing was broken, and at least something held."""
        counts = self.counts
        return not (counts["ESCAPED"] or counts["broken"]) and counts["held"] > 0

    @property
    def counts(self) -> dict[str, int]:
        """How many probes came out how; every outcome is named, also those that did not occur."""
        return {
            outcome.value: sum(report.outcome is outcome for report in self.probes)
            for outcome in ProbeOutcome
        }

    @property
    def digest(self) -> str:
        """SHA-256 over all that the receipt says, in canonical JSON."""
        text = json.dumps(self._content(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """The whole receipt in JSON's own types."""
        return {**self._content(), "digest": self.digest}

    def _content(self) -> dict[str, Any]:
        facts = self.host
        return {
            "v": 1,
            "host": {field: getattr(facts, field) for field in type(facts)._fields},
            "backend": self.backend,
            "ok": self.ok,
            "counts": self.counts,
            "probes": [
                {
                    "name": report.name,
                    "title": report.title,
                    "feature": report.feature.value,
                    "source": report.source,
                    "outcome": report.outcome.value,
                    "reason": report.reason,
                    "seconds": round(report.seconds, 3),
                }
                for report in self.probes
            ],
        }


def host_facts() -> HostFacts:
    """Ask this host."""
    host = RealHost()
    launcher, _ = host.launcher()
    return HostFacts(
        kernel=os.uname().release,
        machine=host.machine,
        uid=host.uid,
        landlock_abi=host.landlock_abi(),
        corral_version=__version__,
        launcher_sha256=_sha256(launcher) if launcher else "",
    )


def _sha256(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
