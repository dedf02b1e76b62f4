"""A service manager that speaks D-Bus on a socket, for one connection at a time, and does as it is told."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from jeepney import DBusAddress, HeaderFields, MessageType, Parser, new_error, new_method_return, new_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from jeepney import Message

MANAGER = DBusAddress(
    "/org/freedesktop/systemd1", "org.freedesktop.systemd1", "org.freedesktop.systemd1.Manager"
)
JOB = "/org/freedesktop/systemd1/job/7"
OTHER_JOB = "/org/freedesktop/systemd1/job/6"
PROPERTIES = {"Version": "255 (fake)", "ControlGroup": "/user.slice/manager"}


class FakeManager:
    """Answers as systemd would; `behaviour` says for some methods what to send instead."""

    def __init__(self, path: Path) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.behaviour: dict[str, Callable[[Message], list[Message | bytes]]] = {}
        self.greeting = b""  # sent to whoever connects, before anything else
        self.is_deaf = False  # accepts, and never says a word
        path.parent.mkdir(parents=True, exist_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._client: socket.socket | None = None
        self._serials = iter(range(1, 1 << 20))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        for end in filter(None, (self._listener, self._client)):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._listener.close()

        assert not self._thread.is_alive()

    def bodies(self, member: str) -> list[Any]:
        """Arguments of each call of a method, in order."""
        return [body for name, body in self.calls if name == member]

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                self._client, _ = self._listener.accept()
                with self._client, suppress(OSError, EOFError):
                    self._handshake(self._client)

    def _handshake(self, client: socket.socket) -> None:
        client.sendall(self.greeting)
        if self.is_deaf:
            while client.recv(4096):
                pass
            return
        parser = Parser()
        parser.add_data(_authenticate(client))
        while True:
            message = parser.get_next_message()
            if message is None:
                data = client.recv(4096)
                if not data:
                    return
                parser.add_data(data)
            elif message.header.message_type is MessageType.method_call:
                for answer in self._answers(message):
                    client.sendall(
                        answer if isinstance(answer, bytes) else answer.serialise(serial=next(self._serials))
                    )

    def _answers(self, call: Message) -> list[Message | bytes]:
        member = call.header.fields[HeaderFields.member]
        self.calls.append((member, call.body))
        if member in self.behaviour:
            return self.behaviour[member](call)
        if member == "Hello":
            return [new_method_return(call, "s", (":1.7",))]
        if member == "Get":
            return [new_method_return(call, "v", (("s", PROPERTIES[call.body[1]]),))]
        if member in {"StartTransientUnit", "StopUnit"}:
            return started(call)
        if member == "AddMatch":
            return [new_method_return(call)]
        return [error(call, "org.freedesktop.DBus.Error.UnknownMethod", f"no {member} here")]


def started(call: Message) -> list[Message | bytes]:
    """The job is queued, another one ends, then this one."""
    return [
        new_method_return(call, "o", (JOB,)),
        job_removed(call, "failed", job=OTHER_JOB),
        job_removed(call, "done"),
    ]


def job_removed(call: Message, result: str, *, job: str = JOB) -> Message:
    return new_signal(MANAGER, "JobRemoved", "uoss", (7, job, call.body[0], result))


def error(call: Message, name: str, text: str) -> Message:
    return new_error(call, name, "s", (text,))


def _authenticate(client: socket.socket) -> bytes:
    """Let anyone in, see the D-Bus specification; return what came after BEGIN."""
    received = b""
    while True:
        line, found, rest = received.partition(b"\r\n")
        if not found:
            data = client.recv(4096)
            if not data:
                raise EOFError
            received += data
            continue
        received = rest
        word = line.lstrip(b"\0")
        if word == b"BEGIN":
            return received
        if word == b"AUTH EXTERNAL":
            client.sendall(b"DATA\r\n")
        elif word.startswith((b"AUTH EXTERNAL ", b"DATA")):
            client.sendall(b"OK 0123456789abcdef0123456789abcdef\r\n")
        else:
            client.sendall(b"ERROR\r\n")
