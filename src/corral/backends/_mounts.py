"""Mounts that the launcher makes: which, and in which order.

ORDER: shallow to deep, so that a deeper rule covers a shallower one, whichever of them is a pin; at one path
the stricter rule alone. A pin or shield mounted after a denial inside it would undo the denial.

What a mask or a private area hides is mounted before it, and stays: the kernel keeps a name from being
renamed only where it is a mount point of the caller's own namespace. Another sandbox may hand over a
descriptor of a directory that is hidden here, and nothing protected may be moved by it.
"""

from __future__ import annotations

from functools import lru_cache

from corral.backends._launcher import DEVICES
from corral.linux import landlock
from corral.linux.encode import encode_mount
from corral.linux.spec import Mount, MountFlag, MountKind, PathRule
from corral.model.launch import COPY_NAME, CopyMount
from corral.model.plan import PathKind
from corral.model.policy import FsAccess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from corral.model.plan import Grant, Plan, ResolvedPath, ResolvedPolicy, TrialLayers

    Place = tuple[int, str, int, bytes]  # depth, path, rank, record

#: Which of several rules holds at one path: the strictest.
PINNED, GRANTED, SHIELDED, PRIVATE, DENIED = range(5)
#: Names in /dev that are links.
DEVICE_LINKS = (
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
)
_COPIES = "/.corral/git"
_COVERS = frozenset({PRIVATE, DENIED})
_SHARED = frozenset({"/tmp", "/var/tmp", "/dev/shm"})


def place(mount: Mount, rank: int) -> Place:
    """A mount with what decides about its order, encoded."""
    return mount.target.count("/"), mount.target, rank, encode_mount(mount)


def in_order(places: Iterable[Place]) -> tuple[int, bytes]:
    """Encoded mounts, each path once: a mount upon a mount would hide the first from the launcher.

    What is granted in a private area has its path twice, if the same is held beneath the area.
    """
    listed = tuple(places)
    ranks: dict[str, set[int]] = {}
    for _, path, rank, _ in listed:
        ranks.setdefault(path, set()).add(rank)
    strictest: dict[tuple[str | int, ...], Place] = {}
    for candidate in listed:
        key = _key(candidate, ranks)
        known = strictest.get(key)
        if known is None or known[2] < candidate[2]:
            strictest[key] = candidate
    return len(strictest), b"".join(strictest[key][3] for key in sorted(strictest))


def _key(place: Place, ranks: dict[str, set[int]]) -> tuple[str | int, ...]:
    """What sorts a mount: before each cover that hides it, and those by the same rule among themselves."""
    depth, path, rank, _ = place
    key: tuple[str | int, ...] = (depth, path, 1)
    if rank in {GRANTED, PRIVATE}:  # made where it can be seen, in a private area as well
        return key
    above = path.rpartition("/")[0]
    while above and GRANTED not in ranks.get(above, ()):
        if not _COVERS.isdisjoint(ranks.get(above, ())):
            key = (above.count("/"), above, 0, *key)
        above = above.rpartition("/")[0]
    return key


def shields(plan: Plan, copies: tuple[CopyMount, ...] = ()) -> Iterator[Place]:
    """Pins keep what lies above a protected path from being renamed away; shields cover the path itself.

    What commands have a copy of is covered by a link to that.
    """
    sealed = sealed_pins(plan)
    for pin in plan.pins:
        is_sealed = pin.path in sealed
        yield _bound(pin.path, pin.device, pin.inode, PINNED, is_read_only=is_sealed)
    copied = {mount.copy.target.path for mount in copies}
    for shield in plan.shields:
        target = shield.target
        if target.path not in copied:
            yield _bound(target.path, target.device, target.inode, SHIELDED, is_read_only=True)
    for mount in copies:
        target = mount.copy.target
        yield _linked(target.path, target.device, target.inode, f"{mount.inside}/{COPY_NAME}")


def sealed_pins(plan: Plan) -> frozenset[str]:
    """Pins inside what cannot be written: a mount of their own must not open that again.

    But for the git directories of submodules that the plan knows: commands work there, and no new one comes
    beside them. INVARIANT: that opens a shield in what is granted for writing, and never a grant for reading.
    """
    is_read_only = {grant.target.path: grant.access is FsAccess.READ for grant in plan.resolved.grants}
    shielded = {shield.target.path for shield in plan.shields}
    kept = shielded | {f"{watch.directory}/{watch.name}" for watch in plan.watches}
    found = set()
    for path in (pin.path for pin in plan.pins):
        grant = _nearest(path, is_read_only)
        shield = _nearest(path, shielded)
        is_shielded = bool(shield) and len(shield) >= len(grant)
        modules_of = shield.removesuffix("/modules") if shield.endswith("/modules") else ""
        is_module = bool(modules_of) and _is_kept(modules_of, kept) and _is_kept(path, kept)
        if is_read_only.get(grant, False) or (is_shielded and not is_module):
            found.add(path)
    return frozenset(found)


