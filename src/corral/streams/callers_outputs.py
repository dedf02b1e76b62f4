"""Where the caller's outputs lead: whether both are one, and whether corral should stand in between."""

from __future__ import annotations

import fcntl
import os
import stat

from corral.model.plan import StdioMode
from corral.streams.sinks import PTMX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.plan import Plan


def errors_pass_by(plan: Plan) -> bool:
    """Whether standard error goes past corral: it is a terminal, or one log with stdout.

    A pipe goes through corral, also after `2>&1`: else corral's lines would come into those of others.
    """
    mode = plan.command.stdio
    if mode is StdioMode.TERMINAL:
        return True
    is_limited = plan.resolved.limits.output_bytes is not None
    return mode is StdioMode.INHERIT and not is_limited and leads_past_corral()


def leads_past_corral() -> bool:
    """Whether the caller's own standard error is one that corral does not stand in between."""
    return os.isatty(2) or is_one_log()


def is_one_log() -> bool:
    """Whether both outputs go into one file (`> log 2>&1`): all of it would have to pass through corral."""
    try:
        return stat.S_ISREG(os.fstat(2).st_mode) and is_same_file(1, 2)
    except OSError:  # the caller has closed it
        return False


def is_same_file(one: int, other: int) -> bool:
    """As after `2>&1`: one file, open in the same way.

    All masters of terminals have one inode, and so has what the kernel makes without a file (a mode of no
    kind): nothing that can be seen here tells those apart, so they count as two.
    """
    try:
        first, second = os.fstat(one), os.fstat(other)
        is_open_alike = fcntl.fcntl(one, fcntl.F_GETFL) == fcntl.fcntl(other, fcntl.F_GETFL)
    except OSError:  # the caller has closed one of them
        return False
    is_named = stat.S_IFMT(first.st_mode) != 0 and first.st_rdev != PTMX
    return is_named and is_open_alike and os.path.samestat(first, second)
