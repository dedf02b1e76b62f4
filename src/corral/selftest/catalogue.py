"""The catalogue: every probe, in the order in which they are run."""

from __future__ import annotations

from corral.selftest import attacks_files, attacks_reads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.selftest.probe import EscapeProbe

PROBES: tuple[EscapeProbe, ...] = (*attacks_files.PROBES, *attacks_reads.PROBES)