def _nearest(path: str, places: Collection[str]) -> str:
    """The one of these that a path is, or lies in most deeply; empty if there is none."""
    while path and path not in places:
        path = path.rpartition("/")[0]
    return path


def _is_kept(git_directory: str, kept: set[str]) -> bool:
    """Whether the plan holds what git runs by a git directory."""
    return {f"{git_directory}/config", f"{git_directory}/hooks"} <= kept


def copy_mounts(plan: Plan) -> tuple[CopyMount, ...]:
    """Where copies lie, in a tree whose root is the launcher's own: no grant reaches there."""
    return tuple(CopyMount(copy, f"{_COPIES}/{copy.number}") for copy in plan.copies)


def copy_rules(copies: tuple[CopyMount, ...], abi: int) -> Iterator[PathRule]:
    """What Landlock grants there: everything but running something."""
    rights = landlock.write_rights(abi, is_directory=True) & ~landlock.FsRight.EXECUTE
    return (PathRule(rights, mount.inside) for mount in copies)


def above(path: str) -> Iterator[str]:
    """Every directory above a path but the root."""
    while path := path.rpartition("/")[0]:
        yield path


@lru_cache(maxsize=256)
def _linked(path: str, device: int, inode: int, text: str) -> Place:
    return place(Mount(MountKind.LINK, path, text, device=device, inode=inode), SHIELDED)


@lru_cache(maxsize=32_768)
def _bound(path: str, device: int, inode: int, rank: int, *, is_read_only: bool) -> Place:
    """A protected path onto itself. Most are as they were when the last command ran."""
    flags = MountFlag.READ_ONLY if is_read_only else MountFlag(0)
    return place(Mount(MountKind.BIND, path, path, flags, device, inode), rank)


def layered(kept: Iterable[Place], resolved: ResolvedPolicy, trial: TrialLayers) -> tuple[Place, ...]:
    """Mounts of a policy, with layers over one of its writable paths instead of a bind."""
    target = next(grant.target for grant in resolved.grants if grant.target.path == trial.root)
    own = (trial.directory,) if trial.size_bytes else (trial.upper, trial.work)
    paths = (*own, *trial.lowers)
    content = b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in paths)
    mount = Mount(
        *(MountKind.OVERLAY, target.path, target.path),
        device=target.device,
        inode=target.inode,
        size=trial.size_bytes,
        mode=trial.files,
        content=content,
    )
    others = (each for each in kept if (each[1], each[2]) != (target.path, GRANTED))
    return (*others, place(mount, GRANTED))


def masks(resolved: ResolvedPolicy) -> Iterator[Mount]:
    """Covers for what is denied and there."""
    for target in resolved.denied:
        if target.kind is not PathKind.MISSING:
            yield Mount(MountKind.MASK, target.path, device=target.device, inode=target.inode)


def bind_grant(grant: Grant) -> Mount:
    """A granted path, where it is on the host."""
    return bind_path(grant.target, MountFlag.READ_ONLY if grant.access is FsAccess.READ else MountFlag(0))


def bind_path(target: ResolvedPath, flags: MountFlag) -> Mount:
    """A path onto itself; it must be what the planner saw."""
    return Mount(MountKind.BIND, target.path, target.path, flags, target.device, target.inode)


def private_files(resolved: ResolvedPolicy) -> Iterator[Mount]:
    """What corral itself writes into private areas."""
    for file in resolved.private_files:
        yield Mount(MountKind.FILE, file.path, mode=0o600, content=file.content)


def devices() -> Iterator[Mount]:
    """Device files, and terminals of the run's own.

    Read-only: that leaves a device usable and keeps its mode, owner and times from uid 0 inside.
    """
    flags = MountFlag.DEVICES | MountFlag.UNVERIFIED | MountFlag.READ_ONLY
    for name in DEVICES:
        yield Mount(MountKind.BIND, f"/dev/{name}", f"/dev/{name}", flags)
    yield Mount(MountKind.DEVPTS, "/dev/pts")


def area_mode(path: str) -> int:
    """The mode of a private area: those that are for everyone are for everyone inside."""
    return 0o1777 if path in _SHARED else 0o700


@lru_cache(maxsize=256)
def is_beneath_writable(resolved: ResolvedPolicy, path: str) -> bool:
    """Whether a path lies inside a writable one, so that commands have a say in what is there."""
    return any(
        path.startswith(f"{grant.target.path}/")
        for grant in resolved.grants
        if grant.access is FsAccess.WRITE
    )
