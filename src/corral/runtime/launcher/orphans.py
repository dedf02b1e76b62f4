"""Orphans: what a command of a kept sandbox has left running, watched over until it ends."""

from __future__ import annotations

import contextlib
import os
import select
import threading

from corral.model.errors import SetupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.protected_names.session_guard import SessionGuard
    from corral.runtime.launcher.server import JobPipes

_CHUNK = 65_536


def watch_orphans(ends: JobPipes, guard: SessionGuard | None, done: Callable[[], None]) -> threading.Thread:
    """Do so in a thread, which ends when the last process has, or when the sandbox does."""
    thread = threading.Thread(target=_watch, args=(ends, guard, done), name="corral-leftover", daemon=True)
    thread.start()
    return thread


def _watch(ends: JobPipes, guard: SessionGuard | None, done: Callable[[], None]) -> None:
    poller = select.poll()
    poller.register(ends.status, select.POLLIN)
    mark = guard.mark() if guard is not None else 0
    try:
        while _serve(poller, ends, guard):
            if guard is not None and guard.attend(mark):
                ends.cut()  # it tries again and again
    finally:
        ends.close()
        if guard is not None:
            # What cannot be repaired is found by the next command's first look.
            with contextlib.suppress(SetupError):
                guard.end(mark, is_leftover=True)
        done()


def _serve(poller: select.poll, ends: JobPipes, guard: SessionGuard | None) -> bool:
    """Wait once; False when nothing is left."""
    for descriptor, _ in poller.poll(guard.prepare(poller) if guard is not None else None):
        if descriptor == ends.status:
            try:
                if not os.read(ends.status, _CHUNK):
                    return False
            except BlockingIOError:
                continue
        elif guard is not None:
            guard.react()
    return True
