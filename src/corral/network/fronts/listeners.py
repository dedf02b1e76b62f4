"""Listeners: the sockets in a sandbox's network by which all of its traffic arrives."""

from __future__ import annotations

import contextlib
import errno
import socket
import struct

from corral.network.gateway import READABLE
from corral.network.wire.dns import MOST_QUERY, answer_malformed, build_frame, split_frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from corral.network.gateway import Timer
    from corral.network.sandbox_network import GatewayNetwork

    _Extras = list[tuple[int, int, bytes]]

DNS_PORT = 53
#: So many of one socket, then it is somebody else's turn.
_TURN = 64
_READS_IN_TURN = 4
_SHORTAGE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_BREATH_SECONDS = 0.1
#: A client that looks up by TCP has so long for each question and for reading each answer.
_STREAM_SECONDS = 10.0
_MOST_QUESTIONS_OF_STREAM = 256
_IP_PKTINFO = 8  # Python has no name for it before 3.12
_V4, _V6 = struct.Struct("=i4s4s"), struct.Struct("=16si")


class TcpListener:
    """Accepts while the network has room."""

    def __init__(self, network: GatewayNetwork, sock: socket.socket) -> None:
        self._network, self.socket = network, sock
        self.port: int = sock.getsockname()[1]
        self._is_watching = True
        sock.setblocking(False)
        network.gateway.watch(sock.fileno(), self, READABLE)

    def ready(self, descriptor: int, mask: int) -> None:
        for _ in range(_TURN):
            if not self._network.room.is_left():
                self._network.room.rest()
                return
            try:
                client, _ = self.socket.accept()
            except BlockingIOError:
                return
            except OSError as problem:
                if problem.errno in _SHORTAGE:  # the next one would fail as well: do not spin
                    self._network.room.rest(_BREATH_SECONDS)
                    return
                continue  # this one has gone already
            self.take(client)

    def turn_away(self) -> None:
        """Nobody has gone for long: tell those who wait."""
        for _ in range(_TURN):
            try:
                client, _ = self.socket.accept()
            except OSError as problem:
                if problem.errno in _SHORTAGE:
                    self._network.room.tell_shortage(self.port)
                return
            self.dismiss(client)

    def dismiss(self, client: socket.socket) -> None:
        """There is no room for it."""
        self._network.turn_away(client, self.port)

    def take(self, client: socket.socket) -> None:
        """It belongs to the network from now on."""
        self._network.accept(client, self.port)

    def pause(self, *, is_paused: bool) -> None:
        """Leave those that come where they are: the kernel keeps some, and refuses more."""
        if self._is_watching is is_paused:
            self._is_watching = not is_paused
            self._network.gateway.change(self.socket.fileno(), 0 if is_paused else READABLE)

    def fail(self, problem: Exception) -> None:
        """Another connection may go well."""

    def close(self) -> None:
        self._network.gateway.close(self.socket)


class DnsSocket:
    """Lookups by UDP. The answer comes from the address that was asked: in a sandbox every one is ours."""

    def __init__(self, network: GatewayNetwork, sock: socket.socket) -> None:
        self._network, self.socket = network, sock
        sock.setblocking(False)
        tell_addresses(sock)
        network.gateway.watch(sock.fileno(), self, READABLE)

    def ready(self, descriptor: int, mask: int) -> None:
        for _ in range(_TURN):
            try:
                packet, extras, flags, sender = self.socket.recvmsg(MOST_QUERY, 256)
            except BlockingIOError:
                return
            except OSError:
                continue  # an earlier answer of ours has reached nobody
            source = source_of(self.socket.family, extras)
            if flags & socket.MSG_TRUNC:
                self._send(answer_malformed(packet), source, sender)
                continue
            self._network.answer(packet, self._reply_to(source, sender))

    def pause(self, *, is_paused: bool) -> None:
        """Lookups are bounded in their own way."""

    def turn_away(self) -> None:
        """They do not wait for room."""

    def fail(self, problem: Exception) -> None:
        """Another packet may go well."""

    def close(self) -> None:
        self._network.gateway.close(self.socket)

    def _reply_to(self, source: _Extras, receiver: Any) -> Callable[[bytes | None], None]:
        return lambda data: self._send(data, source, receiver)

    def _send(self, data: bytes | None, source: _Extras, receiver: Any) -> None:
        if data is None or self.socket.fileno() < 0:
            return
        with contextlib.suppress(OSError):  # nobody waits for it, or it is lost, as packets are
            self.socket.sendmsg([data], source, 0, receiver)


