"""What docker and podman have in common: one container for one run, the launcher as its first process.

The command, its arguments and its environment are nowhere in the engine's arguments: the launcher gets them
from corral by a socket, together with stdio. The engine makes the container and takes it away, and no more.
"""

from __future__ import annotations

from functools import lru_cache

from corral.backends import _gateway as gateway
from corral.backends import _inner as inner
from corral.backends import _launcher as common
from corral.backends.engine import container, mounts
from corral.backends.engine.inside import Layout, build_environment, build_spec, check_cwd, inner_ids
from corral.backends.engine.limits import NOT_COPIED, engine_limit_arguments
from corral.backends.engine.messages import DOCKER, HOME_SOCKETS, PODMAN, fetch_request, start_failures
from corral.linux import landlock
from corral.linux.filter import SocketPolicy, default_filter
from corral.linux.oci import encode_profile
from corral.linux.syscalls import Arch
from corral.model.container import HOST, MISSING, READ_ONLY, WRITABLE
from corral.model.enforcer import ENGINE, TITLES
from corral.model.errors import PolicyError, UnenforceableError
from corral.model.feature import Feature
from corral.model.launch import HOSTNAME, GroupRequest, Inside, Launch, Outer
from corral.model.plan import PrivateFile
from corral.model.policy import NetMode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.backends.engine.mounts import Place, Views
    from corral.model.container import Container
    from corral.model.plan import Plan, ResolvedPolicy
    from corral.model.probe import Probe

#: For a container to start; no longer than the command would have, were it not for a busy machine.
_START_SECONDS, _LEAST_SECONDS = 60.0, 15.0
#: By which the launcher finds and locks the mounts. Its own filter denies them to the command.
_LOCKING_CALLS = frozenset({"unshare", "mount_setattr", "openat2"})
_EMPTY = "ro,nosuid,nodev,noexec,size=65536"

#: The same on every run. What podman reads from its configuration is said here, so that it is not read.
_ALWAYS = {
    DOCKER: ("--pull=never", "--cgroupns", "private", "--no-healthcheck"),
    PODMAN: (
        *("--pull=never", "--cgroupns", "private", "--no-healthcheck"),
        *("--http-proxy=false", "--env-host=false", "--privileged=false", "--init=false"),
        *("--pid", "private", "--uts", "private", "--image-volume", "ignore"),
    ),
}
#: Podman chooses between a bridge and what users without privileges have instead.
_OWN_NETWORK = {DOCKER: "bridge", PODMAN: "private"}
_IMAGES = {READ_ONLY: "read-only image", WRITABLE: "a layer above the image that goes with the container,"}
_LIMITS = {
    Feature.LIMIT_MEMORY: "memory_bytes",
    Feature.LIMIT_CPU: "cpus",
    Feature.LIMIT_CPU_TIME: "cpu_seconds",
    Feature.LIMIT_PIDS: "pids",
}


