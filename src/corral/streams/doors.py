"""Doors: files that a caller gives as stdin, stdout or stderr, and that the policy does not let be written.

A process can reopen the file behind its descriptor through /proc/self/fd, and then for writing. The mounts of
the sandbox do not apply: the descriptor came from outside. So such a file is reopened for reading, through a
read-only mount of its own, and what is printed into it goes through a pipe. `launcher/reopen.c` does it for
compiled plans.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat

from corral.model.policy import FsAccess
from corral.streams.stdio import IGNORED_BY_PYTHON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from corral.model.launch import Launch
    from corral.model.plan import Plan

_SOCKET = 3  # where the launcher sends it
_WORD_BYTES = 16


class Doors:
    """Which descriptors of a caller the command must not have as they are."""

    def __init__(self, plan: Plan, launch: Launch) -> None:
        self._plan = plan
        self._launcher = launch.outer.launcher if launch.outer is not None else launch.argv[0]
        self._is_held = launch.holds_descriptors

    def among(self, descriptors: Iterable[int]) -> frozenset[int]:
        """Those that lead to a file which the command may not write."""
        return frozenset(filter(self._is_door, descriptors))

    def _is_door(self, descriptor: int) -> bool:
        status = os.fstat(descriptor)
        is_read = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        if is_read and self._is_held:
            return False
        if stat.S_ISBLK(status.st_mode):
            return True
        # Nobody finds a file that has no name, so that it is the caller's message, and no more.
        if not stat.S_ISREG(status.st_mode) or status.st_nlink == 0:
            return False
        try:
            path = os.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:  # it is longer than the kernel can tell
            return True
        return not may_write(self._plan, path)

    def open_anew(self, descriptor: int) -> int:
        """The same file for reading, at the same offset. Raises OSError where that cannot be had."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                pid = os.posix_spawn(
                    self._launcher,
                    (self._launcher, "--reopen"),
                    {},
                    file_actions=[
                        *(
                            (os.POSIX_SPAWN_DUP2, descriptor, 0),
                            (os.POSIX_SPAWN_DUP2, theirs.fileno(), _SOCKET),
                        ),
                        *((os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (1, 2)),
                    ],
                    setsigdef=IGNORED_BY_PYTHON,
                )
            try:
                _, given, _, _ = socket.recv_fds(ours, _WORD_BYTES, 1, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
            finally:
                os.waitpid(pid, 0)
        if not given:
            raise OSError("the file cannot be opened again")
        return given[0]


def find_doors(plan: Plan, launch: Launch) -> Doors | None:
    """Who closes them; None where nothing is confined."""
    return Doors(plan, launch) if launch.spec is not None else None


def may_write(plan: Plan, path: str) -> bool:
    """Whether the policy lets the command write the file at a real path, as it is now.

    On trial it may not: what it writes there goes to its layer, and the caller's file is the host's own.
    """
    if plan.command.trial is not None and _is_beneath(path, plan.command.trial.root):
        return False
    closed = [target.path for target in plan.resolved.denied]
    closed += [shield.target.path for shield in plan.shields]
    if any(_is_beneath(path, above) for above in closed):
        return False
    # The deepest decides, as it does for who goes there by name; what a private area hides is not granted.
    grants = [
        (len(grant.target.path), grant.access is FsAccess.WRITE)
        for grant in plan.resolved.grants
        if _is_beneath(path, grant.target.path)
    ]
    hidden = [(len(area), False) for area in plan.resolved.private if _is_beneath(path, area)]
    return max((*hidden, *grants), key=lambda rule: rule[0], default=(0, False))[1]


def _is_beneath(path: str, above: str) -> bool:
    return path == above or path.startswith(f"{above.rstrip('/')}/")
