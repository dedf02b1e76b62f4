"""Call: something that blocks, done in a thread, and ended when the task that waits for it is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import os
import threading
from concurrent.futures import ThreadPoolExecutor

from corral.model.errors import SetupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from typing import Any, Protocol, TypeVar

    from corral.streams.destinations import Stream

    T = TypeVar("T")

    class Endable(Protocol):
        """What runs a command."""

        def kill(self) -> None: ...


#: Commands that can run at a time: each has a thread, which does nothing but wait for it. asyncio's own
#: executor has a handful, and a command that waits for another one would wait for ever.
MOST_THREADS = 512
#: For what takes a moment only. It has threads of its own, so that all can be ended however much runs.
_MOST_SHORT = 32

_executors: dict[tuple[int, int], ThreadPoolExecutor] = {}
_current: contextvars.ContextVar[CallInProgress] = contextvars.ContextVar("corral_held")


def _executor(most: int) -> ThreadPoolExecutor:
    key = (os.getpid(), most)  # a forked process has none of its parent's threads
    if key not in _executors:
        _executors[key] = ThreadPoolExecutor(most, thread_name_prefix="corral-aio")
    return _executors[key]


class CallInProgress:
    """What one call has under way in its thread. `end` is called in the loop, the rest in the thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._target: Endable | None = None
        self._hearing: Future[None] | None = None
        self._is_unwanted = False

    def take(self, target: Endable) -> None:
        """This is what is to be killed. Raises SetupError if that was wanted before it began."""
        with self._lock:
            self._target = target
            if self._is_unwanted:
                raise _cancelled()

    def end(self) -> None:
        """Nobody waits for it any more."""
        with self._lock:
            self._is_unwanted = True
            target, hearing = self._target, self._hearing
        if hearing is not None:
            hearing.cancel()
        if target is not None:
            target.kill()

    def in_loop(self, stream: Any) -> Stream | None:
        """A function or coroutine function of the caller's, to be called from the thread, in the loop.

        The command's output waits for it: pieces come in order, one at a time.
        """
        if not callable(stream):
            return stream  # type: ignore[no-any-return]  # whoever gets it says what is wrong with it

        async def hear(name: str, data: bytes) -> None:
            answer = stream(name, data)
            if inspect.isawaitable(answer):
                await answer

        def pass_on(name: str, data: bytes) -> None:
            with self._lock:
                if self._is_unwanted:
                    raise _cancelled()
                self._hearing = asyncio.run_coroutine_threadsafe(hear(name, data), self._loop)
            self._hearing.result()

        return pass_on


def hold(target: Endable) -> None:
    """Say what is about to run in this thread, if a call of `aio` has started it."""
    held = _current.get(None)
    if held is not None:
        held.take(target)


async def call(work: Callable[[CallInProgress], T]) -> T:
    """Do something that may take long. A cancellation ends what it holds, and waits for that."""
    return await _call(work, MOST_THREADS)


async def call_short(work: Callable[[], T]) -> T:
    """Do something that comes to its end by itself, soon. A cancellation waits for that."""
    return await _call(lambda _: work(), _MOST_SHORT)


async def _call(work: Callable[[CallInProgress], T], most: int) -> T:
    held = CallInProgress(asyncio.get_running_loop())
    context = contextvars.copy_context()
    context.run(_current.set, held)
    future = _executor(most).submit(context.run, work, held)
    waiting = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        if not future.cancel():  # else it never began
            held.end()
            await _gone(waiting)
        raise


async def _gone(waiting: asyncio.Future[Any]) -> None:
    """INVARIANT: whoever is told that a call was cancelled can rely on nothing of it running on."""
    while not waiting.done():
        with contextlib.suppress(asyncio.CancelledError):  # once more: it is being ended already
            await asyncio.wait([waiting])
    if not waiting.cancelled():
        waiting.exception()  # nobody will ask for it


def _cancelled() -> SetupError:
    return SetupError(
        "cancelled",
        "the command was ended before it began",
        why="its caller was cancelled",
        fix="run it again, if it is wanted after all",
    )
