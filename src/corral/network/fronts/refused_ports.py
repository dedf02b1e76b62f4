"""Ports that no rule names: nobody listens there, so the kernel refuses, and a raw socket hears of it.

TRUST: a command without raw sockets of its own cannot make such packets; what is said here is only reported.
"""

from __future__ import annotations

import socket

from corral.network.gateway import READABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from corral.network.sandbox_network import GatewayNetwork

_TURN = 64
ENOUGH = 128
_SOURCE_4 = slice(12, 16)  # of the header of IPv4: who refuses


def read_refusal(family: int, packet: bytes, sender: Any) -> tuple[str, int]:
    """Who has refused a connection, and at which port; port 0: nobody has."""
    address, start = str(sender[0]), 0
    if family == socket.AF_INET:
        if not packet:
            return "", 0
        address, start = socket.inet_ntoa(packet[_SOURCE_4]), 4 * (packet[0] & 15)
    return address, int.from_bytes(packet[start : start + 2], "big")


class RefusedPorts:
    """Of one family. The launcher has told the kernel which packets these are (launcher/gateway.c)."""

    def __init__(self, network: GatewayNetwork, sock: socket.socket) -> None:
        self._network, self.socket = network, sock
        sock.setblocking(False)
        network.gateway.watch(sock.fileno(), self, READABLE)

    def ready(self, descriptor: int, mask: int) -> None:
        for _ in range(_TURN):
            try:
                packet, sender = self.socket.recvfrom(ENOUGH)
            except BlockingIOError:
                return
            except OSError:
                continue
            address, port = read_refusal(self.socket.family, packet, sender)
            if port:
                self._network.was_refused(address, port)

    def pause(self, *, is_paused: bool) -> None:
        """It takes no room."""

    def turn_away(self) -> None:
        """Nobody waits here."""

    def fail(self, problem: Exception) -> None:
        """Another packet may go well."""

    def close(self) -> None:
        self._network.gateway.close(self.socket)
