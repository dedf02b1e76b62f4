"""The catalogue: every probe, in the order in which they are run."""

from __future__ import annotations

from corral.selftest import (
    attacks_afterwards,
    attacks_files,
    attacks_git,
    attacks_inheritance,
    attacks_ipc,
    attacks_kernel,
    attacks_limits,
    attacks_metadata,
    attacks_network,
    attacks_plant,
    attacks_processes,
    attacks_reads,
    attacks_repositories,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.selftest.probe import EscapeProbe

PROBES: tuple[EscapeProbe, ...] = (
    *attacks_files.PROBES,
    *attacks_reads.PROBES,
    *attacks_metadata.PROBES,
    *attacks_git.PROBES,
    *attacks_repositories.PROBES,
    *attacks_afterwards.PROBES,
    *attacks_plant.PROBES,
    *attacks_network.PROBES,
    *attacks_ipc.PROBES,
    *attacks_processes.PROBES,
    *attacks_inheritance.PROBES,
    *attacks_kernel.PROBES,
    *attacks_limits.PROBES,
)
