"""A look at a process tree through /proc, for runs that no control group counts."""

from __future__ import annotations

import contextlib
import os

from corral.limits.files import read
from corral.model.result import GroupUsage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
#: Positions in /proc/PID/stat, counted from behind the name.
_UTIME, _STIME, _CUTIME, _CSTIME, _THREADS, _RSS = 11, 12, 13, 14, 17, 21


def look_at_tree(root: int) -> GroupUsage:
    """What all descendants of a process have now. Memory that they share counts for each of them."""
    memory = threads = 0
    waited = _fields(
        root
    )  # the time of those that are gone is with whoever waited for them, the root included
    user, system = (int(waited[_CUTIME]), int(waited[_CSTIME])) if waited else (0, 0)
    for pid in descendants(root):
        fields = _fields(pid)
        if fields:
            memory += int(fields[_RSS]) * _PAGE
            threads += int(fields[_THREADS])
            user += int(fields[_UTIME]) + int(fields[_CUTIME])
            system += int(fields[_STIME]) + int(fields[_CSTIME])
    return GroupUsage(memory, None, threads, None, user / _TICKS, system / _TICKS)


def _fields(pid: int) -> list[str]:
    """What the kernel tells of a process, from behind its name; nothing if it is gone."""
    fields = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields if len(fields) > _RSS else []


def descendants(root: int) -> Iterator[int]:
    """Its children, and theirs, as far as /proc tells."""
    waiting = [root]
    while waiting:
        for child in _children(waiting.pop()):
            yield child
            waiting.append(child)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += map(int, read(f"/proc/{pid}/task/{thread}/children").split())
    return found
