"""Find what is denied under another name: the same directory, mounted once more inside what is granted."""

from __future__ import annotations

from corral.model.errors import PolicyError
from corral.model.plan import MountView, PathKind
from corral.model.record import Record
from corral.planning.resolve import is_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from corral.model.backend import Host
    from corral.model.plan import ResolvedPath

MOUNTS = "/proc/self/mountinfo"
_MOST_BYTES = 4 * 1024 * 1024
_OCTAL_DIGITS = 3


class MountLine(Record):
    """One line of the kernel's table: what of which file system is seen where."""

    device: str  # as the table writes it: that of a file's status may be another one (btrfs)
    root: str
    point: str
    text: str  # all three, as the table has them
    kind: str  # of the file system


def check_second_mounts(
    denied: Iterable[ResolvedPath], granted: Collection[str], host: Host
) -> MountView | None:
    """What the table says about denied paths; None if none of them is there.

    Raises PolicyError for one that is seen through a second mount, which no rule denies.
    """
    there = [target for target in denied if target.kind is not PathKind.MISSING]
    if not there:
        return None
    mounts = _read_mounts(host.read_text(MOUNTS, _MOST_BYTES))
    closed = {target.path for target in there}
    for target in there:
        for seen, inner in _seen_elsewhere(target.path, mounts):
            is_open = any(is_beneath(seen, path) or is_beneath(path, seen) for path in granted)
            if is_open and not any(is_beneath(seen, path) for path in closed) and _is_same(host, seen, inner):
                raise PolicyError(
                    "mounted-twice",
                    f"{target.requested} cannot be denied",
                    why=f"it is mounted at {seen} as well, inside what is granted",
                    fix=f"deny {seen}, too, or unmount it",
                )
    return _view(closed, mounts)


def _view(paths: Collection[str], mounts: list[MountLine]) -> MountView:
    """Whatever else is mounted or unmounted shows nothing of these paths.

    A mount over one of them is no line of theirs: then the path itself is another file, which a plan notices.
    """
    places: set[tuple[str, str]] = set()
    for path in sorted(paths):  # what is above comes first, and has all that shows what is beneath
        own = _own_mount(path, mounts)
        place = own and (own.device, _place(path, own))
        if place and not any(place[0] == device and is_beneath(place[1], root) for device, root in places):
            places.add(place)
    lines = (mount.text for mount in mounts if any(_shows(mount, *place) for place in places))
    return MountView(tuple(f"{device} {_escape(root)}" for device, root in sorted(places)), tuple(lines))


def _shows(mount: MountLine, device: str, place: str) -> bool:
    """Whether a part of that place can be seen through the mount."""
    return mount.device == device and (is_beneath(mount.root, place) or is_beneath(place, mount.root))


def _own_mount(path: str, mounts: list[MountLine]) -> MountLine | None:
    return max((mount for mount in mounts if is_beneath(path, mount.point)), key=_depth, default=None)


def _place(path: str, own: MountLine) -> str:
    """Where a path is in its file system."""
    return _join(own.root, path[len(own.point.rstrip("/")) :])


#: File systems whose ids can be mapped mount by mount; overlayfs, the root of most containers, is none.
_MAPPABLE = frozenset(
    {"btrfs", "ceph", "erofs", "ext4", "f2fs", "ntfs3", "squashfs", "tmpfs", "vfat", "xfs", "zfs"}
)


def find_unmappable(paths: Iterable[str], host: Host) -> tuple[tuple[str, str], ...]:
    """Of these paths, those with a file system whose ids cannot be mapped, there or beneath; and its kind."""
    mounts = _read_mounts(host.read_text(MOUNTS, _MOST_BYTES))
    found = []
    for path in paths:
        own = _own_mount(path, mounts)
        beneath = [mount for mount in mounts if is_beneath(mount.point, path)]
        kinds = [mount.kind for mount in (own, *beneath) if mount is not None and mount.kind not in _MAPPABLE]
        found += [(path, kind) for kind in kinds[:1]]
    return tuple(found)


def _seen_elsewhere(path: str, mounts: list[MountLine]) -> Iterator[tuple[str, str]]:
    """Where a path, or a part of it, can be seen by another mount; and which part that is."""
    own = _own_mount(path, mounts)
    if own is None:
        return
    place = _place(path, own)
    for mount in mounts:
        if mount.device != own.device or mount is own:
            continue
        if is_beneath(mount.root, place):
            yield mount.point, _join(path, mount.root[len(place.rstrip("/")) :])
        elif is_beneath(place, mount.root):
            yield _join(mount.point, place[len(mount.root.rstrip("/")) :]), path


def _depth(mount: MountLine) -> int:
    return len(mount.point)


def _join(path: str, rest: str) -> str:
    return f"{path.rstrip('/')}/{rest.strip('/')}".rstrip("/") or "/"


def _is_same(host: Host, one: str, other: str) -> bool:
    """Whether they are: something else may be mounted over one of them."""
    first, second = host.lstat(one), host.lstat(other)
    if first is None or second is None:
        return False
    return (first.device, first.inode) == (second.device, second.inode)


def _read_mounts(text: str) -> list[MountLine]:
    fields = (line.split(" ") for line in text.split("\n"))  # a path may hold other ends of lines
    return [
        MountLine(each[2], _unescape(each[3]), _unescape(each[4]), " ".join(each[2:5]), _kind(each))
        for each in fields
        if len(each) > 4
    ]


def _kind(fields: list[str]) -> str:
    """Behind a dash, which ends a list of any length."""
    return fields[fields.index("-") + 1] if "-" in fields[:-1] else ""


def _unescape(text: str) -> str:
    """Blanks and backslashes stand there as octal numbers: proc_pid_mountinfo(5)."""
    first, *rest = text.split("\\")
    return first + "".join(chr(int(part[:_OCTAL_DIGITS], 8)) + part[_OCTAL_DIGITS:] for part in rest)


def _escape(text: str) -> str:
    return "".join(f"\\{ord(char):03o}" if char in " \t\n\\" else char for char in text)
