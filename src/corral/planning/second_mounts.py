"""Find what is denied under another name: the same directory, mounted once more inside what is granted."""

from __future__ import annotations

from corral.model.errors import PolicyError
from corral.model.plan import PathKind
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


def check_second_mounts(denied: Iterable[ResolvedPath], granted: Collection[str], host: Host) -> None:
    """Raise PolicyError for a denied path that is seen through a second mount, which no rule denies."""
    there = [target for target in denied if target.kind is not PathKind.MISSING]
    if not there:
        return
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


def _seen_elsewhere(path: str, mounts: list[MountLine]) -> Iterator[tuple[str, str]]:
    """Where a path, or a part of it, can be seen by another mount; and which part that is."""
    own = max((mount for mount in mounts if is_beneath(path, mount.point)), key=_depth, default=None)
    if own is None:
        return
    place = _join(own.root, path[len(own.point.rstrip("/")) :])
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
    return [MountLine(each[2], _unescape(each[3]), _unescape(each[4])) for each in fields if len(each) > 4]


def _unescape(text: str) -> str:
    """Blanks and backslashes stand there as octal numbers: proc_pid_mountinfo(5)."""
    first, *rest = text.split("\\")
    return first + "".join(chr(int(part[:_OCTAL_DIGITS], 8)) + part[_OCTAL_DIGITS:] for part in rest)
