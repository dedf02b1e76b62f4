"""Names over the wire, by hand: questions, answers, and name servers that keep every question."""

from __future__ import annotations

import socket
import struct

from support.net_servers import TcpSink, UdpSink

A, TXT, AAAA = 1, 16, 28
NO_ERROR, NO_SUCH_NAME = 0, 3


def build_question(name: str, kind: int = A, number: int = 4711) -> bytes:
    """A plain question, recursion desired."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label)
    return struct.pack(">HHHHHH", number, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1)


def read_question(packet: bytes) -> tuple[str, int]:
    """The name, in lower case, and the kind of record that is asked for."""
    labels, at = [], 12
    while size := packet[at]:
        labels.append(packet[at + 1 : at + 1 + size].decode("latin-1"))
        at += 1 + size
    return ".".join(labels).lower(), struct.unpack_from(">H", packet, at + 1)[0]


def read_answer(packet: bytes) -> tuple[int, list[str]]:
    """The status, and the addresses (A and AAAA)."""
    _, flags, questions, answers, _, _ = struct.unpack_from(">HHHHHH", packet)
    at = 12
    for _ in range(questions):
        at = _skip_name(packet, at) + 4
    addresses = []
    for _ in range(answers):
        at = _skip_name(packet, at)
        kind, _, _, size = struct.unpack_from(">HHIH", packet, at)
        data = packet[at + 10 : at + 10 + size]
        at += 10 + size
        if kind in {A, AAAA}:
            addresses.append(socket.inet_ntop(socket.AF_INET if kind == A else socket.AF_INET6, data))
    return flags & 15, addresses


def _skip_name(packet: bytes, at: int) -> int:
    while size := packet[at]:
        if size >= 0xC0:
            return at + 2
        at += 1 + size
    return at + 1


def build_answer(question: bytes, address: str) -> bytes:
    """The name is at `address`; other kinds of records have nothing."""
    name, kind = read_question(question)
    end = 12 + len(name) + 2 + 4
    record = b""
    if kind == (AAAA if ":" in address else A):
        packed = socket.inet_pton(socket.AF_INET6 if kind == AAAA else socket.AF_INET, address)
        record = struct.pack(">HHHIH", 0xC00C, kind, 1, 0, len(packed)) + packed
    head = question[:2] + struct.pack(">HHHHH", 0x8180, 1, 1 if record else 0, 0, 0)
    return head + question[12:end] + record


class NameServer(UdpSink):
    """Says where names are: those that are in `addresses` there, all others at loopback."""

    def __init__(
        self, address: str = "127.0.0.1", port: int = 0, addresses: dict[str, str] | None = None
    ) -> None:
        super().__init__(address, port)
        self._addresses = addresses or {}

    def answer(self, packet: bytes) -> bytes | None:
        return build_answer(packet, self._addresses.get(read_question(packet)[0], "127.0.0.1"))

    @property
    def names(self) -> list[str]:
        """Every name that was asked for, in order."""
        self.settle()
        return [read_question(packet)[0] for packet in self.received]


class TcpNameServer(TcpSink):
    """The same over TCP, one question for each connection."""

    answers_with = "127.0.0.1"

    def serve(self, connection: socket.socket) -> None:
        head = connection.recv(2, socket.MSG_WAITALL)
        if len(head) == 2:
            question = connection.recv(int.from_bytes(head), socket.MSG_WAITALL)
            self._record(question)
            answer = build_answer(question, self.answers_with)
            connection.sendall(struct.pack(">H", len(answer)) + answer)
