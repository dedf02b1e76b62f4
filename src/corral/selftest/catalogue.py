"""The catalogue: every probe, in the order in which they are run."""

from __future__ import annotations

from corral.selftest.attacks import afterwards as attacks_afterwards
from corral.selftest.attacks import files as attacks_files
from corral.selftest.attacks import git as attacks_git
from corral.selftest.attacks import inheritance as attacks_inheritance
from corral.selftest.attacks import ipc as attacks_ipc
from corral.selftest.attacks import kernel as attacks_kernel
from corral.selftest.attacks import limits as attacks_limits
from corral.selftest.attacks import metadata as attacks_metadata
from corral.selftest.attacks import network as attacks_network
from corral.selftest.attacks import plant as attacks_plant
from corral.selftest.attacks import processes as attacks_processes
from corral.selftest.attacks import reads as attacks_reads
from corral.selftest.attacks import repositories as attacks_repositories

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
