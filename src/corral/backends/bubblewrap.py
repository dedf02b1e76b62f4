"""Bubblewrap: `bwrap` makes namespaces and the file system, corral-launch is the first process inside.

Guarantees   everything but net.except and limit.disk-files; limits as with native
Mechanism    namespaces and bind mounts by bwrap; inside, by the launcher: masks, shields and pins, private
             areas inside granted paths, Landlock, seccomp, limits. The launcher checks what bwrap did from
             inside, before the command runs.
Not covered  as with native; limit.disk-files, because bwrap bounds only the size of a tmpfs
Order        bwrap never mounts below a writable path: versions below 0.12 follow a link that a command put
             there, and create the mount point on the host. The launcher mounts there, without following
             links, over the planned paths, which already exist. Protected paths below a mask or a private
             area are mounted before it.
"""

from __future__ import annotations

from functools import lru_cache

from corral.backends import _gateway as gateway
from corral.backends import _inner as inner
from corral.backends import _launcher as common
from corral.backends import _limits as limiting
from corral.backends import _mounts as mounts
from corral.backends._holes import read_version
from corral.linux.encode import encode_command, encode_resolved, join
from corral.linux.filter import SocketPolicy
from corral.linux.spec import Expect, ExpectFlag, Mount, MountKind, Spec
from corral.model.errors import UnenforceableError
from corral.model.feature import Feature
from corral.model.launch import HOSTNAME, Front, GatewayRequest, Inside, Launch, Outer, StartFailure
from corral.model.policy import FsAccess, NetMode
from corral.model.probe import LISTENS, Dependence, Probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.backends._limits import Holders
    from corral.backends._mounts import Place
    from corral.linux.spec import GatewaySockets
    from corral.model.backend import Host
    from corral.model.plan import Plan, ResolvedPolicy, TrialLayers

PROGRAM = "bwrap"
_LAUNCHER = "/.corral-launch"  # where the launcher is inside
_COVERS = "/.corral"  # a tmpfs for its masks, which it removes: see launcher/mounts.c
_LAYERS = "/.corral-layers"  # the layers of a trial, removed as well
_LEAST_VERSION = (0, 8)
_AREA_BYTES = 2 * 1024**3
_START_SECONDS = 20.0
#: For a run, whose thread waits for its end: the kernel sends the signal when the *thread* that started bwrap
#: ends. So a kept sandbox goes without; there the lifeline ends everything, and before it the control socket.
_BOND = ("--die-with-parent",)
#: What the kernel does in the layer of a trial, it does with the rights of who made that: it copies files.
_LAYER_CAPABILITIES = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID")
#: Over the new network alone: routes, sockets at low ports, and hearing of connections that were refused.
_GATEWAY_CAPABILITIES = ("CAP_NET_ADMIN", "CAP_NET_BIND_SERVICE", "CAP_NET_RAW")

CLAIMS = frozenset(Feature) - {Feature.PROC_IDENTITY, Feature.NET_EXCEPT, Feature.LIMIT_DISK_FILES}
#: Where it claims less, and for whom.
CONDITIONS = (
    *limiting.CONDITIONS,
    common.LOCK_CONDITION,
    common.TRIAL_CONDITION,
    (frozenset({Feature.IPC_PRIVATE}), "with `network:full`, needs Landlock ABI 6"),
)
_NAMESPACES_FORBIDDEN = (
    "as root: `sysctl -w kernel.unprivileged_userns_clone=1` (Debian), or a profile of AppArmor for bwrap "
    "(Ubuntu; `corral install apparmor` makes one for --backend native); or use --backend landlock"
)
_FAILURES = (
    StartFailure(
        "No permissions to create", "outer", "bubblewrap may not make namespaces here", _NAMESPACES_FORBIDDEN
    ),
    StartFailure(
        "Creating new namespace failed",
        "outer",
        "bubblewrap may not make namespaces here",
        _NAMESPACES_FORBIDDEN,
    ),
    StartFailure(
        "Can't find source path",
        "path-changed",
        "the sandbox could not be set up",
        "run the command again; something replaces this path while commands start",
    ),
)


