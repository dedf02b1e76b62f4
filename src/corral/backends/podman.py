"""Podman: a podman container for each run, corral-launch as its first process.

Guarantees   everything but net.except and limit.disk-files; limit.memory, limit.cpu, limit.cpu-time and
             limit.pids if the engine has control groups for them
Mechanism    the engine's namespaces, read-only image, bind mounts and control group, no capabilities; inside,
             by the launcher: Landlock, seccomp, limits. The launcher checks what the engine did from
             inside, before the command runs.
Not covered  holes of the kernel and of the engine; the contents of the image; sockets of the host inside a
             granted directory; limit.disk-files, because podman bounds only the size of a tmpfs; file systems
             mounted inside a path granted for reading appear empty
Order        mounts go from shallow to deep; a mount inside a path of the host only covers what exists there
"""

from __future__ import annotations

from corral.backends.engine.messages import CONDITIONS, PODMAN, VARIABLES
from corral.model.feature import Feature
from corral.model.probe import Dependence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.backend import Host
    from corral.model.launch import Launch
    from corral.model.plan import Plan
    from corral.model.probe import Probe

#: The most that it claims on any host.
CLAIMS = frozenset(Feature) - {
    Feature.FS_TRIAL,
    Feature.PROC_IDENTITY,
    Feature.NET_EXCEPT,
    Feature.LIMIT_DISK_FILES,
}
__all__ = ["CLAIMS", "CONDITIONS", "PodmanBackend"]


class PodmanBackend:
    name = PODMAN
    depends = Dependence(programs=(PODMAN,), variables=VARIABLES[PODMAN], hard_limits=True)

    def probe(self, host: Host) -> Probe:
        """Ask the engine, which answers for this machine or not at all, and run a command in it."""
        from corral.backends.engine.probe import probe_engine

        return probe_engine(PODMAN, host)

    def lower(self, plan: Plan, probe: Probe) -> Launch:
        """Arguments for `podman run`, and a spec for the launcher."""
        from corral.backends.engine.lowering import lower_engine

        return lower_engine(PODMAN, plan, probe)
