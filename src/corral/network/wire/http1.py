"""Watch what a client sends over a plain HTTP/1 connection: every request has to be for the permitted host.

Nothing is answered, and one thing is changed: an offer to speak another protocol than WebSocket is taken out
of a head (clients offer HTTP/2 without being asked, and go on without it). Heads are held until they are
complete and have been read; the bytes of bodies pass as they come, in whole slices. Pure.

    watch = RequestWatch("example.com", 80)
    upstream.send(watch.feed(client.recv()))          # raises Mismatch: end the connection
    if watch.sees_answer:                             # does the server change the protocol?
        upstream.send(watch.answered(data))           # all that comes from the server, which passes anyway
    if watch.is_opaque: ...                           # nobody needs to look any more, in either direction
"""

from __future__ import annotations

from enum import Enum

from corral.model.network.traffic import NetReason
from corral.network.wire.http_head import Mismatch, check_beginning, check_trailer, read_head, without_offer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MOST_HEAD", "Mismatch", "RequestWatch"]

#: Of a head, of the trailer of a body, and of what is held while a server has not answered.
MOST_HEAD = 64 * 1024
#: Hexadecimal. More than any body has, and less than any server's number holds.
_MOST_SIZE_DIGITS = 15
_HEX_DIGITS = b"0123456789abcdefABCDEF"
_SWITCHING = 101
_LINE_END, _HEAD_END = b"\r\n", b"\r\n\r\n"
#: `HTTP/1.1 101`: the beginning of a status line, up to its code.
_STATUS_LENGTH = 12


class _Part(Enum):
    """What the next byte belongs to."""

    HEAD = "head"
    BODY = "body"
    CHUNK_SIZE = "chunk-size"
    CHUNK_BODY = "chunk-body"
    CHUNK_END = "chunk-end"
    TRAILER = "trailer"
    OPAQUE = "opaque"


