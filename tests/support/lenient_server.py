"""How servers that forgive this or that read a stream of HTTP/1 requests: who is asked, and how often.

No server is all of them at once. Each reader forgives some mistakes of some real servers; a stream that all
of them read alike can be read in one way only.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_SPACE = b" \t\x0b\x0c"


@dataclass(frozen=True)
class Reader:
    """What one server forgives, and which of two contradicting fields it believes."""

    takes_line_feed: bool  # alone as the end of a line
    takes_return: bool  # alone, too
    takes_last: bool  # of two fields with the same name; else the first
    prefers_length: bool  # to a transfer coding; else the other way round
    takes_underscore: bool  # for a dash
    unfolds: bool  # a line that begins with a blank belongs to the one before; else it is a field itself
    takes_trailer: bool  # a field after the body counts as one of the head
    ends_at_zero: bool  # a NUL ends a value

    def requests(self, stream: bytes) -> Iterator[bytes]:
        """The host of each request. Ends where there is no request any more."""
        while stream := stream.lstrip(b"\r\n"):
            head, stream = self._lines(stream)
            fields = self._fields(head[1:])
            target = head[0].split()[1:2]
            body_end = self._body_end(fields)
            if body_end is None:
                trailer, stream = self._chunks(stream)
                if self.takes_trailer:
                    fields += self._fields(trailer)
            else:
                stream = stream[body_end:]
            yield self._host(target, self._pick(fields, b"host"))

    def _line_end(self) -> bytes:
        ends = [b"\r\n", *([b"\n"] if self.takes_line_feed else []), *([b"\r"] if self.takes_return else [])]
        return b"|".join(ends)

    def _lines(self, stream: bytes) -> tuple[list[bytes], bytes]:
        """The lines until an empty one, and what comes after that."""
        lines = []
        while stream:
            line, stream = self._one_line(stream)
            if not line:
                break
            lines.append(line)
        return lines, stream

    def _fields(self, lines: list[bytes]) -> list[tuple[bytes, bytes]]:
        fields: list[tuple[bytes, bytes]] = []
        for line in lines:
            if line[:1] in {b" ", b"\t"} and fields and self.unfolds:
                fields[-1] = (fields[-1][0], fields[-1][1] + b" " + line.strip(_SPACE))
                continue
            name, _, value = line.partition(b":")
            name = name.strip(_SPACE + b"\x00").lower()
            if self.takes_underscore:
                name = name.replace(b"_", b"-")
            if self.ends_at_zero:
                value = value.partition(b"\x00")[0]
            fields.append((name, value.strip(_SPACE + b"\x00")))
        return fields

    def _pick(self, fields: list[tuple[bytes, bytes]], wanted: bytes) -> bytes | None:
        found = [value for name, value in fields if name == wanted]
        return found[-1 if self.takes_last else 0] if found else None

    def _body_end(self, fields: list[tuple[bytes, bytes]]) -> int | None:
        """The length of the body; None: it is chunked."""
        length, coding = self._pick(fields, b"content-length"), self._pick(fields, b"transfer-encoding")
        digits = re.search(rb"\d+", length or b"")
        is_chunked = coding is not None and b"chunked" in coding.lower()
        if is_chunked and not (self.prefers_length and digits):
            return None
        return int(digits[0]) if digits else 0

    def _chunks(self, stream: bytes) -> tuple[list[bytes], bytes]:
        """The trailer, and what comes after it."""
        while True:
            line, stream = self._one_line(stream)
            size = re.match(rb"[ \t]*(?:0x)?([0-9a-fA-F]+)", line)
            if size is None or not int(size[1], 16):
                return self._lines(stream)
            stream = stream[int(size[1], 16) :]
            end = re.match(self._line_end(), stream)
            stream = stream[end.end() :] if end else stream

    def _one_line(self, stream: bytes) -> tuple[bytes, bytes]:
        end = re.search(self._line_end(), stream)
        return (stream[: end.start()], stream[end.end() :]) if end else (stream, b"")

    def _host(self, target: list[bytes], host: bytes | None) -> bytes:
        absolute = re.match(rb"(?i)https?://([^/]*)", target[0] if target else b"")
        seen = absolute[1] if absolute else host or b""
        return seen.rpartition(b"@")[2].partition(b":")[0].lower().removesuffix(b".")


#: All combinations of what can be forgiven.
READERS = [Reader(*choice) for choice in itertools.product((False, True), repeat=8)]