class BubblewrapBackend:
    name = "bubblewrap"
    depends = Dependence(programs=(PROGRAM,))

    def probe(self, host: Host) -> Probe:
        """Try all of it, on a command that does not exist."""
        unusable = common.base_probe(self.name, host, PROGRAM)
        if unusable is not None:
            return unusable
        program = host.which(PROGRAM)
        version = host.run_tool((program, "--version")).output.strip().rpartition(" ")[2]
        if not version or read_version(version) < _LEAST_VERSION:
            reason = f"bubblewrap {version or 'of an unknown version'} is too old: 0.8 is needed"
            return Probe(self.name, False, reason=reason, fix="install a newer one", version=version)
        abi = host.landlock_abi()
        holders = _holders(host)
        details = (
            ("launcher", host.launcher()[0]),
            ("program", program),
            ("landlock_abi", str(abi)),
            ("machine", host.machine),
            (LISTENS, "yes"),
            *holders.details(),
        )
        claims = CLAIMS - limiting.BY_GROUPS | holders.claims
        probe = Probe(self.name, True, claims, version=version, details=details)
        found = common.try_parts(
            lambda lock, sockets: host.try_outer(
                _trial(probe, host, lock=lock, sockets=gateway.TRIAL if sockets else None)
            )
        )
        lacking = gateway.CLAIMS if not found.has_gateway else frozenset()
        return common.judge_outer(found.about(probe, lacking), found.trial, PROGRAM, _NAMESPACES_FORBIDDEN)

    def lower(self, plan: Plan, probe: Probe) -> Launch:
        """Arguments for bwrap, and a spec for the launcher inside."""
        abi, resolved = int(probe.detail("landlock_abi")), plan.resolved
        inner.check_abstract_sockets(plan, abi)
        _check_areas(resolved)
        is_locked = common.is_locked(probe)
        trial = plan.command.trial
        frame = _frame(
            *(probe, resolved.uid),
            has_gateway=gateway.is_limited(resolved),
            is_locked=is_locked,
            has_layers=trial is not None,
        )
        bond = () if plan.command.keeps else _BOND
        holders = limiting.read_holders(probe, plan.resolved)
        command = common.command_spec(plan)
        return Launch(
            backend=self.name,
            argv=(
                *(probe.detail("program"), *_namespaces(resolved), *bond, *frame),
                *(*_resolved_arguments(resolved), *_layer_arguments(trial)),
                *("--remount-ro", "/", "--", _LAUNCHER, "--control", "3"),
            ),
            env=(),
            enforced={**_mechanisms(plan, abi), **limiting.mechanisms(resolved.limits, holders)},
            spec=join(
                _encoded_resolved(
                    *(resolved, probe, common.telling_of(plan)),
                    is_kept=plan.command.keeps,
                    layered=trial.root if trial is not None else "",
                ),
                mounts.in_order((*_made_inside(resolved, trial), *mounts.shields(plan))),
                encode_command(command),
            ),
            outer=Outer(probe.detail("launcher"), start_seconds=_START_SECONDS, failures=_FAILURES),
            group=limiting.group_request(resolved.limits, holders, launcher_pids=0, ends_by_group=False),
            gateway=gateway.request(resolved),
            inside=Inside(command.env),
        )


def _holders(host: Host) -> Holders:
    return limiting.without_supervisor(limiting.find_holders(host, namespaced=True))


def _namespaces(resolved: ResolvedPolicy) -> tuple[str, ...]:
    """Root keeps its ids as they are; anyone else is mapped to himself."""
    return (
        *("--unshare-ipc", "--unshare-pid", "--unshare-uts", "--hostname", HOSTNAME),
        *(("--unshare-user",) if resolved.uid != 0 else ()),
        *(("--unshare-net",) if resolved.net.mode is not NetMode.FULL else ()),
    )


def _frame(
    probe: Probe, uid: int, *, has_gateway: bool, is_locked: bool, has_layers: bool = False
) -> tuple[str, ...]:
    """What every sandbox has. The capabilities are for the launcher, which ends with none."""
    needed = ["CAP_SYS_ADMIN", "CAP_SETPCAP"]
    if has_layers:
        needed += _LAYER_CAPABILITIES
    if has_gateway:
        needed += _GATEWAY_CAPABILITIES
    if is_locked and uid == 0:
        needed += [f"CAP_{name}" for name in common.LOCKING_CAPABILITIES]
    return (
        *("--as-pid-1", "--clearenv"),
        *("--cap-drop", "ALL", *(word for name in needed for word in ("--cap-add", name))),
        # With the lock it is the launcher that makes it read-only, when it has no more to write there.
        *("--proc", "/proc", *(() if is_locked else ("--remount-ro", "/proc")), *_devices()),
        *("--ro-bind", probe.detail("launcher"), _LAUNCHER),
    )


