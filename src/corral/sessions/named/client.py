"""Client: ask a named session for something, and wait for what it says."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket

from corral.model.errors import CorralError, SetupError
from corral.sessions.named.frames import MOST_REPLY_BYTES, VERSION, BadFrame, decode_error, receive, send
from corral.sessions.named.record import RUNNING, SessionRecord, find_entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from corral.sessions.named.request import ExecRequest
    from corral.sessions.named.session_directory import SessionDirectory
    from corral.streams.terminal import TerminalStreams

    Message = dict[str, Any]

_GRACE_SECONDS = 2.0
#: For an answer that needs no command to run.
_ANSWER_SECONDS = 10.0
#: For the end of everything; a container engine takes its time.
_STOP_SECONDS = 30.0


class ClientConnection:
    """One connection to a session. `forward` may be called from a signal handler."""

    def __init__(self, place: SessionDirectory, entry: SessionRecord) -> None:
        self.entry = entry
        self._has_asked = False  # for a command, which may have run by now
        self._alarm = -1
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._connection.connect(place.address(entry.name))
        except OSError as problem:
            self._connection.close()
            raise lost(entry.name, problem.strerror or str(problem)) from problem

    @classmethod
    def of_asked(cls, name: str, descriptor: int) -> ClientConnection:
        """One over which somebody else has asked for a command; only its answer is to be heard."""
        made = cls.__new__(cls)
        made.entry = SessionRecord(name, RUNNING)
        made._has_asked, made._alarm = True, -1
        made._connection = socket.socket(fileno=descriptor)
        return made

    def close(self) -> None:
        """Be gone."""
        self._connection.close()

    def __enter__(self) -> ClientConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, operation: str, **fields: object) -> Message:
        """A question that is answered soon. Raises CorralError."""
        self._send(operation, fields)
        return self.hear()

    def ask_quickly(self, operation: str, **fields: object) -> Message | None:
        """The same, but None if there is no answer in time."""
        self._connection.settimeout(_ANSWER_SECONDS)
        try:
            return self.ask(operation, **fields)
        except CorralError:
            return None

    def ask_to_stop(self) -> bool:
        """Whether it has ended in good time."""
        self._connection.settimeout(_STOP_SECONDS)
        try:
            self.ask("stop")
        except CorralError:
            return False
        return True

    def execute(self, request: ExecRequest) -> Message:
        """Run a command on the caller's own descriptors and wait for its end. Raises CorralError."""
        self._send("exec", request.to_json(), () if request.is_detached else (0, 1, 2))
        poller = self._poller()
        while not any(descriptor == self._connection.fileno() for descriptor, _ in poller.poll()):
            self._calm()
        return self.hear()

    def execute_on(self, request: ExecRequest, streams: TerminalStreams) -> Message:
        """Run a command on a terminal of its own, which is relayed to the caller's here."""
        with streams:
            self._send("exec", request.to_json(), streams.child_ends())
            streams.close_child_ends()
            poller = self._poller()
            streams.register(poller)
            is_over = is_answered = False
            while not is_answered:
                for descriptor, _ in poller.poll():
                    if descriptor == self._connection.fileno():
                        is_answered = True
                    elif descriptor == self._alarm:
                        self._calm()
                    else:
                        streams.carry(descriptor, poller)
                if streams.is_over_limit and not is_over:
                    is_over = True
                    self._tell({"op": "over"})
            streams.drain()
            answer = self.hear()
            streams.flush(lambda idle_seconds: idle_seconds >= _GRACE_SECONDS)
            return answer

    def pass_signals(self, names: tuple[str, ...], stop: Callable[[], None]) -> None:
        """Let the command have the signals that its client gets; `stop` is for Ctrl-Z.

        One that comes right before the client begins to wait would be handled after it: so it also wakes it.
        """
        self._alarm, end = os.pipe()
        os.set_blocking(self._alarm, False)
        os.set_blocking(end, False)
        signal.set_wakeup_fd(end, warn_on_full_buffer=False)
        for name in names:
            signal.signal(getattr(signal, name), lambda number, _frame: self.forward(number))
        signal.signal(signal.SIGTSTP, lambda *_: stop())

    def _poller(self) -> select.poll:
        poller = select.poll()
        poller.register(self._connection, select.POLLIN)
        if self._alarm >= 0:
            poller.register(self._alarm, select.POLLIN)
        return poller

    def _calm(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._alarm, 4096)

    def forward(self, number: int) -> None:
        """Pass a signal on to the command."""
        self._tell({"op": "signal", "number": int(number)})

    def _tell(self, message: Message) -> None:
        with contextlib.suppress(OSError):
            send(self._connection, message)

    def _send(self, operation: str, fields: Message, descriptors: tuple[int, ...] = ()) -> None:
        message = {**fields, "v": VERSION, "token": self.entry.token, "op": operation}
        try:
            send(self._connection, message, descriptors)
        except OSError as problem:
            raise lost(self.entry.name, problem.strerror or str(problem)) from problem
        self._has_asked = operation == "exec"

    def hear(self) -> Message:
        """The answer. Raises CorralError, also for one that says that there was an error."""
        try:
            received = receive(self._connection, MOST_REPLY_BYTES)
        except (OSError, BadFrame) as problem:
            raise lost(self.entry.name, str(problem), ran=self._has_asked) from problem
        if received is None:
            why = "its process went away without an answer"
            raise lost(self.entry.name, why, ran=self._has_asked)
        message = received[0]
        if message.get("is") == "error":
            raise decode_error(message)
        return message


def call(name: str) -> ClientConnection:
    """Connect to a session that runs. Raises SetupError."""
    found = find_entry(name)
    if found is None:
        raise no_session(name)
    place, entry = found
    if not entry.is_living or not entry.token:
        raise _not_running(entry)
    return ClientConnection(place, entry)


def stop(name: str) -> None:
    """End a session; returns when its process is gone, and all else with it. Raises CorralError."""
    with call(name) as connection:
        process = os.pidfd_open(connection.entry.pid)
        try:
            if not connection.ask_to_stop() or not select.select([process], [], [], _STOP_SECONDS)[0]:
                # The sandbox ends when its process does, however that ends: by the lifeline.
                signal.pidfd_send_signal(process, signal.SIGKILL)
                select.select([process], [], [], _STOP_SECONDS)
        finally:
            os.close(process)


def no_session(name: str) -> SetupError:
    """Nobody has started it."""
    return SetupError(
        "no-session",
        f"there is no session {name}",
        why="none was started under this name, or it has been cleared away",
        fix=f"start it with `corral session start {name}`; `corral session list` has those that there are",
    )


def _not_running(entry: SessionRecord) -> SetupError:
    why = entry.reason or "it has not started yet"
    return SetupError(
        "session-not-running",
        f"the session {entry.name} is not running ({entry.state})",
        why=why,
        fix=f"start it with `corral session start {entry.name}`; `corral session logs` says more",
    )


def lost(name: str, why: str, *, ran: bool = False) -> SetupError:
    """The process of a session is there no more, or does not answer. What it ran has ended with it."""
    return SetupError(
        "session-unreachable",
        f"the session {name} does not answer",
        why=why,
        fix=f"look at `corral session status {name}`, and start it again",
        ran=ran,
    )
