"""Observation: what runs in one workspace were seen to use, added up over several of them."""

from __future__ import annotations

import os

from corral.learning.trace import AccessKind
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from corral.learning.trace import Access
    from corral.model.result import Result

_MOST_PATHS = 20_000


class Observation(Record):
    commands: tuple[str, ...] = ()  # the programs, one for each run
    reads: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()  # that were written in place
    directories: frozenset[str] = frozenset()  # that were made, or moved into their place
    parents: frozenset[str] = frozenset()  # in which names came and went
    missed: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()  # that were reached
    refused: frozenset[str] = frozenset()  # hosts that were not permitted
    seconds: float = 0.0  # of the longest run
    memory_bytes: int = 0

    def __or__(self, other: Observation) -> Observation:
        sums = {name: getattr(self, name) | getattr(other, name) for name in _SETS}
        return Observation(
            commands=(*self.commands, *other.commands),
            seconds=max(self.seconds, other.seconds),
            memory_bytes=max(self.memory_bytes, other.memory_bytes),
            **sums,
        )

    def to_json(self) -> dict[str, Any]:
        """All fields, in JSON's own types."""
        plain = {name: sorted(getattr(self, name)) for name in _SETS}
        return {
            "v": 1,
            "commands": list(self.commands),
            "seconds": self.seconds,
            "memory_bytes": self.memory_bytes,
            **plain,
        }


_SETS = ("reads", "files", "directories", "parents", "missed", "hosts", "refused")


def observation_from(said: dict[str, Any]) -> Observation:
    """What was kept of earlier runs. Raises KeyError or TypeError for anything else."""
    sets: dict[str, Any] = {name: frozenset(map(str, said[name])) for name in _SETS}
    return Observation(
        commands=tuple(map(str, said["commands"])),
        seconds=float(said["seconds"]),
        memory_bytes=int(said["memory_bytes"]),
        **sets,
    )


def observe(accesses: Iterable[Access], result: Result, command: str) -> Observation:
    """What one run used. Looks at which of the paths are still there."""
    by_kind: dict[AccessKind, set[str]] = {kind: set() for kind in AccessKind}
    for access in accesses:
        if len(by_kind[access.kind]) < _MOST_PATHS:
            by_kind[access.kind].add(access.path)
    moved = by_kind[AccessKind.MOVE]
    directories = {path for path in by_kind[AccessKind.MAKE] | moved if os.path.isdir(path)}
    # A directory that got its name at the end needs nothing beside it next time: it is there by then.
    entries = by_kind[AccessKind.ENTRY] | {path for path in moved if path not in directories}
    gone = {path for path in by_kind[AccessKind.WRITE] if not os.path.lexists(path)}
    parents = {os.path.dirname(path) for path in entries | gone if not _was_made(path, by_kind, directories)}
    traffic = result.network
    reached = {host for host in traffic.hosts if host.connections} if traffic is not None else set()
    refused = {event.subject for event in result.events if event.feature.value.startswith("net.")}
    return Observation(
        commands=(command,),
        reads=frozenset(by_kind[AccessKind.READ] | by_kind[AccessKind.RUN]),
        files=frozenset(by_kind[AccessKind.WRITE] - gone),
        directories=frozenset(directories),
        parents=frozenset(parents),
        missed=frozenset(by_kind[AccessKind.MISSED]),
        hosts=frozenset(f"{host.host}:{host.port}" for host in reached),
        refused=frozenset(refused),
        seconds=result.duration_seconds,
        memory_bytes=result.usage.peak_memory_bytes or 0,
    )


def _was_made(path: str, by_kind: dict[AccessKind, set[str]], directories: set[str]) -> bool:
    """Whether a name that came and went was a directory on its way to its own name."""
    return path in by_kind[AccessKind.MAKE] and any(
        os.path.dirname(each) == os.path.dirname(path) for each in directories
    )
