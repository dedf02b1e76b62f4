"""The gateway's thread: one poller, one heap of timers and one queue of commands, for all networks.

Everything that has to do with a sandbox's sockets happens in this thread, so none of it is locked.
It starts with the first sandbox and ends with the last one.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import threading
import time
from collections import deque
from itertools import count

from corral.limits.open_files import give_back, limit_at_most, limit_now, raise_limit
from corral.network.poller import EPOLLET, EPOLLIN, EPOLLOUT, EPOLLRDHUP, open_poller, open_waker

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Protocol

    class Owner(Protocol):
        """Whoever is called by the loop. What it raises ends it, and nobody else."""

        def fail(self, problem: Exception) -> None: ...

    class Watcher(Owner, Protocol):
        def ready(self, descriptor: int, mask: int) -> None: ...


#: Both directions, told once for each change: whoever is told goes on until the kernel says "would block".
EDGES = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET
READABLE = EPOLLIN
_MOST_EVENTS = 256
#: After so long it is time to see what else has happened: what can wait, waits for its network's turn.
_TURN_SECONDS = 0.02
#: The part of the process's descriptors that all networks together may take.
_SHARE_OF_DESCRIPTORS = 0.5
_LEAST_CONNECTIONS = 16
_MOST_PIPES = 32
_STOP_SECONDS = 5.0
#: The kernel cannot wait for much longer than three weeks, and callers may say "for ever".
_MOST_PATIENCE_SECONDS = 3600.0
_MOST_FAULTS = 100


class Timer:
    """Something to do later, unless it is cancelled."""

    __slots__ = ("_gateway", "action", "owner")

    def __init__(self, gateway: Gateway, owner: Owner, action: Callable[[], None]) -> None:
        self._gateway, self.owner = gateway, owner
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """Forget it. Harmless afterwards, and when it has come to pass."""
        if self.action is not None:
            self.action = None
            self._gateway.count_cancelled()


class Gateway:
    """The loop. Only `call`, `call_and_wait` and `stop` may be called by other threads."""

    def __init__(self) -> None:
        from corral.network.relay import Pipes
        from corral.network.workers import Workers

        self._poller = open_poller()
        self._wake = open_waker()
        self._poller.register(self._wake.descriptor, READABLE)
        self._commands: deque[tuple[Owner | None, Callable[[], None]]] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = count()
        self._cancelled = 0
        self._watched: dict[int, Watcher] = {}
        self._soon: dict[object, deque[tuple[Owner, Callable[[], None]]]] = {}  # by whose turn it is
        self._closing: list[socket.socket] = []
        self._is_stopping = self._has_ended = False
        self._wake_lock = threading.Lock()
        #: Errors that nobody foresaw. There must be none; they are counted so that tests can say so.
        self.faults: list[str] = []
        self.lookups = Workers("corral-lookup", 32)
        self.callbacks = Workers("corral-callback", 64)
        self.pipes = Pipes(min(_MOST_PIPES, int(limit_now() * _SHARE_OF_DESCRIPTORS) // 16))
        #: Connections of all networks: each has two sockets.
        self.most_connections = self._room(limit_at_most())
        self._few_connections = self._room(limit_now()) // 2
        self.connections = 0
        self.now = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="corral-gateway", daemon=True)
        self._thread.start()

    # Called by other threads.

    def call(self, action: Callable[[], None], owner: Owner | None = None) -> bool:
        """Do something in the loop, soon. False if it has ended."""
        with self._wake_lock:  # after its end the descriptor may be somebody else's
            if self._has_ended:
                return False
            self._commands.append((owner, action))
            self._wake.wake()
        return True

    def call_and_wait(self, action: Callable[[], None], seconds: float = 10.0) -> bool:
        """Do something in the loop, and say whether it was done in time. Raises what that raises."""
        if self.is_own_thread():
            action()
            return True
        done = threading.Event()
        raised: list[Exception] = []

        def do() -> None:
            try:
                action()
            except Exception as problem:
                raised.append(problem)
            if not self.call(done.set):  # ORDER: one turn later, when what was to be closed is closed
                done.set()

        is_done = self.call(do) and done.wait(seconds)
        if raised:
            raise raised[0]
        return is_done

    def is_own_thread(self) -> bool:
        """Whether the caller is the loop."""
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        """End the thread. No sandbox is left."""
        self.call(self._stop)
        if not self.is_own_thread():
            self._thread.join(_STOP_SECONDS)

    def abandon(self) -> None:
        """In a process that was forked. The numbers stay taken: objects that nobody uses hold them."""
        self._wake_lock, self._has_ended = threading.Lock(), True
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for descriptor in tuple(self._watched):
            os.dup2(null, descriptor, inheritable=False)
        os.close(null)

    # Called in the loop.

    def watch(self, descriptor: int, watcher: Watcher, events: int = EDGES) -> None:
        """Tell somebody when something can be read or written."""
        self._poller.register(descriptor, events)
        self._watched[descriptor] = watcher

    def rewatch(self, descriptor: int, watcher: Watcher) -> None:
        """Tell somebody else from now on. What was told already is not told again."""
        self._watched[descriptor] = watcher

    def unwatch(self, descriptor: int) -> None:
        """Watch no longer: somebody else will, from the beginning."""
        if self._watched.pop(descriptor, None) is not None:
            self._poller.unregister(descriptor)

    def change(self, descriptor: int, events: int) -> None:
        """Watch for something else; for nothing, if it is 0."""
        self._poller.modify(descriptor, events)

    def close(self, sock: socket.socket) -> None:
        """Watch no longer, and close at the end of this turn.

        INVARIANT: no descriptor is used anew within a turn: an event that is still to be told would be told
        to whoever got the number.
        """
        descriptor = sock.fileno()
        if descriptor < 0:
            return
        if self._watched.pop(descriptor, None) is not None:
            with contextlib.suppress(OSError):
                self._poller.unregister(descriptor)
        self._closing.append(sock)

    def later(self, seconds: float, owner: Owner, action: Callable[[], None]) -> Timer:
        """Do something after a time."""
        timer = Timer(self, owner, action)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._numbers), timer))
        return timer

    def soon(self, owner: Owner, action: Callable[[], None], part: object) -> None:
        """Do something in one of the next turns, after the others had theirs.

        INVARIANT: all that has the same `part`, which is the network, takes turns with each of the others:
        however many connections one sandbox has, and however much there is to read, no other waits for more
        than one of them.
        """
        self._soon.setdefault(part, deque()).append((owner, action))

    def count_connection(self) -> None:
        """One more. Where there are many, more files than programs usually have open are needed."""
        self.connections += 1
        if self.connections > self._few_connections:
            raise_limit()

    def is_late(self) -> bool:
        """Whether this turn has taken long: then work that can wait is for `soon`."""
        return time.monotonic() - self.now > _TURN_SECONDS

    def do(self, owner: Owner | None, action: Callable[[], None]) -> None:
        """Do something now, on behalf of somebody else than the caller: its errors are the owner's."""
        try:
            action()
        except Exception as problem:
            self._report(owner, problem)

    def count_cancelled(self) -> None:
        """Many timers are cancelled long before their time: they do not stay for it."""
        self._cancelled += 1
        if self._cancelled > 256 and self._cancelled > len(self._timers) // 2:
            self._timers = [entry for entry in self._timers if entry[2].action is not None]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def _run(self) -> None:
        while not self._is_stopping:
            events = self._poller.poll(self._patience(), _MOST_EVENTS)
            self.now = time.monotonic()
            for descriptor, mask in events:
                watcher = self._watched.get(descriptor)
                if watcher is not None:
                    try:
                        watcher.ready(descriptor, mask)
                    except Exception as problem:
                        self._report(watcher, problem)
            self._run_timers()
            self._run_soon()
            self._run_commands()
            self._close_all()
        with self._wake_lock:
            self._has_ended = True
        self._run_commands()  # the last ones: who called is told that it was done
        self._close_all()
        self._wake.close()
        self._poller.close()
        self.pipes.close()
        self.lookups.stop()
        self.callbacks.stop()
        give_back()

    def _room(self, descriptors: int) -> int:
        """For how many connections there are descriptors, if there are so many of these."""
        return max(_LEAST_CONNECTIONS, int(descriptors * _SHARE_OF_DESCRIPTORS) // 2 - self.pipes.most)

    def _patience(self) -> float | None:
        if self._soon or self._commands:
            return 0
        if not self._timers:
            return None
        return min(max(0.0, self._timers[0][0] - time.monotonic()), _MOST_PATIENCE_SECONDS)

    def _run_timers(self) -> None:
        while self._timers and self._timers[0][0] <= self.now:
            timer = heapq.heappop(self._timers)[2]
            action, timer.action = timer.action, None
            if action is None:
                self._cancelled -= 1
            else:
                self.do(timer.owner, action)

    def _run_soon(self) -> None:
        ends = time.monotonic() + _TURN_SECONDS
        for _ in range(sum(map(len, self._soon.values()))):  # those that come meanwhile have the next turn
            part = next(iter(self._soon))
            waiting = self._soon.pop(part)
            owner, action = waiting.popleft()
            if waiting:
                self._soon[part] = waiting  # behind all others
            self.do(owner, action)
            if time.monotonic() > ends:
                return

    def _run_commands(self) -> None:
        self._wake.settle()
        for _ in range(len(self._commands)):  # those that come meanwhile have the next turn
            owner, action = self._commands.popleft()
            self.do(owner, action)

    def _report(self, owner: Owner | None, problem: Exception) -> None:
        """INVARIANT: whatever a sandbox sends, the loop goes on; who has failed ends alone."""
        import traceback

        self.faults.append("".join(traceback.format_exception(problem)))
        del self.faults[:-_MOST_FAULTS]
        try:
            if owner is not None:
                owner.fail(problem)
        except Exception as another:
            self.faults.append(repr(another))

    def _close_all(self) -> None:
        for sock in self._closing:
            with contextlib.suppress(OSError):
                sock.close()
        self._closing.clear()

    def _stop(self) -> None:
        self._is_stopping = True


_lock = threading.Lock()
_current: Gateway | None = None
_networks = 0


def enter() -> Gateway:
    """The gateway of this process, for one more sandbox."""
    global _current, _networks  # noqa: PLW0603
    with _lock:
        if _current is None:
            _current = Gateway()
        _networks += 1
        return _current


def leave() -> None:
    """One sandbox less; the last one ends the thread."""
    global _current, _networks  # noqa: PLW0603
    with _lock:
        _networks -= 1
        if _networks == 0 and _current is not None:
            _current.stop()
            _current = None


def _leave_to_parent() -> None:
    """In a process that was forked: the thread is the parent's, and so are all networks.

    INVARIANT: no copy of a socket of theirs is held here, where nobody would ever close it.
    """
    global _lock, _current, _networks
    gateway, _lock, _current, _networks = _current, threading.Lock(), None, 0
    if gateway is not None:
        gateway.abandon()


os.register_at_fork(after_in_child=_leave_to_parent)