def _devices() -> Iterator[str]:
    """Not `--dev`: for its devpts bwrap makes a second user namespace, where the launcher could not mount."""
    yield from ("--perms", "0755", "--dir", "/dev", "--perms", "0755", "--dir", "/dev/pts")
    for name in common.DEVICES:
        yield from ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
    for name, text in mounts.DEVICE_LINKS:
        yield from ("--symlink", text, f"/dev/{name}")


@lru_cache(maxsize=64)
def _resolved_arguments(resolved: ResolvedPolicy) -> tuple[str, ...]:
    """Mounts and links, shallow to deep."""
    size = _area_size(resolved)
    placed: list[tuple[str, tuple[str, ...]]] = []
    for grant in resolved.grants:
        if not mounts.is_beneath_writable(resolved, grant.target.path):
            word = "--ro-bind" if grant.access is FsAccess.READ else "--bind"
            placed.append((grant.target.path, (word, grant.target.path, grant.target.path)))
    placed += [(link.path, ("--symlink", link.text, link.path)) for link in resolved.links]
    for path in resolved.private:
        if not _is_made_inside(resolved, path):
            mode = mounts.area_mode(path)
            placed.append((path, ("--perms", f"{mode:04o}", "--size", str(size), "--tmpfs", path)))
    if any(mounts.masks(resolved)):
        placed.append((_COVERS, ("--perms", "0700", "--size", "65536", "--tmpfs", _COVERS)))
    placed.sort(key=lambda pair: (pair[0].count("/"), pair[0]))
    return tuple(word for _, words in placed for word in words)


def _layer_arguments(trial: TrialLayers | None) -> tuple[str, ...]:
    """Where the launcher finds the layers of a trial, to mount them over the workspace."""
    if trial is None:
        return ()
    own = ("--tmpfs", _LAYERS, "--bind", trial.directory or trial.upper.rpartition("/")[0], f"{_LAYERS}/own")
    below = (("--ro-bind", path, f"{_LAYERS}/{number}") for number, path in enumerate(trial.lowers))
    return (*own, *(word for words in below for word in words))


def _made_inside(resolved: ResolvedPolicy, trial: TrialLayers | None) -> tuple[Place, ...]:
    kept = _inner_mounts(resolved)
    if trial is None:
        return kept
    shown = trial.replace(
        upper=f"{_LAYERS}/own/{trial.upper.rpartition('/')[2]}",
        work=f"{_LAYERS}/own/{trial.work.rpartition('/')[2]}",
        lowers=tuple(f"{_LAYERS}/{number}" for number, _ in enumerate(trial.lowers)),
        directory=f"{_LAYERS}/own" if trial.directory else "",
    )
    return mounts.layered(kept, resolved, shown)


