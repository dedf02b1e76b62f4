"""Reader: takes the payload of a record apart."""

from __future__ import annotations

from corral.linux.spec import U32

TYPE_CHECKING = False
if TYPE_CHECKING:
    import struct


_DIGITS = frozenset("0123456789")
_GIVEN = frozenset(map(str, range(6, 32)))


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

    def layers(self, least: int) -> bytes:
        """What a mount has as its content, if it is an overlay: so many paths at least, each with its NUL."""
        content = self.blob()
        *paths, rest = content.split(b"\0")
        plain = all(is_plain_path(path.decode("utf-8", "surrogateescape")) for path in paths)
        if rest or len(paths) < least or not plain:
            raise MalformedSpec("the layers of an overlay are not plain")
        return content

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._payload)

    def end(self) -> None:
        if not self.is_at_end:
            raise MalformedSpec("a record is too long")


def is_plain_path(path: str) -> bool:
    """Absolute, and without empty, `.` or `..` components."""
    if path == "/":
        return True
    parts = path.split("/")
    return parts[0] == "" and len(parts) > 1 and not {"", ".", ".."} & set(parts[1:])


def is_group_path(path: str) -> bool:
    """A plain path, `@N` for a descriptor that the launcher was given, or in a group that it makes."""
    return is_plain_path(path) or is_made_path(path) or (path[:1] == "@" and path[1:] in _GIVEN)


def is_made_path(path: str) -> bool:
    """`%N`, or `%N/FILE`: a group that the launcher makes, or a file in it."""
    name = path[3:]
    if path[:1] != "%" or path[1:2] not in _DIGITS:
        return False
    return len(path) == 2 or (path[2] == "/" and bool(name) and name[0] != "." and "/" not in name)
