"""Background: a command of a session that runs on while the caller does other things."""

from __future__ import annotations

import os
import threading

from corral.pipeline.arguments import bytes_of
from corral.streams.destinations import Destinations
from corral.streams.streams import PipedStreams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from corral.model.result import Result
    from corral.runtime.launcher.job import Job
    from corral.sessions.session import Session

#: Of each stream, until it is read.
_UNREAD_BYTES = 1024 * 1024


class Background:
    """What `Session.start` returns: wait for it, signal it, read what it prints."""

    def __init__(
        self,
        session: Session,
        argv: tuple[str, ...],
        *,
        cwd: str | os.PathLike[str] | None,
        env: Mapping[str, str] | None,
        stdin: bytes | str,
        timeout: float | None,
    ) -> None:
        self.argv = argv
        self.id = os.urandom(4).hex()
        self._session = session
        self._unread = {"stdout": bytearray(), "stderr": bytearray()}
        self._news = threading.Condition()
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._job = self._prepare(bytes_of(stdin), cwd, env, timeout)
        self._thread = threading.Thread(target=self._run, name="corral-background", daemon=True)
        self._thread.start()

    def _prepare(
        self,
        stdin: bytes,
        cwd: str | os.PathLike[str] | None,
        env: Mapping[str, str] | None,
        timeout: float | None,
    ) -> Job:
        session = self._session
        streams = PipedStreams(session.output_bytes, stdin, Destinations(self._take, None, None))
        return session.prepare_on(streams, self.argv, cwd=cwd, env=env, timeout=timeout, is_background=True)

    def __repr__(self) -> str:
        state = "running" if self.is_running else "ended"
        return f"<Background {self.id} {state}: {' '.join(self.argv)[:80]}>"

    def _run(self) -> None:
        try:
            self._result = self._session.finish(self._job)
        except BaseException as error:  # it belongs to whoever waits
            self._error = error
        with self._news:
            self._news.notify_all()

    def _take(self, name: str, piece: bytes) -> None:
        with self._news:
            unread = self._unread[name]
            unread += piece
            del unread[:-_UNREAD_BYTES]
            self._news.notify_all()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._thread.is_alive()

    def read(self, name: str = "stdout", *, timeout: float | None = 0.0) -> bytes:
        """What it has printed on a stream since the last call; of very much only the end.

        Waits for something for so many seconds; None: until there is something, or it has ended.
        """
        with self._news:
            self._news.wait_for(lambda: self._unread[name] or not self.is_going_on, timeout)
            piece = bytes(self._unread[name])
            self._unread[name].clear()
            return piece

    @property
    def is_going_on(self) -> bool:
        """Whether there may be more output."""
        return self._result is None and self._error is None

    def wait(self, timeout: float | None = None) -> Result:
        """Wait for its end and say what happened. Raises TimeoutError if that takes too long."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise TimeoutError(f"still running after {timeout:g} seconds: {' '.join(self.argv)}")
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def signal(self, number: int) -> None:
        """Pass a signal on: INT, TERM, HUP, QUIT, USR1, USR2, TSTP, CONT; KILL ends everything it started."""
        import signal

        if number == signal.SIGKILL:
            self._job.kill()
        else:
            self._job.send(number)

    def kill(self) -> None:
        """End it, and everything that it has started."""
        self._job.kill()