class RequestWatch:
    """One connection, from the client's side."""

    def __init__(self, host: str, port: int) -> None:
        """`host` is canonical: the name, or the address, that the connection is permitted for."""
        self._host, self._port = host, port
        self._part = _Part.HEAD
        self._held = bytearray()  # what may not pass yet
        self._searched = 0  # bytes of it in which no end was found
        self._left = 0  # bytes of the body, or of the chunk, that are still to come
        self._requests = 0
        self._answer = bytearray()
        self._failed: Mismatch | None = None
        self.awaits_answer = False  # to a WebSocket: what comes after it is held until then
        self.sees_answer = False  # show me what the server says, by `answered`

    @property
    def is_opaque(self) -> bool:
        """The server has agreed to another protocol: all bytes pass from now on."""
        return self._part is _Part.OPAQUE

    @property
    def body_left(self) -> int:
        """So many bytes to come are a body's, and pass whatever they are; see `skip`."""
        is_body = self._part is _Part.BODY or self._part is _Part.CHUNK_BODY
        return self._left if is_body and not self._held else 0

    def skip(self, count: int) -> None:
        """Bytes of a body have passed without being shown; no more than `body_left` of them."""
        if count > self.body_left:
            raise ValueError(f"{count} bytes, of {self.body_left} that may pass unseen")
        self._take_body(count)

    def feed(self, data: bytes) -> bytes:
        """Bytes from the client. Returns what may pass now; the rest is kept, and comes out later.

        Raises Mismatch, now and ever after; then nothing that was not returned may pass.
        """
        if self._failed is not None:
            raise self._failed
        if self.is_opaque:
            return data
        if 0 < len(data) <= self.body_left:
            self._take_body(len(data))
            return data
        self._held += data
        return self._attempt(self._release)

    def answered(self, data: bytes) -> bytes:
        """Bytes from the server, while `sees_answer`. Returns what of the client's may pass now.

        To a WebSocket, no more than `MOST_HEAD` bytes beyond the request are kept until then: let the client
        wait. Raises Mismatch if the server changes to a protocol that nobody has asked for. Where requests
        overlap, the beginning of an answer may go unseen; then the client's next byte is still a request's.
        """
        if self._failed is not None:
            raise self._failed
        if not self.sees_answer:
            return b""
        self._answer += data
        return self._attempt(self._take_answer)

    def _attempt(self, step: Callable[[], bytes]) -> bytes:
        try:
            return step()
        except Mismatch as mismatch:
            self._failed = mismatch
            self._held.clear()
            raise

    def _take_answer(self) -> bytes:
        status = self._read_status()
        if status is None:
            return b""
        self._answer.clear()
        was_asked, self.awaits_answer, self.sees_answer = self.awaits_answer, False, False
        if status != _SWITCHING:
            return self._release() if was_asked else b""
        if not was_asked:
            raise Mismatch(NetReason.NOT_HTTP, "the server switches to a protocol that was not requested")
        return self._become_opaque()

    def _release(self) -> bytes:
        """What of the held bytes may pass."""
        end = self._advance()
        passing = bytes(self._held[:end])
        del self._held[:end]
        return passing

    def _advance(self) -> int:
        """Read on as far as there is something to read; where that ends."""
        position = 0
        while position < len(self._held):
            start = position
            if self._part is _Part.HEAD:
                position = self._read_request(start)
            elif self._part is _Part.BODY or self._part is _Part.CHUNK_BODY:
                position += self._take_body(min(self._left, len(self._held) - start))
            elif self._part is _Part.CHUNK_SIZE:
                position = self._read_chunk_size(start)
            elif self._part is _Part.CHUNK_END:
                position = self._read_chunk_end(start)
            else:
                position = self._read_trailer(start)
            if position == start:
                break
        return position

    def _take_body(self, count: int) -> int:
        self._left -= count
        if not self._left:
            self._part = _Part.HEAD if self._part is _Part.BODY else _Part.CHUNK_END
        return count

    def _read_request(self, start: int) -> int:
        if self.awaits_answer:  # whether this is a request at all, the server decides
            if len(self._held) - start > MOST_HEAD:
                raise Mismatch(NetReason.NOT_HTTP, "too much sent before the server has answered")
            return start
        head = self._find(start, _HEAD_END)
        if head is None:
            check_beginning(bytes(self._held[start : start + 64]))
            return start
        framing = read_head(head, self._host, self._port)
        if framing.is_websocket:
            if self._requests:  # which answer would be the one to it?
                raise Mismatch(NetReason.NOT_HTTP, "another protocol in the midst of requests")
            self.awaits_answer = True
        if framing.has_offer:
            offered, head = len(head), without_offer(head)
            self._held[start : start + offered] = head
        self.sees_answer = True
        self._requests += 1
        self._left = framing.length
        if framing.is_chunked:
            self._part = _Part.CHUNK_SIZE
        elif framing.length:
            self._part = _Part.BODY
        return start + len(head) + len(_HEAD_END)

    def _read_chunk_size(self, start: int) -> int:
        """`1f`, and the end of the line: no extensions, about whose end servers have differed."""
        end = self._held.find(_LINE_END, start, start + _MOST_SIZE_DIGITS + len(_LINE_END))
        digits = bytes(self._held[start : end if end >= 0 else start + _MOST_SIZE_DIGITS + 1])
        if end < 0:
            digits = digits.removesuffix(b"\r")
        if digits.translate(None, _HEX_DIGITS) or len(digits) > _MOST_SIZE_DIGITS or end == start:
            raise Mismatch(NetReason.NOT_HTTP, "a chunk without a size")
        if end < 0:
            return start
        self._left = int(digits, 16)
        self._part = _Part.CHUNK_BODY if self._left else _Part.TRAILER
        # The end of this line is the beginning of the search for the end of the trailer.
        return end + len(_LINE_END) if self._left else end

    def _read_chunk_end(self, start: int) -> int:
        found = self._held[start : start + len(_LINE_END)]
        if not _LINE_END.startswith(found):
            raise Mismatch(NetReason.NOT_HTTP, "a chunk that is longer than its size")
        if len(found) < len(_LINE_END):
            return start
        self._part = _Part.CHUNK_SIZE
        return start + len(_LINE_END)

    def _read_trailer(self, start: int) -> int:
        """From the end of the last chunk's line to an empty line."""
        trailer = self._find(start, _HEAD_END)
        if trailer is None:
            return start
        check_trailer(trailer.split(_LINE_END)[1:])
        self._part = _Part.HEAD
        return start + len(trailer) + len(_HEAD_END)

    def _find(self, start: int, ending: bytes) -> bytes | None:
        """What stands before the ending; None until it is there. Each byte is searched once."""
        searched = max(start, self._searched)
        end = self._held.find(ending, max(start, searched - len(ending) + 1))
        if end >= 0 and end - start <= MOST_HEAD:
            self._searched = 0
            return bytes(self._held[start:end])
        if len(self._held) - start > MOST_HEAD:
            raise Mismatch(NetReason.NOT_HTTP, f"a head of more than {MOST_HEAD} bytes")
        self._check_lines(searched, start)
        # What stands before `start` passes now, and is gone from what is held.
        self._searched = len(self._held) - start
        return None

    def _check_lines(self, searched: int, start: int) -> None:
        """Whoever ends lines in another way would be waited for in vain."""
        if searched > start and self._held[searched - 1] == _LINE_END[0]:
            searched -= 1
        if self._held.count(b"\n", searched) != self._held.count(_LINE_END, searched):
            raise Mismatch(NetReason.NOT_HTTP, "a line that ends with a line feed alone")

    def _read_status(self) -> int | None:
        """The status that a server has answered with; None until it is known."""
        while len(self._answer) >= _STATUS_LENGTH:
            digits = self._answer[_STATUS_LENGTH - 3 : _STATUS_LENGTH]
            if not self._answer.startswith((b"HTTP/1.1 ", b"HTTP/1.0 ")) or not digits.isdigit():
                return 0  # whatever it is, it agrees to nothing
            status = int(digits)
            if status // 100 != 1 or status == _SWITCHING:
                return status
            # One on the way, such as 100: the next one may be the answer.
            end = self._answer.find(_HEAD_END)
            if end < 0:
                return 0 if len(self._answer) > MOST_HEAD else None
            del self._answer[: end + len(_HEAD_END)]
        return None

    def _become_opaque(self) -> bytes:
        self._part = _Part.OPAQUE
        passing = bytes(self._held)
        self._held = bytearray()
        return passing