def _area_size(resolved: ResolvedPolicy) -> int:
    """Of each private area: an equal part, since bwrap cannot show one tmpfs in several places."""
    if resolved.limits.disk_bytes is None or not resolved.private:
        return _AREA_BYTES
    return max(1, resolved.limits.disk_bytes // len(resolved.private))


def _is_made_inside(resolved: ResolvedPolicy, area: str) -> bool:
    """Whether the launcher makes a private area: it lies in what is granted, and covers masks and shields.

    In place it could not bind anything that is granted inside: by then the area hides it.
    """
    granted = [grant.target.path for grant in resolved.grants]
    return any(area.startswith(f"{path}/") for path in granted) and not any(
        path.startswith(f"{area}/") for path in granted
    )


@lru_cache(maxsize=64)
def _inner_mounts(resolved: ResolvedPolicy) -> tuple[Place, ...]:
    """What the launcher mounts of a policy: grants beneath writable ones, areas, masks, its own files."""
    beneath = [grant for grant in resolved.grants if mounts.is_beneath_writable(resolved, grant.target.path)]
    made = (*mounts.devices(), *map(mounts.bind_grant, beneath), *mounts.private_files(resolved))
    areas = (path for path in resolved.private if _is_made_inside(resolved, path))
    size = _area_size(resolved)
    return (
        *(mounts.place(mount, mounts.GRANTED) for mount in made),
        *(mounts.place(_area(path, size), mounts.PRIVATE) for path in areas),
        *(mounts.place(mask, mounts.DENIED) for mask in mounts.masks(resolved)),
    )


def _area(path: str, size: int) -> Mount:
    return Mount(MountKind.TMPFS, path, size=size, mode=mounts.area_mode(path))


@lru_cache(maxsize=64)
def _encoded_resolved(
    resolved: ResolvedPolicy, probe: Probe, telling: common.Telling, *, is_kept: bool, layered: str = ""
) -> tuple[int, bytes]:
    abi = int(probe.detail("landlock_abi"))
    rules = inner.rebuilt_landlock(resolved, abi) if abi else None
    if rules is not None and layered:
        rules = rules.replace(paths=inner.without_numbers(rules.paths, layered))
    return encode_resolved(
        inner.resolved_spec(resolved, probe, telling, is_kept=is_kept).replace(
            gateway=gateway.sockets(resolved),
            landlock=rules,
            expects=tuple(_expects(resolved, layered)),
        )
    )


def _expects(resolved: ResolvedPolicy, layered: str) -> Iterator[Expect]:
    """What bwrap has to have done, and the launcher where it lies beneath; under a layer nothing is seen."""
    yield Expect("/", ExpectFlag.TMPFS | ExpectFlag.READ_ONLY)
    for grant in resolved.grants:
        flags = ExpectFlag.READ_ONLY if grant.access is FsAccess.READ else ExpectFlag(0)
        target = grant.target
        if layered and (target.path == layered or target.path.startswith(f"{layered}/")):
            flags |= ExpectFlag.OTHER
        yield Expect(target.path, flags | ExpectFlag.MOUNT_POINT, target.device, target.inode)
    for path in resolved.private:
        yield Expect(path, ExpectFlag.TMPFS)
    for name in common.DEVICES:
        yield Expect(f"/dev/{name}", ExpectFlag.READ_ONLY | ExpectFlag.OTHER)


def _check_areas(resolved: ResolvedPolicy) -> None:
    for path in resolved.private:
        if mounts.is_beneath_writable(resolved, path) and not _is_made_inside(resolved, path):
            raise UnenforceableError(
                "unenforceable",
                f"the backend bubblewrap cannot make the private area {path}",
                why="it is below a writable path, where bwrap must not mount, and contains what is granted",
                fix="use `--backend native`, or leave it out of the policy",
                lacking=frozenset({Feature.FS_PRIVATE}),
            )


def _mechanisms(plan: Plan, abi: int) -> dict[Feature, str]:
    named = inner.mechanisms(plan, abi)
    user = "bwrap's user namespace, " if plan.resolved.uid != 0 else ""
    del named[Feature.LIMIT_DISK_FILES]
    return {
        **named,
        Feature.FS_PROTECT: "read-only bind mounts by the launcher, pinned; what is missing is guarded",
        Feature.LIMIT_DISK: "tmpfs: an equal part for each private area",
        Feature.PRIVILEGES: f"{user}no_new_privs, no capabilities, seccomp",
    }


def _trial(probe: Probe, host: Host, *, lock: bool, sockets: GatewaySockets | None) -> Launch:
    """As a run would be, without files of the host."""
    abi = int(probe.detail("landlock_abi"))
    user = ("--unshare-user",) if host.uid != 0 else ()
    spec = Spec(
        argv=("/corral-trial",),
        cwd="/",
        inside=True,
        uid_map=common.id_map(host.uid, host.uid) if lock else "",
        gid_map=common.id_map(host.uid, host.gid) if lock else "",
        lock=lock,
        gateway=sockets,
        landlock=inner.trial_landlock(abi),
        seccomp=common.compile_seccomp(host.machine, SocketPolicy.NAMESPACED, by_filter=False),
        expects=(Expect("/", ExpectFlag.TMPFS | ExpectFlag.READ_ONLY),),
    )
    return Launch(
        backend=probe.backend,
        argv=(
            *(
                probe.detail("program"),
                "--unshare-ipc",
                "--unshare-pid",
                "--unshare-uts",
                "--unshare-net",
                *user,
                *_BOND,
            ),
            *_frame(probe, host.uid, has_gateway=sockets is not None, is_locked=lock),
            *("--remount-ro", "/", "--", _LAUNCHER, "--control", "3"),
        ),
        env=(),
        enforced={},
        gateway=GatewayRequest(Front.SOCKETS),
        spec=join(encode_resolved(spec), encode_command(spec)),
        outer=Outer(start_seconds=_START_SECONDS),
    )
