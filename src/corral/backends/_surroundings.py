"""What is around corral and keeps it from making namespaces: Ubuntu's restriction, or a container.

A trial says in which phase it ended. With what is known of the surroundings, that names the one thing to
change.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.backend import Host
    from corral.model.probe import LaunchTrial

DOCKER, PODMAN, KUBERNETES, OTHER = "docker", "podman", "kubernetes", "container"
#: 1: programs without an AppArmor profile that says otherwise have no use of user namespaces.
RESTRICTED = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
INSTALL = "corral install apparmor"

_PHASES = frozenset({"namespaces", "helper", "hostname", "mounts", "net", "lock"})
_EACCES = 13
_PROC = "proc /proc"

#: What each kind of container calls it: calls that its filter denies, mounts that AppArmor denies, parts of
#: /proc that are hidden, without which the kernel lets nobody mount another one.
_FLAGS = {
    DOCKER: (
        "`docker run --security-opt seccomp=unconfined`",
        "`docker run --security-opt apparmor=unconfined`",
        "`docker run --security-opt systempaths=unconfined`",
    ),
    PODMAN: (
        "`podman run --security-opt seccomp=unconfined`",
        "`podman run --security-opt apparmor=unconfined`",
        "`podman run --security-opt unmask=ALL`",
    ),
    KUBERNETES: (
        "`seccompProfile: {type: Unconfined}` in the securityContext of the container",
        "`appArmorProfile: {type: Unconfined}` in the securityContext of the container",
        "`procMount: Unmasked` in the securityContext of the container, and `hostUsers: false` in the pod",
    ),
    OTHER: (
        "a container whose system-call filter permits unshare and mount",
        "a container whose AppArmor profile permits mounts",
        "a container that hides no part of /proc",
    ),
}
_CAUSES = (
    "its system-call filter denies namespaces",
    "its AppArmor profile denies mounts",
    "it hides parts of /proc",
)


def find_container(host: Host) -> str:
    """What kind of container this is; empty outside of any."""
    environment = host.environment()
    if environment.get("KUBERNETES_SERVICE_HOST"):
        return KUBERNETES
    if host.lstat("/run/.containerenv") is not None:
        return PODMAN
    if host.lstat("/.dockerenv") is not None:
        return DOCKER
    return OTHER if environment.get("container") else ""


def explain_surroundings(trial: LaunchTrial, host: Host) -> tuple[str, str] | None:
    """(reason, fix) for a sandbox that could not be made, if it is the surroundings that forbid it."""
    if trial.phase not in _PHASES:
        return None
    kind = find_container(host)
    if kind:
        number = _obstacle(trial)
        return (
            f"this is a container{f' of {kind}' if kind != OTHER else ''}, and {_CAUSES[number]} "
            f"({trial.phase}: {trial.detail})",
            f"start it with {_FLAGS[kind][number]}, or use --backend landlock inside",
        )
    if host.uid != 0 and host.read_text(RESTRICTED, 8).strip() == "1":
        return (
            f"AppArmor keeps user namespaces from programs that it has no profile for ({trial.detail})",
            f"as root: `{INSTALL}`, which permits them to corral's launcher; or use --backend landlock",
        )
    return None


def _obstacle(trial: LaunchTrial) -> int:
    if trial.phase == "mounts" and trial.errno == _EACCES:
        return 1
    return 2 if trial.phase == "mounts" and trial.detail.startswith(_PROC) else 0