def lower_engine(engine: str, plan: Plan, probe: Probe) -> Launch:
    """Arguments for `run`, and a spec for the launcher. Raises for what cannot be said to an engine."""
    abi, resolved, about = int(probe.detail("landlock_abi")), plan.resolved, plan.container
    container.check_image(about.image)
    container.check_workspace(about.workspace)
    container.check_root(about, plan, is_owner=_owns_image(probe, resolved))
    _check_sockets(resolved, probe)
    if _shares_network(plan):
        inner.check_abstract_sockets(plan, abi)
    named, views_of_volumes = container.read_volumes(about, resolved)
    views = mounts.Views(resolved, about.workspace, (*mounts.link_views(resolved), *views_of_volumes))
    scratch = f"{resolved.scratch}/corral-{plan.run_id}"
    for path in (scratch, probe.detail("launcher"), *resolved.private):
        mounts.check_name(path)
    placed = mounts.build_places(plan, views, scratch, abi)
    container.check_volumes(named, placed)
    name = about.name or f"corral-{plan.run_id}"
    label = f"corral.run={plan.run_id}"
    # TRUST: an image may hold anything, links as well; but nothing by a name that nobody knew before.
    own = f"/.corral-{plan.run_id}"
    layout = Layout(
        placed,
        _areas(resolved, views, placed),
        named,
        views.own(plan.command.cwd),
        (own, *(file.path for file in resolved.private_files)),
    )
    check_cwd(plan, layout)
    return Launch(
        backend=engine,
        argv=(
            *(probe.detail("program"), *_runtime(probe), "run", *(() if about.keep else ("--rm",))),
            *("--name", name, "--label", label, "--label", f"corral.owner={resolved.uid}"),
            *_ALWAYS[engine],
            *_ceilings(engine, probe),
            *_confinement(engine, plan, probe, scratch),
            *_limit_arguments(engine, plan, probe, layout),
            *_covers(engine),
            *_mount_arguments(layout, probe, scratch, own),
            *_private_files(resolved, scratch),
            *("--entrypoint", f"{own}/launch", about.image, "--control", f"{own}/control"),
        ),
        env=tuple((key[4:], value) for key, value in probe.details if key.startswith("env ")),
        enforced=_mechanisms(plan, probe, abi),
        spec=build_spec(
            plan, layout, abi, probe.detail("machine"), is_mapped=_is_mapped(engine, probe, about)
        ),
        inside=Inside(
            build_environment(plan, layout),
            about.entrypoint,
            ((resolved.workspace, views.own(resolved.workspace)),),
        ),
        outer=_outer(engine, plan, probe, name, label),
        scratch=scratch,
        scratch_files=_scratch_files(resolved, scratch, placed, probe.detail("machine")),
        group=_group(plan, probe),
        gateway=gateway.request(resolved, gateway.LOOPBACK_ADDRESSES),
    )


def _outer(engine: str, plan: Plan, probe: Probe, name: str, label: str) -> Outer:
    program, about, limits = probe.detail("program"), plan.container, plan.resolved.limits
    return Outer(
        control="control",
        launcher=probe.detail("launcher"),
        start_seconds=about.start_seconds
        or min(_START_SECONDS, max(_LEAST_SECONDS, limits.wall_seconds or _START_SECONDS)),
        # TRUST: by the label of the run. Under a name that was asked for, there may be somebody else's.
        removal=(program, "rm", "--force", "--volumes"),
        finding=(program, "ps", "--all", "--quiet", "--filter", f"label={label}"),
        failures=start_failures(engine, about.image, name),
        kept=name if about.keep else "",
        has_network=plan.resolved.net.mode is NetMode.FULL and not _shares_network(plan),
        listens=container.listening(about),
        fetch=fetch_request(program, about.image) if about.pull == MISSING else None,
    )


def _runtime(probe: Probe) -> tuple[str, ...]:
    chosen = probe.detail("chosen runtime")
    return ("--runtime", chosen) if chosen else ()


def _ceilings(engine: str, probe: Probe) -> Iterator[str]:
    """The caller's own hard limits: podman would set others, and fail where nobody may raise them.

    `--ulimit host` is not enough: podman 4.3 forgets it when it has a default for another limit. Containers
    of docker have those of its daemon.
    """
    if engine == PODMAN:
        for name, value in probe.details:
            if name.startswith("limit "):
                yield from ("--ulimit", f"{name[6:]}={value}:{value}")


def _shares_network(plan: Plan) -> bool:
    """The host's network, as with other backends; but ports are published from one of the engine's own."""
    about = plan.container
    return plan.resolved.net.mode is NetMode.FULL and about.network == HOST and not about.ports


def _confinement(engine: str, plan: Plan, probe: Probe, scratch: str) -> Iterator[str]:
    resolved = plan.resolved
    if resolved.net.mode is not NetMode.FULL:
        yield from ("--network", "none")
        if gateway.is_limited(resolved):  # its sockets are made by the launcher, which has no privilege here
            yield from ("--sysctl", "net.ipv4.ip_unprivileged_port_start=0")
    else:
        # Said in every case: a configuration of podman's may have the host's as the default.
        yield from ("--network", HOST if _shares_network(plan) else _OWN_NETWORK[engine])
    yield from container.publish_arguments(plan.container, resolved.net.mode)
    yield from ("--cap-drop", "ALL", "--security-opt", "no-new-privileges")
    if inner_ids(resolved, is_mapped=_is_mapped(engine, probe, plan.container))[0] == 0:
        yield from (word for name in common.LOCKING_CAPABILITIES for word in ("--cap-add", name))
    yield from ("--security-opt", f"seccomp={scratch}/seccomp.json")
    if probe.detail("selinux"):
        # A label of containers could not read the caller's files; to label them anew would change the host.
        yield from ("--security-opt", "label=disable")
    yield from _user(engine, plan, probe)
    yield from ("--hostname", HOSTNAME, "--workdir", "/", "--log-driver", "none")
    yield from ("--stop-signal", "KILL", "--stop-timeout", "1")


