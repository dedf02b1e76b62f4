"""Service: one client of a named session, from its request to the last word."""

from __future__ import annotations

import contextlib
import hmac
import os
import signal
import socket
import struct
import threading
import time

from corral.model.errors import BugError, CorralError, PolicyError
from corral.sessions.named.frames import (
    MOST_REQUEST_BYTES,
    VERSION,
    BadFrame,
    encode_error,
    receive,
    send,
)
from corral.sessions.named.request import ExecRequest, read_request
from corral.sessions.named.running import Running
from corral.streams.destinations import Destinations
from corral.streams.streams import GivenStreams, PipedStreams, RelayedStreams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from corral.model.result import Result
    from corral.runtime.launcher.job import Job
    from corral.sessions.named.keeper import Keeper
    from corral.sessions.session import Session
    from corral.streams.streams import InheritedStreams

_CREDENTIALS = struct.Struct("3i")
#: To say what it wants; a command may take as long as it likes afterwards.
_REQUEST_SECONDS = 10.0
_SIGNALS = frozenset(
    getattr(signal, f"SIG{name}").value
    for name in ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "WINCH", "CONT", "TSTP")
)


class Service:
    """Serves one connection, in a thread of its own."""

    def __init__(self, keeper: Keeper, connection: socket.socket) -> None:
        self._keeper = keeper
        self._connection = connection

    def serve(self) -> None:
        """Read the request, do it, answer."""
        with self._connection:
            if not self._is_own_user():
                return
            self._connection.settimeout(_REQUEST_SECONDS)
            try:
                received = receive(self._connection, MOST_REQUEST_BYTES)
            except (OSError, BadFrame):
                return
            if received is None:
                return
            self._connection.settimeout(None)
            message, descriptors = received
            try:
                self._answer(message, descriptors)
            except CorralError as error:
                self._reply({"is": "error", **encode_error(error)})
            except Exception as problem:
                bug = BugError("internal error in the session", why=f"{type(problem).__name__}: {problem}")
                self._keeper.log.note(f"{bug.what}: {bug.why}")
                self._reply({"is": "error", **encode_error(bug)})
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
                with contextlib.suppress(OSError):
                    self._connection.shutdown(socket.SHUT_RDWR)  # to close it would not wake the listener

    def _is_own_user(self) -> bool:
        # TRUST: root is no exception; it can become the user, and has sessions of its own.
        raw = self._connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _ = _CREDENTIALS.unpack(raw)
        if uid != os.geteuid():
            self._keeper.log.note(f"refused a connection of user {uid}")
            return False
        # TRUST: a command could read the record if its run knew another runtime directory than this one's.
        if not _is_in_own_namespace(pid):
            self._keeper.log.note(f"refused a connection from inside a sandbox, by process {pid}")
            return False
        return True

    def _answer(self, message: dict[str, Any], descriptors: list[int]) -> None:
        # TRUST: a command that could connect but not read the record does not know the token.
        if not hmac.compare_digest(str(message.get("token", "")), self._keeper.entry.token):
            self._keeper.log.note("refused a connection without the session's token")
            return
        if message.get("v") != VERSION:
            raise _other_version(message.get("v"))
        operation = message.get("op")
        if operation == "exec":
            self._execute(read_request(message), descriptors)
        elif operation == "status":
            recent = self._keeper.recent.since(message["since"]) if "since" in message else {}
            self._reply({"is": "status", **self._status(), **recent})
        elif operation == "stop":
            self._keeper.tally.wait_here()
            self._keeper.stop(str(message.get("reason") or "stopped by request"))
            self._keeper.over.wait()
            self._reply({"is": "done"})
        elif operation == "reset":
            self._keeper.reset()
            self._reply({"is": "done"})
        elif operation == "terms":
            self._reply({"is": "terms", "terms": self._keeper.terms})
        elif operation in {"allow", "revoke", "network"}:
            self._reply({"is": "network", **self._network(str(operation), message)})
        elif operation == "signal":
            self._signal(str(message.get("id", "")), message.get("number"))
        else:
            raise _other_version(operation)

    def _reply(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # nobody is there any more to hear it
            send(self._connection, message)

    def _status(self) -> dict[str, Any]:
        tally = self._keeper.tally
        try:
            usage = self._keeper.usage()
        except CorralError:  # it is ending at this moment
            usage = None
        return {
            "commands": tally.count,
            "running": [running.to_json() for running in tally.running],
            "idle_for": 0.0 if tally.running else round(time.monotonic() - tally.last, 3),
            "usage": None if usage is None else usage.to_json(),
        }

    def _network(self, operation: str, message: dict[str, Any]) -> dict[str, Any]:
        """Who may be reached from now on, by the rules that the policy's own hosts are read by."""
        network, host, seconds = self._keeper.network(), str(message.get("host", "")), message.get("seconds")
        if operation == "allow":
            network.allow(host, for_seconds=None if seconds is None else float(seconds))
            self._keeper.log.note(f"allowed {host}" + (f" for {seconds:g} s" if seconds else ""))
        elif operation == "revoke":
            network.revoke(host)
            self._keeper.log.note(f"revoked {host}")
        changes = network.changes()
        return {
            "permitted": network.permitted(),
            "allowed": changes.allowed,
            "revoked": changes.revoked,
            "traffic": network.traffic().to_json(),
        }

    def _signal(self, key: str, number: object) -> None:
        running = self._keeper.tally.find(key)
        if running is None:
            raise PolicyError(
                "no-such-command",
                f"no command {key[:40]!r} runs in the session",
                why="it has ended, or there never was one",
                fix="`corral session status` lists what runs",
            )
        if number == signal.SIGKILL:
            running.job.kill()
        elif number in _SIGNALS:
            running.job.send(int(str(number)))
        self._reply({"is": "done"})

    def _execute(self, request: ExecRequest, descriptors: list[int]) -> None:
        if request.is_detached:
            started = threading.Event()
            failure: list[CorralError] = []
            self._keeper.spawn(lambda: self._run_detached(request, started, failure))
            started.wait()
            if failure:
                raise failure[0]
            return
        if len(descriptors) != 3:
            raise _other_version("exec without its streams")
        with self._keeper.session() as session:
            result, lines = self._run(session, request, descriptors)
        reply = {"is": "done", "exit_status": result.exit_status, "lines": lines}
        self._reply({**reply, "result": result.to_json()} if request.captures else reply)

    def _run(
        self, session: Session, request: ExecRequest, descriptors: list[int]
    ) -> tuple[Result, list[str]]:
        streams = _streams(session, request, descriptors)
        plain = contextlib.nullcontext(request.argv)
        with session.turn(request.command, env=request.env) if request.is_stateful else plain as argv:
            try:
                job = session.prepare_on(
                    streams,
                    argv,
                    cwd=request.directory(self._keeper.entry.workspace),
                    env=request.env,
                    timeout=request.timeout,
                    terminal=request.terminal,
                )
            except BaseException:
                streams.close()
                raise
            listener = threading.Thread(target=self._listen, args=(job, streams), daemon=True)
            listener.start()
            result = self._carry_out(session, request, job)
        return result, self._keeper.describe(result, request.command, request.is_verbose)

    def _listen(self, job: Job, streams: InheritedStreams) -> None:
        """Pass on what the client says; one that says no more is gone, and its command with it."""
        while True:
            try:
                received = receive(self._connection, MOST_REQUEST_BYTES)
            except (OSError, BadFrame):
                received = None
            if received is None:
                break
            message, descriptors = received
            for descriptor in descriptors:
                os.close(descriptor)
            if message.get("op") == "signal" and message.get("number") in _SIGNALS:
                job.send(message["number"])
            elif message.get("op") == "over":  # the client relays a terminal, and has counted
                streams.is_over_limit = True
                job.kill()
        job.kill()

    def _carry_out(
        self,
        session: Session,
        request: ExecRequest,
        job: Job,
        *,
        label: list[str] | None = None,
        started: threading.Event | None = None,
    ) -> Result:
        running = Running(request.shown, job, is_detached=request.is_detached)
        keeper = self._keeper
        if label is not None:
            label.append(running.id)
        job.listen(keeper.recent.listener(running.id))
        keeper.log.note(f"{running.id} began: {running.text}")
        keeper.tally.begin(running)
        if started is not None:
            self._reply({"is": "started", "id": running.id})
            started.set()
        try:
            result = session.finish(job)
        except CorralError as error:
            keeper.log.note(f"{running.id} did not run: {error.what}: {error.why}")
            raise
        finally:
            keeper.tally.end(running)
        keeper.log.finish(running.id)
        keeper.log.note(f"{running.id} ended: {result.describe()} after {result.duration_seconds:.3f} s")
        return result

    def _run_detached(
        self, request: ExecRequest, started: threading.Event, failure: list[CorralError]
    ) -> None:
        """Run it to its end, whoever stays; its output goes to the log."""
        try:
            with self._keeper.session() as session:
                label: list[str] = []
                output = Destinations(lambda _, piece: self._keeper.log.take(label[0], piece), None, None)
                streams = PipedStreams(session.output_bytes, b"", output)
                job = session.prepare_on(
                    streams,
                    request.argv,
                    cwd=request.directory(self._keeper.entry.workspace),
                    env=request.env,
                    timeout=request.timeout,
                    is_background=True,
                )
                self._carry_out(session, request, job, label=label, started=started)
        except CorralError as error:
            failure.append(error)
        finally:
            started.set()


def _streams(session: Session, request: ExecRequest, descriptors: list[int]) -> InheritedStreams:
    """The client's own descriptors, as directly as the policy permits."""
    stdin, stdout, stderr = descriptors
    limit, doors = session.output_bytes, session.doors
    if request.captures:
        return PipedStreams(limit, None, inherited=stdin, doors=doors)
    if request.terminal:
        limit = None
    if limit is not None or doors.among(descriptors):
        return RelayedStreams(limit, (stdin, stdout, stderr), doors)
    descriptors.clear()
    return GivenStreams((stdin, stdout, stderr))


def _other_version(said: object) -> PolicyError:
    return PolicyError(
        "session-version",
        "the session does not understand this corral",
        why=f"it speaks version {VERSION} of its language and was asked for {str(said)[:40]!r}",
        fix="stop it with the corral that started it (`kill` its process otherwise), and start it again",
    )


def _is_in_own_namespace(pid: int) -> bool:
    """Whether a process is on the host, as this one is; not if it has ended."""
    try:
        return os.path.samestat(os.stat(f"/proc/{pid}/ns/user"), os.stat("/proc/self/ns/user"))
    except OSError:
        return False