def tell_addresses(sock: socket.socket) -> None:
    """From now on each packet comes with the address to which it was sent."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)


def source_of(family: int, extras: _Extras) -> _Extras:
    """What to give to `sendmsg`, so that it answers from the address to which a packet came."""
    for level, kind, data in extras:
        if level == socket.IPPROTO_IPV6 and kind == socket.IPV6_PKTINFO and len(data) >= _V6.size:
            address, _ = _V6.unpack_from(data)
            return [(level, kind, _V6.pack(address, 0))]
        if level == socket.IPPROTO_IP and kind == _IP_PKTINFO and len(data) >= _V4.size:
            _, _, asked = _V4.unpack_from(data)
            if family == socket.AF_INET:
                return [(level, kind, _V4.pack(0, asked, bytes(4)))]
            mapped = _V6.pack(bytes(10) + b"\xff\xff" + asked, 0)
            return [(socket.IPPROTO_IPV6, socket.IPV6_PKTINFO, mapped)]
    return []


class DnsStream:
    """Lookups by TCP: packets with their lengths in front (RFC 1035, 4.2.2)."""

    def __init__(self, network: GatewayNetwork, sock: socket.socket) -> None:
        self._network, self._socket = network, sock
        self._received = bytearray()
        self._unsent = b""
        self._waiting = self._asked = 0
        self._is_at_end = self._is_closed = False
        self._timer: Timer | None = None

    def start(self) -> None:
        self._network.gateway.watch(self._socket.fileno(), self)
        self._restart_timer()

    def ready(self, descriptor: int, mask: int) -> None:
        self._flush()
        self._read()

    def fail(self, problem: Exception) -> None:
        self.close()

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._network.gateway.close(self._socket)
        self._network.forget(self)

    def rests_on_grants(self) -> bool:
        return True

    def _read(self) -> None:
        # Whoever does not read the answers is not read either; whoever never stops has to let others in.
        for _ in range(_READS_IN_TURN):
            if self._is_closed or self._unsent or self._is_at_end:
                return
            try:
                data = self._socket.recv(MOST_QUERY)
            except BlockingIOError:
                return
            except OSError:
                self.close()
                return
            self._received += data
            self._is_at_end = not data
            try:
                packets = split_frames(self._received)
            except ValueError:
                self.close()
                return
            for packet in packets:
                self._ask(packet)
            self._end_if_done()
        self._network.gateway.soon(self, self._read, self._network)

    def _ask(self, packet: bytes) -> None:
        self._asked += 1
        self._waiting += 1
        if self._asked > _MOST_QUESTIONS_OF_STREAM:
            self.close()
            return
        self._restart_timer()
        self._network.answer(packet, self._answer)

    def _answer(self, data: bytes | None) -> None:
        if self._is_closed:
            return
        self._waiting -= 1
        if data is not None:
            self._unsent += build_frame(data)
        self._flush()
        self._end_if_done()

    def _flush(self) -> None:
        try:
            while self._unsent and not self._is_closed:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            return
        except OSError:
            self.close()

    def _end_if_done(self) -> None:
        if self._is_at_end and not self._waiting and not self._unsent:
            self.close()

    def _restart_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._network.gateway.later(_STREAM_SECONDS, self, self.close)