def _user(engine: str, plan: Plan, probe: Probe) -> tuple[str, ...]:
    """Whoever is inside is the caller outside, so that the files he makes are the caller's."""
    resolved = plan.resolved
    own = f"{resolved.uid}:{resolved.gid}"
    if _is_mapped(engine, probe, plan.container):
        return (*(("--userns", "host") if engine == PODMAN else ()), "--user", "0:0")
    if engine == PODMAN:
        return ("--userns", "keep-id" if probe.detail("rootless") else "host", "--user", own)
    return (*(("--userns", "host") if probe.detail("remapped") else ()), "--user", own)


def _is_mapped(engine: str, probe: Probe, about: Container) -> bool:
    """Of the ids inside, 0 alone is the caller's: always with docker; with podman for a writable root, which
    belongs to 0.
    """
    return bool(probe.detail("rootless")) and (engine == DOCKER or about.root == WRITABLE)


def _owns_image(probe: Probe, resolved: ResolvedPolicy) -> bool:
    """Whether the caller is the one whom the files of an image belong to inside."""
    return resolved.uid == 0 or bool(probe.detail("rootless"))


def _limit_arguments(engine: str, plan: Plan, probe: Probe, layout: Layout) -> tuple[str, ...]:
    """Limits of the tree. Those of each process are the launcher's, which is not bound by them itself.

    What the engine does not hold is not asked of it: it would warn, where nobody reads, and go on.
    """
    left = {field: None for feature, field in _LIMITS.items() if feature not in probe.enforces}
    limits = plan.resolved.limits.replace(file_size_bytes=None, open_files=None, **left)
    made = {area: _made_in(area, layout, plan.resolved) for area in layout.areas}
    return engine_limit_arguments(
        limits,
        engine=engine,
        areas=layout.areas,
        launcher_pids=common.own_pids(kept=plan.command.keeps),
        made=made,
        writable=plan.container.root == WRITABLE,
    )


def _made_in(area: str, layout: Layout, resolved: ResolvedPolicy) -> int:
    """How many directories and files the engine makes in an area, to mount something upon."""
    made: set[str] = set()
    for path in (*layout.tops, *(file.path for file in resolved.private_files)):
        above = path
        while above.startswith(f"{area}/"):
            made.add(above)
            above = above.rpartition("/")[0]
    return len(made)


def _covers(engine: str) -> tuple[str, ...]:
    """/sys shows the host's hardware, and an image needs none of it. The second: podman mounts there."""
    options = _EMPTY + NOT_COPIED[engine]
    return ("--tmpfs", f"/sys:{options}", "--tmpfs", f"/sys/fs/cgroup:{options}")


def _mount_arguments(layout: Layout, probe: Probe, scratch: str, own: str) -> Iterator[str]:
    nonrecursive = probe.detail("nonrecursive")
    for source, path in (
        (probe.detail("launcher"), f"{own}/launch"),
        (f"{scratch}/control", f"{own}/control"),
    ):
        words = ("type=bind", f"src={source}", f"dst={path}", "readonly")
        yield from ("--mount", mounts.join_words(words))
    for place in layout.placed:
        yield from ("--mount", mounts.mount_argument(place, nonrecursive))
    for volume in layout.named:
        yield from ("--mount", volume.argument())


def _private_files(resolved: ResolvedPolicy, scratch: str) -> Iterator[str]:
    """A tmpfs is empty, and nobody inside may write before the command; so they are mounted, read-only."""
    for number, file in enumerate(resolved.private_files):
        words = ("type=bind", f"src={scratch}/private-{number}", f"dst={file.path}", "readonly")
        yield from ("--mount", mounts.join_words(words))
    if gateway.is_limited(resolved):
        words = ("type=bind", f"src={scratch}/resolv.conf", "dst=/etc/resolv.conf", "readonly")
        yield from ("--mount", mounts.join_words(words))


