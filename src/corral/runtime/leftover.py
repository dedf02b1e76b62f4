"""Leftover: what a command of a kept sandbox has left running, watched over until it ends."""

from __future__ import annotations

import contextlib
import os
import select
import threading

from corral.model.errors import SetupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.runtime.kept import Ends
    from corral.runtime.lookout import Lookout

_CHUNK = 65_536


def watch_over(ends: Ends, lookout: Lookout | None, done: Callable[[], None]) -> threading.Thread:
    """Do so in a thread, which ends when the last process has, or when the sandbox does."""
    thread = threading.Thread(target=_watch, args=(ends, lookout, done), name="corral-leftover", daemon=True)
    thread.start()
    return thread


def _watch(ends: Ends, lookout: Lookout | None, done: Callable[[], None]) -> None:
    poller = select.poll()
    poller.register(ends.status, select.POLLIN)
    mark = lookout.mark() if lookout is not None else 0
    try:
        while _serve(poller, ends, lookout):
            if lookout is not None and lookout.attend(mark):
                ends.cut()  # it tries again and again
    finally:
        ends.close()
        if lookout is not None:
            # What cannot be mended is found by the next command's first look.
            with contextlib.suppress(SetupError):
                lookout.end(mark, is_leftover=True)
        done()


def _serve(poller: select.poll, ends: Ends, lookout: Lookout | None) -> bool:
    """Wait once; False when nothing is left."""
    for descriptor, _ in poller.poll(lookout.prepare(poller) if lookout is not None else None):
        if descriptor == ends.status:
            try:
                if not os.read(ends.status, _CHUNK):
                    return False
            except BlockingIOError:
                continue
        elif lookout is not None:
            lookout.react()
    return True
