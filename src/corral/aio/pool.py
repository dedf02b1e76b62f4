"""Pool, for asyncio."""

from __future__ import annotations

import asyncio

import corral.sessions.pool as blocking
from corral.aio.call import call, call_short
from corral.aio.sandbox import Sandbox
from corral.aio.session import HeldSession, Session
from corral.policy.preset import DEFAULT_PRESET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self, Unpack

    import corral.sandbox
    from corral.aio.call import CallInProgress
    from corral.model.policy import Policy
    from corral.model.result import Result
    from corral.pipeline.call_options import PoolOptions
    from corral.sessions.pool import PoolStats


class _HeldPool(blocking.Pool):
    """A pool whose sessions can be used by tasks."""

    def _make(self) -> HeldSession:
        return HeldSession(self.sandbox)


class Pool:
    """See `corral.Pool`. It begins to fill when it is entered."""

    def __init__(
        self,
        sandbox: Sandbox | corral.sandbox.Sandbox | Policy | str = DEFAULT_PRESET,
        *,
        size: int = 4,
        max_parallel: int | None = None,
        idle_seconds: float = 300.0,
    ) -> None:
        plain = sandbox.blocking if isinstance(sandbox, Sandbox) else sandbox

        def begin() -> blocking.Pool:
            return _HeldPool(plain, size=size, max_parallel=max_parallel, idle_seconds=idle_seconds)

        self._begin = begin
        self._made: blocking.Pool | None = None

    @property
    def blocking(self) -> blocking.Pool:
        """The pool that does the work."""
        if self._made is None:
            raise RuntimeError("the pool was not begun: use `async with`")
        return self._made

    async def __aenter__(self) -> Self:
        try:
            await call_short(self._do_make)
        except asyncio.CancelledError:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _do_make(self) -> None:
        self._made = self._begin()

    async def run(self, command: str | Sequence[str], **options: Unpack[PoolOptions]) -> Result:
        """See `corral.Pool.run`. `stream` may be a coroutine function; it is called in the loop."""
        pool = self.blocking

        def work(held: CallInProgress) -> Result:
            told = options.copy()
            told["stream"] = held.in_loop(options.get("stream"))
            pooled = pool.prepare(command, **told)
            held.take(pooled)
            return pooled.run()

        return await call(work)

    def session(self) -> Session:
        """A fresh sandbox to keep: `async with pool.session() as session`, or await it and close it."""
        return Session(self.blocking.session)

    async def fill(self, timeout: float | None = None) -> bool:
        """See `corral.Pool.fill`."""
        return await call_short(lambda: self.blocking.fill(timeout))

    def stats(self) -> PoolStats:
        """What it is doing, and what it has done."""
        return self.blocking.stats()

    async def close(self) -> None:
        """See `corral.Pool.close`."""
        if self._made is not None:
            await call_short(self._made.close)
