"""Reader: takes the payload of a record apart."""

from __future__ import annotations

from corral.linux.spec import U32

TYPE_CHECKING = False
if TYPE_CHECKING:
    import struct


class MalformedSpec(ValueError):
    """The bytes are not a spec."""


class Reader:
    """Takes values off the front of a payload; whatever is left over at the end is an error."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._at = 0

    def fixed(self, layout: struct.Struct) -> tuple[int, ...]:
        if self._at + layout.size > len(self._payload):
            raise MalformedSpec("a record is too short")
        values = layout.unpack_from(self._payload, self._at)
        self._at += layout.size
        return values

    def string(self) -> str:
        end = self._payload.find(b"\0", self._at)
        if end < 0:
            raise MalformedSpec("a string does not end")
        raw = self._payload[self._at : end]
        self._at = end + 1
        return raw.decode("utf-8", "surrogateescape")

    def blob(self) -> bytes:
        (length,) = self.fixed(U32)
        if self._at + length > len(self._payload):
            raise MalformedSpec("a blob is too short")
        raw = self._payload[self._at : self._at + length]
        self._at += length
        return raw

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._payload)

    def end(self) -> None:
        if not self.is_at_end:
            raise MalformedSpec("a record is too long")