def _scratch_files(
    resolved: ResolvedPolicy, scratch: str, placed: tuple[Place, ...], machine: str
) -> tuple[PrivateFile, ...]:
    files = [PrivateFile(f"{scratch}/seccomp.json", _profile(machine, debugging=resolved.debug))]
    kinds = {place.is_directory for place in placed if place.rank == mounts.DENIED}
    if False in kinds:
        files.append(PrivateFile(f"{scratch}/nothing", b"", 0))
    if True in kinds:
        files.append(PrivateFile(f"{scratch}/nothing.d", b"", 0, is_directory=True))
    for number, file in enumerate(resolved.private_files):
        files.append(PrivateFile(f"{scratch}/private-{number}", file.content))
    if gateway.is_limited(resolved):
        files.append(PrivateFile(f"{scratch}/resolv.conf", gateway.RESOLVER))
    return tuple(files)


@lru_cache(maxsize=8)
def _profile(machine: str, *, debugging: bool) -> bytes:
    """Without a policy's own denials, and without what locks the mounts: the launcher needs those calls."""
    policy = default_filter(sockets=SocketPolicy.NAMESPACED, private_ipc_by_filter=False, debugging=debugging)
    rules = tuple(rule for rule in policy.rules if rule.syscall not in _LOCKING_CALLS)
    return encode_profile(policy.replace(rules=rules), Arch(machine))


def _areas(resolved: ResolvedPolicy, views: Views, placed: tuple[Place, ...]) -> tuple[str, ...]:
    found = {view.inside: path for path in resolved.private for view in views.of(path)}  # wherever it is seen
    for area, path in found.items():
        inside = any(area.startswith(f"{place.path}/") for place in placed)
        if inside and path != resolved.home:  # which is there
            raise UnenforceableError(
                "unenforceable",
                f"the private area {path} cannot be made by a container engine",
                why="it is in a granted path, where the engine would create the mount point on the host",
                fix="use another backend, or a private area elsewhere",
                lacking=frozenset({Feature.FS_PRIVATE}),
            )
    return tuple(found)


def _check_sockets(resolved: ResolvedPolicy, probe: Probe) -> None:
    """TRUST: those that were there, and, of what lies in the home, where one usually is."""
    seen = [value for name, value in probe.details if name.startswith("socket ")]
    usual = [f"{resolved.home}/{name}" for name in HOME_SOCKETS]
    for grant in resolved.grants:
        path = grant.target.path
        sockets = [*seen, *usual] if path.startswith(f"{resolved.home}/") else seen
        reached = [socket for socket in sockets if mounts.is_beneath(socket, path)]
        if reached and not grant.is_system:
            raise PolicyError(
                "grant-too-wide",
                f"{grant.target.requested} cannot be granted to a container",
                why=f"{reached[0]} would be reachable, and a client that connects there controls the engine",
                fix="grant just the directories that are needed",
            )


def _group(plan: Plan, probe: Probe) -> GroupRequest:
    """The container's own group, with the limits that the engine holds by it."""
    held = {
        field: getattr(plan.resolved.limits, field)
        for feature, field in _LIMITS.items()
        if feature in probe.enforces
    }
    return GroupRequest(ENGINE, **held, launcher_pids=common.own_pids(kept=plan.command.keeps))


def _mechanisms(plan: Plan, probe: Probe, abi: int) -> dict[Feature, str]:
    lock = f" + {landlock.describe(abi)}" if abi else ""
    limits = plan.resolved.limits
    held = {
        feature: TITLES[ENGINE]
        for feature, field in _LIMITS.items()
        if feature in probe.enforces and getattr(limits, field) is not None
    }
    found = {
        **inner.mechanisms(plan, abi),
        Feature.FS_READ: f"container: the image, and the granted paths{lock}",
        Feature.FS_WRITE: f"{_IMAGES[plan.container.root]} and bind mounts{lock}",
        Feature.LIMIT_DISK: "tmpfs: an equal part for each private area",
        Feature.LIMIT_DISK_FILES: "tmpfs: an equal part for each private area",
        Feature.PRIVILEGES: "no_new_privs, no capabilities, seccomp of the engine and of the launcher",
        Feature.SYSCALLS: "seccomp, by the launcher",
        **held,
    }
    return {feature: how for feature, how in found.items() if feature in probe.enforces}
