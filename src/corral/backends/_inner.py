"""What holds inside a file system that was rebuilt for the run, whoever rebuilt it."""

from __future__ import annotations

from corral.backends import _gateway as gateway
from corral.backends import _launcher as common
from corral.backends import _limits as limiting
from corral.linux import landlock
from corral.linux.filter import SocketPolicy
from corral.linux.spec import Landlock, PathRule, Spec
from corral.model.errors import UnenforceableError
from corral.model.feature import Feature
from corral.model.policy import NetMode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from corral.model.plan import Plan, ResolvedPolicy
    from corral.model.probe import Probe


def resolved_spec(resolved: ResolvedPolicy, probe: Probe, telling: common.Telling, *, is_kept: bool) -> Spec:
    """What the launcher does in the sandbox of bwrap or firejail, but for what depends on its files."""
    is_locked, holders = common.is_locked(probe), limiting.read_holders(probe, resolved)
    private_network = resolved.net.mode is not NetMode.FULL
    sockets = SocketPolicy.NAMESPACED if private_network else SocketPolicy.HOST
    machine = probe.detail("machine")
    return Spec(
        argv=(),
        cwd="/",
        inside=True,
        uid_map=common.id_map(resolved.uid, resolved.uid) if is_locked else "",
        gid_map=common.id_map(resolved.uid, resolved.gid) if is_locked else "",
        lock=is_locked,
        rlimits=common.rlimits(resolved.limits)
        + limiting.rlimits(resolved.limits, holders, launcher_pids=common.own_pids(kept=is_kept)),
        seccomp=common.resolved_filter(
            resolved, machine, sockets, by_filter=False, kept=is_kept, telling=telling
        ),
        listens=common.listens(machine, telling),
    )


def rebuilt_landlock(resolved: ResolvedPolicy, abi: int) -> Landlock:
    """The same rules once more, by another mechanism, on the tree that the mounts have made."""
    read, write, device = landlock.read_rights, landlock.write_rights, landlock.device_rights
    listing = read(abi, is_directory=True, execute=False) & ~landlock.FsRight.READ_FILE
    paths = [PathRule(listing, "/"), PathRule(read(abi, is_directory=True, execute=False), "/proc")]
    paths += [PathRule(device(abi), f"/dev/{name}") for name in common.DEVICES]
    paths.append(PathRule(device(abi) | listing, "/dev/pts"))
    paths += common.grant_rules(resolved, abi)
    paths += [PathRule(write(abi, is_directory=True), path) for path in resolved.private]
    return Landlock(landlock.handled_fs(abi), 0, landlock.scoped(abi), tuple(paths))


def without_covered(rules: Sequence[PathRule], changeable: Collection[str] = ()) -> tuple[PathRule, ...]:
    """Leave out rules that permit nothing which those of the directories above do not: rules add up.

    Only where mounts hold the same: of what is left out nobody looks any more whether it is what was planned.
    So nothing is left out for a directory in which commands change the way there (`changeable`): the private
    areas of a kept sandbox, which its successor inherits.
    """
    rights: dict[str, int] = {}
    for rule in rules:
        if rule.path not in changeable:
            rights[rule.path] = rights.get(rule.path, 0) | rule.rights
    return tuple(rule for rule in rules if rule.rights & ~_permitted_above(rule.path, rights))


def without_numbers(rules: Sequence[PathRule], root: str) -> tuple[PathRule, ...]:
    """Rules that do not ask for the host's own objects at or beneath a path: a layer lies over them."""
    return tuple(
        rule.replace(device=0, inode=0) if rule.path == root or rule.path.startswith(f"{root}/") else rule
        for rule in rules
    )


def _permitted_above(path: str, rights: Mapping[str, int]) -> int:
    found = 0
    while path != "/":
        path = path.rpartition("/")[0] or "/"
        found |= rights.get(path, 0)
    return found


def trial_landlock(abi: int) -> Landlock | None:
    """A domain without rules, to see whether the kernel takes it; None where it has no Landlock."""
    return Landlock(landlock.handled_fs(abi), 0, landlock.scoped(abi)) if abi else None


def mechanisms(plan: Plan, abi: int) -> dict[Feature, str]:
    """What holds each feature; limits of the whole tree are named elsewhere."""
    lock = f" + {landlock.describe(abi)}" if abi else ""
    return {
        Feature.FS_READ: f"mount namespace: nothing else is there{lock}",
        Feature.FS_WRITE: f"read-only bind mounts{lock}",
        Feature.FS_METADATA: "read-only bind mounts",
        Feature.FS_DENY: "masked, or read-only, by mounts",
        Feature.FS_PROTECT: "read-only bind mounts, pinned; what is missing is guarded",
        Feature.FS_PRIVATE: "tmpfs",
        **({} if plan.command.trial is None else {Feature.FS_TRIAL: "overlayfs over the workspace"}),
        Feature.LIMIT_DISK: "one tmpfs for all private areas",
        Feature.LIMIT_DISK_FILES: "one tmpfs for all private areas",
        Feature.PROC_HIDDEN: "pid namespace",
        Feature.PROC_SHIELDED: f"pid namespace{lock}",
        Feature.PROC_CONTAINED: "pid namespace: all end with PID 1",
        Feature.IPC_PRIVATE: f"ipc namespace{lock}" if abi else "ipc and net namespace",
        Feature.PRIVILEGES: "user namespace, no_new_privs, no capabilities, seccomp",
        Feature.SYSCALLS: "seccomp",
        Feature.DESCRIPTORS: "close_range",
        Feature.TERMINAL: "new session + seccomp",
        Feature.LIMIT_FILE_SIZE: "RLIMIT_FSIZE",
        Feature.LIMIT_OPEN_FILES: "RLIMIT_NOFILE",
        **({Feature.NET_NONE: "net namespace with loopback only"} if has_no_network(plan) else {}),
        **gateway.mechanisms(plan),
        **common.single_process(plan),
    }


def has_no_network(plan: Plan) -> bool:
    return plan.resolved.net.mode is NetMode.NONE


def check_abstract_sockets(plan: Plan, abi: int) -> None:
    """Raise UnenforceableError where the host's network comes with its abstract sockets."""
    shared = plan.resolved.net.mode is NetMode.FULL and Feature.IPC_PRIVATE not in plan.waived
    if not shared or (abi and landlock.scoped(abi)):
        return
    raise UnenforceableError(
        "unenforceable",
        "this kernel cannot keep the host's abstract sockets away while the network is open",
        why=f"that needs Landlock ABI 6, and this kernel has {abi}",
        fix="use `--net none`, or a newer kernel (6.12), or give it up with `--waive ipc.private`",
        lacking=frozenset({Feature.IPC_PRIVATE}),
    )
