"""What a container engine is told to mount, and what the launcher must find of it from inside.

ORDER: shallow to deep, so that a deeper rule covers a shallower one; at one path the strictest rule alone.
The engines sort what they are given once more; that it came out right is what the launcher checks.
"""

from __future__ import annotations

from corral.backends._mounts import sealed_pins
from corral.linux import landlock
from corral.linux.spec import Expect, ExpectFlag, PathRule
from corral.model.errors import PolicyError, UnenforceableError
from corral.model.feature import Feature
from corral.model.plan import PathKind
from corral.model.policy import FsAccess
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from corral.model.plan import Grant, Plan, ResolvedPath, ResolvedPolicy

#: Which of several rules holds at one path: the strictest.
PINNED, GRANTED, SHIELDED, DENIED = range(4)
#: What engines put into every container. Nothing of the host's may lie there, or above: they would make what
#: is missing, on the host.
ENGINE_PLACES = (
    *("/proc", "/dev", "/sys", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/run/.containerenv"),
    *("/run/secrets", "/.dockerenv"),
)
_MOST_ARGUMENT_BYTES, _OF_A_MOUNT = 1_500_000, 100
_MOST_LINKS = 40  # the kernel gives up as well
_MOUNTED, _READ_ONLY = ExpectFlag.MOUNT_POINT, ExpectFlag.READ_ONLY


class View(Record):
    """A granted path of the host, and where it appears inside."""

    host: str
    inside: str
    read_only: bool = False


class Place(Record):
    """One mount: a path of the host at a path inside."""

    path: str
    source: str
    rank: int
    read_only: bool
    expect: Expect
    rights: int = 0  # of Landlock
    is_directory: bool = True


def is_beneath(path: str, top: str) -> bool:
    """Whether a path is another one or lies in it."""
    return path == top or path.startswith(top.rstrip("/") + "/")


class Views:
    """Where the host's paths are inside."""

    def __init__(self, resolved: ResolvedPolicy, workspace: str, more: Iterable[View]) -> None:
        self._workspace = View(resolved.workspace, workspace or resolved.workspace)
        above = any(
            resolved.workspace.startswith(f"{grant.target.path}/")
            for grant in resolved.grants
            if not grant.is_system
        )
        # By a grant above it the workspace appears at its own path too, and every rule must hold there.
        again = (View(resolved.workspace, resolved.workspace),) if above and workspace else ()
        self._more = (*more, *again)

    def of(self, path: str) -> Iterator[View]:
        """Every place where a path of the host appears: its own, or that of the workspace, and others."""
        yield View(path, self.own(path))
        for view in self._more:
            if is_beneath(path, view.host):
                yield View(path, view.inside + path[len(view.host) :], view.read_only)

    def own(self, path: str) -> str:
        """The first of them."""
        if is_beneath(path, self._workspace.host):
            return self._workspace.inside + path[len(self._workspace.host) :]
        return path


def link_views(resolved: ResolvedPolicy) -> Iterator[View]:
    """Links of the host that lead to a granted path: what they lead to appears in their place as well.

    A link cannot be made in an image, and a mount can. Links of the system's own paths are the image's.
    """
    mounted = {grant.target.path for grant in resolved.grants if not grant.is_system}
    texts = {link.path: link.text for link in resolved.links}  # as far as the plan knows them
    for link in resolved.links:
        target = follow_links(link.path, texts.get)
        if target in mounted:
            yield View(target, link.path)


def follow_links(path: str, text_of: Callable[[str], str | None]) -> str:
    """Where a path leads; `text_of` tells the text of what is a link."""
    real, pending, followed = "/", path.split("/"), 0
    while pending and followed < _MOST_LINKS:
        part = pending.pop(0)
        if part in {"", "."}:
            continue
        if part == "..":
            real = real.rpartition("/")[0] or "/"
            continue
        step = f"{real.rstrip('/')}/{part}"
        text = text_of(step)
        if text is None:
            real = step
            continue
        followed += 1
        pending = text.split("/") + pending
        real = "/" if text.startswith("/") else real
    return real


def build_places(plan: Plan, views: Views, scratch: str, abi: int) -> tuple[Place, ...]:
    """All mounts of paths of the host, in order. Raises for paths that cannot lie where they would."""
    found: dict[str, Place] = {}
    for place in _places(plan, views, scratch, abi):
        known = found.get(place.path)
        if known is not None and known.rank == place.rank and known.source != place.source:
            raise _collision(place.path, known.source, place.source)
        if known is None or known.rank < place.rank:
            found[place.path] = place
    hidden = {place.path for place in found.values() if place.rank == DENIED}
    shown = (
        place
        for place in found.values()
        # A denial holds at any depth: what lies beneath is hidden with it, and has no place to be mounted on.
        if hidden.isdisjoint(_above(place.path))
    )
    placed = tuple(sorted(shown, key=lambda place: (place.path.count("/"), place.path)))
    for place in placed:
        check_place(place.path)
        check_name(place.source)
    _check_beneath(placed)
    _check_room(placed)
    return placed


def _places(plan: Plan, views: Views, scratch: str, abi: int) -> Iterator[Place]:
    resolved = plan.resolved
    sealed = sealed_pins(plan)
    for pin in plan.pins:
        yield from _each(pin, views, PINNED, read_only=pin.path in sealed)
    for grant in resolved.grants:
        if not grant.is_system:
            yield from _granted(grant, views, abi)
    for shield in plan.shields:
        yield from _each(shield.target, views, SHIELDED, read_only=True)
    for target in resolved.denied:
        if target.kind is not PathKind.MISSING and _is_mounted(target, resolved):
            yield from _masked(target, views, scratch)


def _is_mounted(target: ResolvedPath, resolved: ResolvedPolicy) -> bool:
    """Whether a path lies in anything of the host's; an image has files of its own at the same path."""
    return any(is_beneath(target.path, grant.target.path) for grant in resolved.grants if not grant.is_system)


def _granted(grant: Grant, views: Views, abi: int) -> Iterator[Place]:
    target = grant.target
    is_directory = target.kind is PathKind.DIRECTORY
    for view in views.of(target.path):
        writable = grant.access is FsAccess.WRITE and not view.read_only
        rights = landlock.write_rights if writable else landlock.read_rights
        yield _place(
            target,
            view.inside,
            GRANTED,
            read_only=not writable,
            rights=rights(abi, is_directory=is_directory) if abi else 0,
        )


def _each(target: ResolvedPath, views: Views, rank: int, *, read_only: bool) -> Iterator[Place]:
    for view in views.of(target.path):
        yield _place(target, view.inside, rank, read_only=read_only or view.read_only)


def _place(target: ResolvedPath, path: str, rank: int, *, read_only: bool, rights: int = 0) -> Place:
    flags = _MOUNTED | _READ_ONLY if read_only else _MOUNTED
    expect = Expect(path, flags, target.device, target.inode)
    is_directory = target.kind is PathKind.DIRECTORY
    return Place(path, target.path, rank, read_only, expect, rights, is_directory)


def _masked(target: ResolvedPath, views: Views, scratch: str) -> Iterator[Place]:
    """An empty thing that nobody may open, not even uid 0 without capabilities, over what is denied."""
    is_directory = target.kind is PathKind.DIRECTORY
    source = f"{scratch}/{'nothing.d' if is_directory else 'nothing'}"
    flags = ExpectFlag.OTHER | _MOUNTED | _READ_ONLY
    for view in views.of(target.path):
        expect = Expect(view.inside, flags, target.device, target.inode)
        yield Place(view.inside, source, DENIED, True, expect, 0, is_directory)


def check_name(path: str) -> None:
    """Raise UnenforceableError for a path that an engine cannot be told of."""
    if not _is_plain(path):
        raise UnenforceableError(
            "unenforceable",
            f"{path!r} cannot be mounted by a container engine",
            why="its name holds a carriage return, or bytes that are not UTF-8, which engines change",
            fix="rename it, or use another backend",
            lacking=frozenset({Feature.FS_READ}),
        )


def _check_room(placed: tuple[Place, ...]) -> None:
    """Each mount is an argument of the engine's, of which the kernel takes so much: execve(2)."""
    room = sum(len(place.path) + len(place.source) + _OF_A_MOUNT for place in placed)
    if room > _MOST_ARGUMENT_BYTES:
        raise UnenforceableError(
            "unenforceable",
            f"{len(placed)} mounts are more than a container engine accepts",
            why=f"they take {room} bytes, and a program can be given {_MOST_ARGUMENT_BYTES}",
            fix="deny or protect directories instead of the files in them, or use another backend",
            lacking=frozenset({Feature.FS_DENY, Feature.FS_PROTECT}),
        )


def check_place(path: str) -> None:
    """Raise if an engine cannot be told of a place, or keeps something of its own there."""
    check_name(path)
    if any(is_beneath(place, path) or is_beneath(path, place) for place in ENGINE_PLACES):
        raise PolicyError(
            "container-place",
            f"{path} cannot be mounted in a container",
            why="the engine mounts something there itself",
            fix="grant a directory further down, or use another backend",
        )


def _is_plain(path: str) -> bool:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return "\r" not in path and "\0" not in path


def _check_beneath(placed: tuple[Place, ...]) -> None:
    """INVARIANT: nothing is mounted inside a path of the host but what lies at that place there, too.

    An engine would make the missing place, on the host, and follow a link that a command has planted.
    """
    by_path = {place.path: place for place in placed}
    for place in placed:
        nearest = next((by_path[path] for path in _above(place.path) if path in by_path), None)
        if nearest is None:
            continue
        expected = nearest.source + place.path[len(nearest.path) :]
        if place.rank == DENIED:
            continue  # its source is corral's own; its place was seen by the planner
        if place.source != expected:
            raise _collision(place.path, expected, place.source)


def _above(path: str) -> Iterator[str]:
    """What lies above a path, the nearest first; there may be thousands of places."""
    while path := path.rpartition("/")[0]:
        yield path


def _collision(path: str, first: str, second: str) -> PolicyError:
    return PolicyError(
        "container-collision",
        f"two things would be at {path} in the container",
        why=f"{first} and {second} both belong there",
        fix="give the workspace, or the volume, another place",
    )


def mount_argument(place: Place, nonrecursive: str) -> str:
    """The value of `--mount`.

    Read-only binds are not recursive, since not every engine makes what is mounted deeper read-only as well:
    it is empty there instead. Writable ones are.
    """
    words = ["type=bind", f"src={place.source}", f"dst={place.path}", "bind-propagation=rprivate"]
    if place.read_only:
        words += ["readonly", nonrecursive]
    return join_words(words)


def join_words(words: Iterable[str]) -> str:
    """One line of CSV, as Go's encoding/csv reads it."""
    return ",".join(_quoted(word) for word in words)


def _quoted(word: str) -> str:
    if any(mark in word for mark in '",\n'):
        return '"' + word.replace('"', '""') + '"'
    return word


def path_rules(placed: Iterable[Place]) -> list[PathRule]:
    """The grants once more, for Landlock."""
    return [
        PathRule(place.rights, place.path, place.expect.device, place.expect.inode)
        for place in placed
        if place.rights
    ]
