"""Task: what the process that runs a module is told, as text on a descriptor."""

from __future__ import annotations

import json

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from corral.model.policy import Limits

READ, WRITE, PRIVATE = "read", "write", "private"


class GuestPlace(Record):
    """A directory or file of the host that a module sees at a path of its own."""

    path: str  # as the module names it
    source: str  # on the host
    access: str  # READ, WRITE or PRIVATE; what is private is made when the run begins
    device: int = 0  # what must be found there; both 0: whatever is there
    inode: int = 0
    is_file: bool = False


class HeldPaths(Record):
    """What stays as it is inside of places. All are real paths of the host."""

    denied: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()  # protected, and there
    absent: tuple[str, ...] = ()  # protected, and must not be made
    pinned: tuple[str, ...] = ()  # lies above something protected: cannot be moved
    names: tuple[str, ...] = ()  # must not be made anywhere: nobody looks at what they hold afterwards


class ModuleBounds(Record):
    """What a module may use. None: nothing is promised."""

    memory_bytes: int | None = None
    cpus: float | None = None
    cpu_seconds: float | None = None
    wall_seconds: float | None = None
    file_size_bytes: int | None = None
    open_files: int | None = None
    fuel: int | None = None
    output_bytes: int | None = None  # only where output is kept for the caller


class Task(Record):
    """One module and all that it has."""

    module: str = ""  # a path of the host
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    places: tuple[GuestPlace, ...] = ()
    held: HeldPaths = HeldPaths()
    links: tuple[tuple[str, str], ...] = ()  # (path, text): links that lead to places
    directory: str = "/"  # `.` of the module
    bounds: ModuleBounds = ModuleBounds()
    seed: int | None = None  # of its random numbers; None: the host's own
    clock: str = "host"  # or "frozen"
    cache: str = ""  # a directory for compiled modules; empty: none

    def encode(self) -> bytes:
        """As bytes, for `decode`."""
        return json.dumps(_plain(self), ensure_ascii=True, sort_keys=True).encode()


def bounds_of(limits: Limits) -> ModuleBounds:
    """The limits of a policy that are held where a module runs."""
    return ModuleBounds(
        limits.memory_bytes,
        limits.cpus,
        limits.cpu_seconds,
        limits.wall_seconds,
        limits.file_size_bytes,
        limits.open_files,
    )


def decode(data: bytes) -> Task:
    """What `Task.encode` wrote."""
    found = json.loads(data)
    return Task(
        **{
            **found,
            "arguments": tuple(found["arguments"]),
            "environment": _pairs(found["environment"]),
            "places": tuple(GuestPlace(**place) for place in found["places"]),
            "held": HeldPaths(**{name: tuple(paths) for name, paths in found["held"].items()}),
            "links": _pairs(found["links"]),
            "bounds": ModuleBounds(**found["bounds"]),
        }
    )


def _pairs(listed: list[list[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((first, second) for first, second in listed)


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return {name: _plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value
