"""What holds inside a container: where everything is, and what the launcher looks for and adds."""

from __future__ import annotations

from corral.backends import _gateway as gateway
from corral.backends import _launcher as common
from corral.backends.engine import mounts
from corral.linux import landlock
from corral.linux.encode import encode
from corral.linux.filter import SocketPolicy
from corral.linux.spec import Expect, ExpectFlag, GatewayFlag, Landlock, PathRule
from corral.model.container import CALLER, WRITABLE, user_ids
from corral.model.errors import PolicyError
from corral.model.policy import NetMode
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.backends.engine.container import Volume
    from corral.backends.engine.mounts import Place
    from corral.model.container import Container
    from corral.model.plan import Plan, ResolvedPolicy


#: What engines mount into every container.
_OF_ENGINES = (
    *("/proc", "/dev", "/sys", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/run/.containerenv"),
    *("/etc/passwd", "/etc/group"),  # podman: with a line for the caller
)


class Layout(Record):
    """Paths inside the container."""

    placed: tuple[Place, ...]  # of the host
    areas: tuple[str, ...]  # private, empty
    named: tuple[Volume, ...]  # volumes that the engine keeps
    cwd: str
    own: tuple[str, ...] = ()  # what corral puts there for the launcher, and files in private areas

    @property
    def tops(self) -> tuple[str, ...]:
        """Everything that is not the image's."""
        return (
            *(place.path for place in self.placed),
            *self.areas,
            *(volume.path for volume in self.named),
        )


def check_cwd(plan: Plan, layout: Layout) -> None:
    """Raise PolicyError for a working directory that the container does not have."""
    if not any(mounts.is_beneath(layout.cwd, top) for top in layout.tops):
        raise PolicyError(
            "container-cwd",
            f"the command cannot run in {plan.command.cwd}",
            why="nothing of that directory is in the container: it is not granted, or is the system's own",
            fix="run it in the workspace, or grant the directory",
        )


def build_environment(plan: Plan, layout: Layout) -> tuple[tuple[str, str], ...]:
    """The command's variables, with its working directory as it is called inside."""
    env = dict(plan.env)
    if env.get("PWD") == plan.command.cwd:
        env["PWD"] = layout.cwd
    return tuple(sorted(env.items()))


def inner_ids(resolved: ResolvedPolicy, *, is_mapped: bool) -> tuple[int, int]:
    """User and group that the engine starts the launcher with; with `is_mapped` the caller is mapped to 0."""
    return (0, 0) if is_mapped else (resolved.uid, resolved.gid)


def build_spec(plan: Plan, layout: Layout, abi: int, machine: str, *, is_mapped: bool) -> bytes:
    """The spec of the launcher. The image's variables stay, and its PATH wins.

    TRUST: another user is another number for the same one, in the user namespace that locks the mounts: to
    the engine and to the host it is the caller in every case.
    """
    resolved, about = plan.resolved, plan.container
    user, group = inner_ids(resolved, is_mapped=is_mapped)
    shown = (None, None) if about.user == CALLER else user_ids(about.user)
    sockets = SocketPolicy.HOST if resolved.net.mode is NetMode.FULL else SocketPolicy.NAMESPACED
    telling = common.telling_of(plan)
    return encode(
        common.command_spec(plan, build_environment(plan, layout)).replace(
            argv=(*plan.container.entrypoint, *plan.command.argv),
            cwd=layout.cwd,
            inside=True,
            uid_map=common.id_map(resolved.uid, user, shown[0]),
            gid_map=common.id_map(resolved.uid, group, shown[1]),
            lock=True,
            image_environment=True,
            gateway=gateway.sockets(resolved, GatewayFlag(0)),
            rlimits=common.rlimits(resolved.limits),
            landlock=_landlock(layout, abi, about) if abi else None,
            seccomp=common.resolved_filter(
                resolved, machine, sockets, by_filter=False, kept=plan.command.keeps, telling=telling
            ),
            listens=common.listens(machine, telling),
            expects=tuple(_expects(layout, about)),
        )
    )


def _expects(layout: Layout, about: Container) -> Iterator[Expect]:
    """What the engine has to have done. Of what is its own, nobody knew the number."""
    unknown = ExpectFlag.OTHER | ExpectFlag.READ_ONLY
    yield Expect("/", ExpectFlag.OTHER if about.root == WRITABLE else unknown)
    yield Expect("/proc/sys", unknown)  # core_pattern, which uid 0 may write without any capability
    yield Expect("/sys", ExpectFlag.TMPFS | ExpectFlag.READ_ONLY)
    for path in (
        *_OF_ENGINES,
        *layout.own,
    ):  # whatever else is mounted, an image or a configuration has added
        yield Expect(path, ExpectFlag.ANY)
    for area in layout.areas:
        yield Expect(area, ExpectFlag.TMPFS)
    for place in layout.placed:
        yield place.expect
    for volume in layout.named:
        yield volume.expect()


def _landlock(layout: Layout, abi: int, about: Container) -> Landlock:
    """Of the image all can be read and run, as its modes permit; nothing of it can be changed, unless its
    root is writable. Then the mounts alone keep the rest: they are locked, and /proc is read-only as a whole.
    """
    rights = landlock.write_rights if about.root == WRITABLE else landlock.read_rights
    paths = [PathRule(rights(abi, is_directory=True), "/")]
    paths += [PathRule(landlock.device_rights(abi), f"/dev/{name}") for name in common.DEVICES]
    paths.append(PathRule(landlock.device_rights(abi), "/dev/pts"))
    paths += mounts.path_rules(layout.placed)
    paths += [PathRule(landlock.write_rights(abi, is_directory=True), area) for area in layout.areas]
    paths += [volume.rule(abi) for volume in layout.named]
    return Landlock(landlock.handled_fs(abi), 0, landlock.scoped(abi), tuple(paths))
