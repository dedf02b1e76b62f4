"""Session and its background processes, for asyncio."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

import corral.sessions.session as blocking
from corral.aio.call import call, call_short, hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Generator, Sequence
    from types import TracebackType
    from typing import Any, Self, Unpack

    from corral.aio.call import CallInProgress
    from corral.model.file_entry import FileEntry
    from corral.model.result import Result, UsageSample
    from corral.pipeline.call_options import KeptOptions, StartOptions
    from corral.runtime.launcher.job import Job
    from corral.sessions import background
    from corral.sessions.live_network import LiveNetwork

#: How long a cancellation may have to wait for a thread that waits for output.
_SLICE_SECONDS = 0.1


class HeldSession(blocking.Session):
    """A session whose commands can be ended by the task that waits for them."""

    def finish(self, job: Job) -> Result:
        hold(job)
        return super().finish(job)


class Session:
    """See `corral.sessions.session.Session`. It is made when it is entered or awaited."""

    def __init__(self, make: Callable[[], blocking.Session]) -> None:
        self._make = make
        self._made: blocking.Session | None = None
        self._stateful = asyncio.Lock()

    @property
    def blocking(self) -> blocking.Session:
        """The session that does the work."""
        if self._made is None:
            raise RuntimeError("the session was not begun: use `async with`, or await it")
        return self._made

    def __await__(self) -> Generator[Any, None, Self]:
        return self._begin().__await__()

    async def __aenter__(self) -> Self:
        return await self._begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _begin(self) -> Self:
        if self._made is None:
            try:
                await call_short(self._do_make)
            except asyncio.CancelledError:
                await self.close()
                raise
        return self

    def _do_make(self) -> None:
        self._made = self._make()

    @property
    def id(self) -> str:
        """Its name among others."""
        return self.blocking.id

    @property
    def backend(self) -> str:
        """The backend that enforces its policy."""
        return self.blocking.backend

    @property
    def is_open(self) -> bool:
        """Whether it still accepts commands."""
        return self._made is not None and self._made.is_open

    @property
    def network(self) -> LiveNetwork:
        """Who may be reached, from now on, and what has passed; nothing of it waits for long."""
        return self.blocking.network

    async def run(
        self, command: str | Sequence[str], *, stateful: bool = False, **options: Unpack[KeptOptions]
    ) -> Result:
        """See `Session.run`; `stream`, called in the loop, may be a coroutine function."""
        session = self.blocking

        def work(held: CallInProgress) -> Result:
            told = options.copy()
            told["stream"] = held.in_loop(options.get("stream"))
            return session.run(command, **told, stateful=stateful)

        if not stateful:
            return await call(work)
        async with self._stateful:  # waits where it can be cancelled
            return await call(work)

    async def start(self, command: str | Sequence[str], **options: Unpack[StartOptions]) -> Background:
        """See `corral.sessions.session.Session.start`. Cancelling whoever waits for it does not end it."""
        return Background(await call_short(lambda: self.blocking.start(command, **options)))

    async def read_file(self, path: str | os.PathLike[str], *, limit: int | None = None) -> bytes:
        """See `corral.sessions.session.Session.read_file`."""
        return await call_short(lambda: self.blocking.read_file(path, limit=limit))

    async def write_file(
        self,
        path: str | os.PathLike[str],
        data: bytes | str,
        *,
        mode: int = 0o644,
        parents: bool = False,
    ) -> None:
        """See `corral.sessions.session.Session.write_file`."""
        await call_short(lambda: self.blocking.write_file(path, data, mode=mode, parents=parents))

    async def list_dir(self, path: str | os.PathLike[str] = ".") -> tuple[FileEntry, ...]:
        """See `corral.sessions.session.Session.list_dir`."""
        return await call_short(lambda: self.blocking.list_dir(path))

    async def upload(self, source: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
        """See `corral.sessions.session.Session.upload`."""
        await call_short(lambda: self.blocking.upload(source, path))

    async def download(self, path: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
        """See `corral.sessions.session.Session.download`."""
        await call_short(lambda: self.blocking.download(path, target))

    async def usage(self) -> UsageSample:
        """What everything in it has used so far."""
        return await call_short(self.blocking.usage)

    async def reset(self) -> None:
        """End everything that runs in it, discard its private areas, and start again."""
        await call_short(self.blocking.reset)

    async def close(self) -> None:
        """End it, and everything that runs in it. Returns when everything has ended."""
        if self._made is not None:
            await call_short(self._made.close)


class Background:
    """See `corral.sessions.background.Background`."""

    def __init__(self, process: background.Background) -> None:
        self._process = process
        self._unread: dict[str, bytes] = {}
        self._end: Future[Result] = Future()
        # A program that ends does not wait for this thread: then the session ends, and the process with it.
        threading.Thread(target=self._wait, name="corral-aio-background", daemon=True).start()

    def _wait(self) -> None:
        try:
            self._end.set_result(self._process.wait())
        except BaseException as error:  # it belongs to whoever waits
            self._end.set_exception(error)

    @property
    def argv(self) -> tuple[str, ...]:
        """The command."""
        return self._process.argv

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.is_running

    async def read(self, name: str = "stdout") -> bytes:
        """Wait for output and return what has come since the last call; nothing at its end."""
        while not self._unread.get(name):
            is_going_on = self._process.is_going_on
            await call_short(lambda: self._take(name))
            if not is_going_on:
                break
        return self._unread.pop(name, b"")

    def _take(self, name: str) -> None:
        # Put down before it is returned: a task that is cancelled meanwhile loses nothing.
        piece = self._process.read(name, timeout=_SLICE_SECONDS)
        self._unread[name] = self._unread.get(name, b"") + piece

    async def wait(self) -> Result:
        """Wait for its end and say what happened."""
        return await asyncio.shield(asyncio.wrap_future(self._end))

    def signal(self, number: int) -> None:
        """Pass a signal on; KILL ends everything that it has started."""
        self._process.signal(number)

    def kill(self) -> None:
        """End it, and everything that it has started."""
        self._process.kill()
