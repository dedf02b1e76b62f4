"""Keeper: the process that holds a named session, from its first command to its last."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
import time

from corral.model.errors import CorralError, PolicyError, SessionClosed, SetupError
from corral.model.rules.quantities import format_duration
from corral.sessions.named.recent import RecentEvents
from corral.sessions.named.record import FAILED, RUNNING, STOPPED, birth, write_entry
from corral.sessions.named.running import Activity
from corral.sessions.named.service import Service
from corral.sessions.named.session_directory import SOCKET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from corral.model.result import Result, UsageSample
    from corral.sandbox import Sandbox
    from corral.sessions.live_network import LiveNetwork
    from corral.sessions.named.log import Log
    from corral.sessions.named.record import SessionRecord
    from corral.sessions.named.session_directory import SessionDirectory
    from corral.sessions.session import Session

    Describe = Callable[[Result, str | tuple[str, ...], bool], list[str]]

_BACKLOG = 64
#: For clients that are being answered when the end comes.
_LEAVE_SECONDS = 15.0


class Reset:
    """Somebody waits for the sandbox to be made anew."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.error: CorralError | None = None


class Keeper:
    """Owns the sandbox and the control socket. `start`, then `serve` until it is over."""

    def __init__(
        self,
        place: SessionDirectory,
        entry: SessionRecord,
        sandbox: Sandbox,
        log: Log,
        describe: Describe,
        *,
        terms: tuple[str, ...],
    ) -> None:
        """`describe` says about a result what the command line says about it, a line each.

        `terms` are what it was started with, for whoever would start the same.
        """
        self.terms = terms
        self.entry = entry
        self.log = log
        self.describe = describe
        self.tally = Activity(self._wake)
        self.over = threading.Event()
        self._place = place
        self.recent = RecentEvents()
        self._sandbox = sandbox.hearing(self.recent.hear_network)
        self._sandbox.planner.passes_by = True  # to the clients' own descriptors
        self._session: Session | None = None
        self._listener: socket.socket | None = None
        self._threads: set[threading.Thread] = set()
        self._ending: tuple[str, str] | None = None
        self._resets: list[Reset] = []
        self._watched, self._watched_pid = -1, 0
        self._wakes, self._wake_end = os.pipe()
        os.set_blocking(self._wake_end, False)
        os.set_blocking(self._wakes, False)

    def start(self) -> None:
        """Make the sandbox and listen. Raises CorralError; then the record says so."""
        try:
            self._session = session = self._sandbox.session()
            self.entry = self.entry.replace(
                state=RUNNING,
                pid=os.getpid(),
                born=birth(os.getpid()),
                backend=session.backend,
                output_bytes=session.output_bytes or 0,
                token=os.urandom(16).hex(),
            )
            self._listen()
            write_entry(self._place, self.entry)
        except OSError as problem:
            why = problem.strerror or str(problem)
            fix = "free some space in the runtime directory, or check its modes"
            error = SetupError("session-place", "the session cannot be reached", why=why, fix=fix)
            self._finish(FAILED, why)
            raise error from problem
        except CorralError as error:
            self._finish(FAILED, f"{error.what}: {error.why}")
            raise
        self.log.note(f"started: backend {session.backend}, policy {self.entry.policy}, pid {os.getpid()}")

    def _listen(self) -> None:
        self._place.remove(f"{self.entry.name}{SOCKET}")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        before = os.umask(0o177)  # the socket's mode is 0600 from its first moment
        try:
            listener.bind(self._place.address(self.entry.name))
        finally:
            os.umask(before)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        self._listener = listener

    def serve(self) -> None:
        """Answer clients until somebody or something ends it."""
        assert self._session is not None and self._listener is not None
        for name in ("SIGTERM", "SIGINT"):
            signal.signal(getattr(signal, name), lambda *_: self.stop("ended by a signal"))
        poller = select.poll()
        poller.register(self._listener, select.POLLIN)
        poller.register(self._wakes, select.POLLIN)
        self._watch(poller)
        while self._ending is None:
            for descriptor, _ in poller.poll(self._patience_ms()):
                if descriptor == self._listener.fileno():
                    self._accept()
                elif descriptor == self._wakes:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wakes, 4096)
                elif descriptor == self._watched and self._session.is_lost():
                    self._ending = self._ending or (FAILED, self._session.lost().why)
            self._begin_anew(poller)
            self._watch_successor(poller)
            self._check_limits()
        self._finish(*self._ending)

    def _watch(self, poller: select.poll) -> None:
        """Learn of the end of the sandbox, which is the end of the session."""
        assert self._session is not None
        if self._watched >= 0:
            poller.unregister(self._watched)
            os.close(self._watched)
        self._watched_pid = self._session.pid
        try:
            self._watched = os.pidfd_open(self._watched_pid) if self._watched_pid else -1
        except ProcessLookupError:  # a successor is being made: the next turn looks again
            self._watched, self._watched_pid = -1, 0
        if self._watched >= 0:
            poller.register(self._watched, select.POLLIN)

    def _watch_successor(self, poller: select.poll) -> None:
        """A command may have found that the sandbox does not fit the host any more, and made another."""
        assert self._session is not None
        if self._session.pid != self._watched_pid:
            self._watch(poller)
            if self._watched_pid:
                self.log.note(f"the host has changed: the sandbox was recreated, pid {self._watched_pid}")

    def reset(self) -> None:
        """Begin anew, and return when it is done. Raises CorralError; then the session ends."""
        wanted = Reset()
        self._resets.append(wanted)
        self._wake()
        wanted.done.wait()
        if wanted.error is not None:
            raise wanted.error

    def _begin_anew(self, poller: select.poll) -> None:
        """In the main thread: the sandbox that is watched must not be taken for one that was lost."""
        assert self._session is not None
        while self._resets:
            wanted = self._resets.pop(0)
            try:
                self._session.reset()
                self._watch(poller)
                self.log.note("reset: everything was ended, and the sandbox recreated")
            except CorralError as error:
                wanted.error = error
                self._ending = self._ending or (FAILED, f"{error.what}: {error.why}")
            wanted.done.set()

    def stop(self, reason: str) -> None:
        """Come to an end soon; `over` is set when all is gone. From any thread, or a signal handler."""
        self._ending = self._ending or (STOPPED, reason)
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_end, b"w")

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            connection, _ = self._listener.accept()
        except OSError:  # the client is gone again, or there are too many: the others go on
            return
        connection.setblocking(True)
        self.spawn(Service(self, connection).serve)

    def spawn(self, work: Callable[[], None]) -> None:
        """Do something in a thread that the end waits for."""

        def do() -> None:
            try:
                work()
            finally:
                self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=do, name="corral-client", daemon=True)
        self._threads.add(thread)
        thread.start()

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """The sandbox for a command: the one that is kept, or one of its own."""
        assert self._session is not None
        if not self.entry.is_fresh:
            yield self._session
            return
        with self._sandbox.session() as own:
            yield own

    def network(self) -> LiveNetwork:
        """Who may be reached. Raises PolicyError if there is no one network for all commands."""
        assert self._session is not None
        if self.entry.is_fresh:
            raise PolicyError(
                "network-closed",
                "the session has no network that could be changed",
                why="every command has its own sandbox and network (keep_alive = false)",
                fix="name the host when the session is started (`--allow HOST`), or set keep_alive = true",
            )
        return self._session.network

    def usage(self) -> UsageSample | None:
        """What all commands have cost; None if each has a sandbox of its own."""
        assert self._session is not None
        return None if self.entry.is_fresh else self._session.usage()

    def _deadlines(self) -> Iterator[tuple[float, str]]:
        """When it ends if nothing happens, by the monotonic clock, and what is said then."""
        entry = self.entry
        if entry.lifetime_seconds:
            text = f"its lifetime of {format_duration(entry.lifetime_seconds)} was over"
            yield self.tally.began + entry.lifetime_seconds, text
        if entry.idle_seconds and not self.tally.running:
            text = f"it was idle for {format_duration(entry.idle_seconds)}"
            yield self.tally.last + entry.idle_seconds, text

    def _patience_ms(self) -> float | None:
        nearest = min((moment for moment, _ in self._deadlines()), default=None)
        return None if nearest is None else max(0.0, nearest - time.monotonic()) * 1000 + 1

    def _check_limits(self) -> None:
        now = time.monotonic()
        for moment, text in self._deadlines():
            if now >= moment:
                self._ending = self._ending or (STOPPED, text)

    def _finish(self, state: str, reason: str) -> None:
        """ORDER: no new clients; the sandbox and all in it; then the record, which says that it is so."""
        if self._listener is not None:
            self._listener.close()
            self._place.remove(f"{self.entry.name}{SOCKET}")
        for wanted in self._resets:
            wanted.error = SessionClosed()
            wanted.done.set()
        for running in self.tally.running:
            running.job.kill()
        if self._session is not None:
            self._session.close()
        deadline = time.monotonic() + _LEAVE_SECONDS
        for thread in tuple(self._threads):
            if not self.tally.waits(thread):
                thread.join(max(0.0, deadline - time.monotonic()))
        self.entry = self.entry.replace(state=state, reason=reason, ended=time.time(), token="")
        with contextlib.suppress(OSError):  # whoever looks finds that the process is gone
            write_entry(self._place, self.entry)
        self.log.note(f"{state}: {reason}")
        self.over.set()
        for thread in tuple(self._threads):
            thread.join(max(0.0, deadline - time.monotonic()))
