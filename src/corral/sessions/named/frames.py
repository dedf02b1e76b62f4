"""Frames: what a named session and its clients say to each other. JSON, bounded, with descriptors alongside.

A message is one packet of a SOCK_SEQPACKET socket. What does not fit into one goes into a file in memory,
whose descriptor is sent instead.
"""

from __future__ import annotations

import array
import json
import os
import socket

from corral.model.errors import CorralError, PolicyError, SetupError, UnenforceableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    Message = dict[str, Any]

VERSION = 1
#: What a request may have: arguments and variables are bounded by the kernel, at two megabytes by default.
MOST_REQUEST_BYTES = 16 * 1024 * 1024
#: A result holds what was printed, as text; see `KEPT_BYTES` of the sinks.
MOST_REPLY_BYTES = 256 * 1024 * 1024
_MOST_DESCRIPTORS = 4
_PACKET_BYTES = 32_768
_INLINE, _IN_MEMORY = b"j", b"m"


class BadFrame(Exception):
    """The other side does not speak this language."""


def send(connection: socket.socket, message: Mapping[str, Any], descriptors: Iterable[int] = ()) -> None:
    """Send a message. Raises OSError."""
    data = json.dumps(message).encode("ascii")
    given = list(descriptors)
    if len(data) < _PACKET_BYTES:
        _send(connection, _INLINE + data, given)
        return
    memory = os.memfd_create("corral-frame", os.MFD_CLOEXEC)
    try:
        with open(memory, "wb", closefd=False) as file:
            file.write(data)
        _send(connection, _IN_MEMORY, [memory, *given])
    finally:
        os.close(memory)


def _send(connection: socket.socket, packet: bytes, given: list[int]) -> None:
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", given))] if given else []
    connection.sendmsg([packet], rights)


def receive(connection: socket.socket, most_bytes: int) -> tuple[Message, list[int]] | None:
    """The next message and its descriptors, which are the caller's now; None at the end.

    Raises OSError and BadFrame; then no descriptor is left.
    """
    packet, given, is_cut = _receive(connection)
    try:
        if not packet:
            return None
        if is_cut or packet[:1] not in {_INLINE, _IN_MEMORY} or (packet[:1] == _IN_MEMORY and not given):
            raise BadFrame("a packet that is not corral's")
        data = packet[1:] if packet[:1] == _INLINE else _read_memory(given.pop(0), most_bytes)
        message = json.loads(data)
        if not isinstance(message, dict):
            raise BadFrame("a message that has no fields")
        kept, given = given, []
        return message, kept
    except (ValueError, RecursionError) as problem:
        raise BadFrame("a message that is not JSON") from problem
    finally:
        for descriptor in given:
            os.close(descriptor)


def _receive(connection: socket.socket) -> tuple[bytes, list[int], bool]:
    room = socket.CMSG_SPACE(_MOST_DESCRIPTORS * 4)
    packet, ancillary, flags, _ = connection.recvmsg(_PACKET_BYTES + 1, room, socket.MSG_CMSG_CLOEXEC)
    given: list[int] = []
    for level, kind, payload in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers = array.array("i")
            numbers.frombytes(payload[: len(payload) - len(payload) % numbers.itemsize])
            given += numbers
    return packet, given, bool(flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC))


def _read_memory(descriptor: int, most_bytes: int) -> bytes:
    with open(descriptor, "rb") as file:
        if os.fstat(descriptor).st_size > most_bytes:
            raise BadFrame("a message that is too large")
        file.seek(0)
        return file.read(most_bytes)


_KINDS = {kind.__name__: kind for kind in (CorralError, PolicyError, SetupError)}


def encode_error(error: CorralError) -> Message:
    """An error, to be raised again on the other side."""
    return {
        "kind": type(error).__name__,
        **{name: getattr(error, name) for name in ("code", "what", "why", "fix", "ran", "exit_status")},
        "reasons": list(error.reasons),
    }


def decode_error(message: Mapping[str, Any]) -> CorralError:
    """The error that the other side has met."""
    code, what, fix = (str(message.get(name, "")) for name in ("code", "what", "fix"))
    error: CorralError
    if message.get("kind") == UnenforceableError.__name__:
        reasons = tuple(map(str, message.get("reasons", ())))
        error = UnenforceableError(code, what, fix=fix, reasons=reasons)
    else:
        kind = _KINDS.get(str(message.get("kind")), CorralError)
        error = kind(code, what, why=str(message.get("why", "")), fix=fix, ran=bool(message.get("ran")))
    error.exit_status = int(message.get("exit_status", error.exit_status))
    return error
