"""None: no sandbox at all. Only by name, never by `auto`.

Guarantees   nothing but the time and output limits and the environment, which the runner enforces
Mechanism    an ordinary process in its own session; resource limits for open files and file sizes
Not covered  everything else; the result lists it as waived
Order        irrelevant
"""

from __future__ import annotations

from corral.model.feature import RUNNER_FEATURES, Feature
from corral.model.launch import Launch
from corral.model.probe import Probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.backend import Host
    from corral.model.plan import Plan

_APPROXIMATES = (
    (Feature.PROC_CONTAINED, "its process group is ended; a process that left the group survives"),
    (Feature.DESCRIPTORS, "open files are closed at the start; this is not proved"),
    (Feature.LIMIT_OPEN_FILES, "RLIMIT_NOFILE; root can raise it"),
    (Feature.LIMIT_FILE_SIZE, "RLIMIT_FSIZE; root can raise it"),
    (Feature.TERMINAL, "it has its own session; root can still type into the terminal"),
)


_BLOCK_BYTES = 512  # what `ulimit -f` counts in: POSIX

#: What the runner keeps, and nothing more.
CLAIMS = RUNNER_FEATURES


class NoneBackend:
    name = "none"

    def probe(self, host: Host) -> Probe:
        """It works everywhere, and holds nothing."""
        return Probe(self.name, True, RUNNER_FEATURES, version="unconfined", approximates=_APPROXIMATES)

    def lower(self, plan: Plan, probe: Probe) -> Launch:
        """The command itself."""
        limits = plan.resolved.limits
        ulimits = []
        if limits.open_files is not None:
            ulimits.append(("-n", limits.open_files))
        if limits.file_size_bytes is not None:
            ulimits.append(("-f", limits.file_size_bytes // _BLOCK_BYTES))
        return Launch(
            self.name, plan.command.argv, plan.env, {}, cwd=plan.command.cwd, ulimits=tuple(ulimits)
        )
