"""Open files of corral's own process: more while its gateway needs them, and not for what it starts.

The process may be that of a library's user: the soft limit is raised where there is need, and given back.
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Of a hard limit that has no end in sight, this is enough.
_MOST = 1 << 16
_lock = allocate_lock()
_before: int | None = None  # the soft limit, while it is raised


def limit_now() -> int:
    """How many files this process may have open."""
    return _limits()[0]


def limit_at_most() -> int:
    """How many it may have open after `raise_limit`."""
    soft, hard = _limits()
    return max(soft, min(hard, _MOST))


def raise_limit() -> None:
    """As far as that goes; nothing where it has gone so far already."""
    global _before  # noqa: PLW0603
    import resource

    with _lock:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = limit_at_most()
        if _before is None and most > limit_now():
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            _before = soft


def give_back() -> None:
    """The limit is what it was, unless somebody has a file open by now that is beyond it."""
    global _before  # noqa: PLW0603
    import resource

    with _lock:
        if _before is not None and max(map(int, os.listdir("/dev/fd"))) < _before:
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (_before, hard))
            _before = None


def start_process(path: str, argv: Any, env: Any, **others: Any) -> int:
    """`os.posix_spawn`, with the limit that this process had before: programs go by it."""
    pid = os.posix_spawn(path, argv, env, **others)
    before = _before
    if before is not None and sys.platform == "linux":
        import contextlib
        import resource

        # Afterwards: with a lower limit, libc would not pass descriptors on that are beyond it. Whoever is
        # started is a launcher or an engine, which takes its time; were it quicker, it would have more.
        with contextlib.suppress(OSError):
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (before, hard))
    return pid


def _limits() -> tuple[int, int]:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    endless = 1 << 20
    return (
        endless if soft == resource.RLIM_INFINITY else soft,
        endless if hard == resource.RLIM_INFINITY else hard,
    )
