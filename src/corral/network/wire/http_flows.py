"""Flows of a plain HTTP connection: each request is looked at, the bodies and the answers pass unseen."""

from __future__ import annotations

from corral.model.network.traffic import NetReason
from corral.network.relay import Flow
from corral.network.wire.first_bytes import Refused
from corral.network.wire.http1 import Mismatch, RequestWatch

_CHUNK = 64 << 10
#: Of what is looked at: there can be thousands of chunks of a body in it, or hundreds of requests.
LOOK_CHUNK = 16 << 10
#: Longer bodies go through a pipe.
_WORTH_A_PIPE = 16 << 10


class HttpHead:
    """The first head of a connection; afterwards its watch goes on with the flow."""

    __slots__ = ("_others", "_port", "_seen", "passing", "watch")

    def __init__(self, hosts: tuple[str, ...], port: int) -> None:
        self.watch = RequestWatch(hosts[0], port)
        self._others, self._port = hosts[1:], port
        self._seen = self.passing = b""

    @property
    def came(self) -> int:
        """Bytes that the client has sent until now."""
        return len(self._seen)

    def accepts(self, data: bytes) -> bool:
        """Whether the first head is complete and good. Raises Refused."""
        self._seen += data
        try:
            self.passing = self.watch.feed(data)
        except Mismatch as mismatch:
            if mismatch.reason is not NetReason.OTHER_NAME or not self._others:
                raise Refused(mismatch.reason, mismatch.detail) from None
            # The host has another name as well: this one, then, has to be in all requests.
            again = HttpHead(self._others, self._port)
            is_good = again.accepts(self._seen)
            self.watch, self.passing, self._others = again.watch, again.passing, again._others
            return is_good
        return bool(self.passing)


class RequestFlow(Flow):
    """From the client to the server."""

    __slots__ = ("_watch",)

    _watch: RequestWatch

    def watch_by(self, watch: RequestWatch) -> None:
        self._watch = watch

    def release_held(self, data: bytes) -> None:
        """What was held until the server had answered. It was counted when it came."""
        self._ahead += data

    def _fill(self, wanted: int) -> int:
        watch = self._watch
        if watch.is_opaque:
            return super()._fill(wanted)
        if watch.body_left >= _WORTH_A_PIPE:
            moved = super()._fill(min(wanted, watch.body_left))
            if moved > 0:
                watch.skip(moved)
            return moved
        data = self._receive(min(wanted, LOOK_CHUNK))
        if data:
            try:
                self._ahead = watch.feed(data)
            except Mismatch as mismatch:
                raise Refused(mismatch.reason, mismatch.detail) from None
        return -1 if data is None else len(data)


class ResponseFlow(Flow):
    """From the server to the client. The beginning of an answer is looked at: it may change the protocol."""

    __slots__ = ("_requests",)

    _requests: RequestFlow

    def answer_to(self, requests: RequestFlow) -> None:
        self._requests = requests

    def _fill(self, wanted: int) -> int:
        if not self._requests._watch.sees_answer:
            return super()._fill(wanted)
        data = self._receive(min(wanted, _CHUNK))
        if data:
            self._ahead = data
            try:
                self._requests.release_held(self._requests._watch.answered(data))
            except Mismatch as mismatch:
                raise Refused(mismatch.reason, mismatch.detail) from None
        return -1 if data is None else len(data)
