"""Frames between a program and the worker that runs a module for it: a length, then JSON."""

from __future__ import annotations

import json
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LENGTH = struct.Struct("<I")
#: A module itself may be larger: it goes as it is.
MOST_BYTES = 16 << 20
_MOST_LINES = 64


class FrameError(Exception):
    """The other side is gone, or says what cannot be."""


def wrong_call(code: str, why: str, trace: str = "") -> dict[str, Any]:
    """The answer for a call that did not return."""
    lines = [line for line in trace.splitlines() if line.strip()][:_MOST_LINES]
    return {"wrong": [code, why, "\n".join(lines)]}


def send(descriptor: int, value: Any) -> None:
    """Send one value. Raises OSError."""
    send_bytes(descriptor, json.dumps(value, separators=(",", ":")).encode())


def send_bytes(descriptor: int, data: bytes) -> None:
    """Send bytes as they are. Raises OSError."""
    view = memoryview(_LENGTH.pack(len(data)) + data)
    while view:
        view = view[os.write(descriptor, view) :]


def receive(descriptor: int) -> Any:
    """The next value. Raises FrameError, also when there will be none."""
    try:
        return json.loads(receive_bytes(descriptor, MOST_BYTES))
    except (ValueError, RecursionError) as problem:
        raise FrameError(str(problem)) from problem


def receive_bytes(descriptor: int, most: int) -> bytes:
    """The next frame as it is. Raises FrameError."""
    (length,) = _LENGTH.unpack(_exactly(descriptor, _LENGTH.size))
    if length > most:
        raise FrameError(f"a frame of {length} bytes")
    return _exactly(descriptor, length)


def _exactly(descriptor: int, length: int) -> bytes:
    data = os.read(descriptor, length)
    if len(data) == length:
        return data
    whole = bytearray(data)  # a module comes in hundreds of pieces
    while len(whole) < length:
        piece = os.read(descriptor, length - len(whole))
        if not piece:
            raise FrameError("the other side is gone")
        whole += piece
    return bytes(whole)
