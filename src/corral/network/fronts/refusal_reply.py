"""RefusalReply: the last words to a client whose proxy refuses, and the patience until it has read them."""

from __future__ import annotations

import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.network.gateway import Timer
    from corral.network.sandbox_network import GatewayNetwork

_SECONDS = 2.0
_CHUNK, _TURN = 64 << 10, 16


class RefusalReply:
    """A client that was refused. Closing at once would be a reset, which takes the words away from it."""

    def __init__(self, network: GatewayNetwork, client: socket.socket, words: bytes) -> None:
        self._network, self._client, self._words = network, client, words
        self._timer: Timer | None = None
        self._is_over = False

    def start(self) -> None:
        self._timer = self._network.gateway.later(_SECONDS, self, self.close)
        self._network.gateway.watch(self._client.fileno(), self)
        try:
            self._client.send(self._words)  # a few bytes into an empty buffer
            self._client.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()

    def ready(self, descriptor: int, mask: int) -> None:
        """Read away what it still says, until it has nothing more to say."""
        try:
            for _ in range(_TURN):
                if self._is_over or not self._client.recv(_CHUNK):
                    self.close()
                    return
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        self._network.gateway.soon(self, lambda: self.ready(descriptor, mask), self._network)

    def fail(self, problem: Exception) -> None:
        self.close()

    def close(self) -> None:
        """It is over. Idempotent."""
        if not self._is_over:
            self._is_over = True
            if self._timer is not None:
                self._timer.cancel()
            self._network.gateway.close(self._client)
            self._network.forget(self)
