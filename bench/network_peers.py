"""The two other sides of the gateway, in processes of their own: a server, and a client that measures.

`python bench/network_peers.py server` prints its port. `... client WHAT ROUNDS DIRECT VIA PORT NAME` prints
what it found, as JSON.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import ssl
import struct
import sys
import threading
import time

from timing import Row, take_turns

MEGABYTE = 1_000_000
DIRECT, VIA, NAMED, TLS = "direct connection", "through the gateway", "with a lookup", "with a TLS hello"
#: Of streams: the bytes come from the server, or go there.
DOWN, UP = ("direct, down", "gateway, down"), ("direct, up", "gateway, up")
_SECONDS = 60.0


def serve() -> None:
    """Sends or takes as many bytes as a client says, by eight bytes; one byte back for anything else."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    print(listener.getsockname()[1], flush=True)
    block = memoryview(bytes(MEGABYTE))
    while True:
        client, _ = listener.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_serve_one, args=(client, block), daemon=True).start()


def _serve_one(client: socket.socket, block: memoryview) -> None:
    with contextlib.suppress(OSError), client:
        wanted = client.recv(4096)
        if wanted[:1] not in {b"?", b"!"}:
            client.sendall(b"x")
            client.recv(1)
            return
        left = struct.unpack_from("!Q", wanted, 1)[0]
        if wanted[:1] == b"!":
            client.sendall(b"x")
            _take(client, left)
            client.sendall(b"x")
            return
        while left:
            left -= client.send(block[: min(left, len(block))])


def _take(source: socket.socket, left: int) -> None:
    buffer = bytearray(MEGABYTE)
    while left:
        count = source.recv_into(buffer)
        if not count:
            raise ConnectionError(f"{left} bytes are missing")
        left -= count


def _fetch(address: str, port: int, size: int) -> float:
    """The bytes per second of one stream."""
    with socket.create_connection((address, port), timeout=_SECONDS) as client:
        began = time.perf_counter()
        client.sendall(b"?" + struct.pack("!Q", size))
        _take(client, size)
        return size / (time.perf_counter() - began)


def _bring(address: str, port: int, size: int) -> float:
    """The same for one in the other direction, until all of it has come."""
    block = memoryview(bytes(MEGABYTE))
    with socket.create_connection((address, port), timeout=_SECONDS) as client:
        client.sendall(b"!" + struct.pack("!Q", size))
        client.recv(1)
        began, left = time.perf_counter(), size
        while left:
            left -= client.send(block[: min(left, len(block))])
        client.recv(1)
        return size / (time.perf_counter() - began)


def _knock(address: str, port: int, said: bytes = b"x") -> None:
    """A new connection, one byte there and one back."""
    with socket.create_connection((address, port), timeout=_SECONDS) as client:
        client.sendall(said)
        if not client.recv(1):
            raise ConnectionError("no answer")


def _look_up(port: int, name: str) -> str:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    packet = struct.pack("!6H", 1, 0x0100, 1, 0, 0, 0) + labels + b"\0\0\1\0\1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(_SECONDS)
        asker.sendto(packet, ("127.0.0.1", port))
        return socket.inet_ntoa(asker.recv(512)[-4:])


def _hello(name: str) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


def measure_connections(rounds: int, where: dict[str, int | str]) -> dict[str, tuple[float, ...]]:
    """Milliseconds of each new connection, in turns."""
    direct, via, tls = int(where["direct"]), int(where["via"]), int(where["tls"])
    lookups, name, tls_name = int(where["lookups"]), str(where["name"]), str(where["tls_name"])
    address, tls_address, hello = _look_up(lookups, name), _look_up(lookups, tls_name), _hello(tls_name)
    rows = [
        Row(DIRECT, "", lambda: _knock("127.0.0.1", direct), DIRECT),
        Row(VIA, "", lambda: _knock(address, via), DIRECT),
        Row(NAMED, "", lambda: _knock(_look_up(lookups, name), via), DIRECT),
        Row(TLS, "", lambda: _knock(tls_address, tls, hello), DIRECT),
    ]
    return {name: timed.samples for name, timed in take_turns(rows, rounds, _SECONDS).items()}


def measure_stream(rounds: int, where: dict[str, int | str]) -> dict[str, tuple[float, ...]]:
    """Megabytes per second of one stream, in turns."""
    address = _look_up(int(where["lookups"]), str(where["name"]))
    size = int(where["megabytes"]) * MEGABYTE
    found: dict[str, list[float]] = {name: [] for name in (*DOWN, *UP)}
    for _ in range(rounds):
        for (direct, via), stream in ((DOWN, _fetch), (UP, _bring)):
            found[direct].append(stream("127.0.0.1", int(where["direct"]), size) / MEGABYTE)
            found[via].append(stream(address, int(where["via"]), size) / MEGABYTE)
    return {name: tuple(speeds) for name, speeds in found.items()}


def measure_crowd(streams: int, where: dict[str, int | str]) -> dict[str, tuple[float, ...]]:
    """Many streams at once: the seconds it took, and how many did not get all of their bytes."""
    address, size = _look_up(int(where["lookups"]), str(where["name"])), MEGABYTE
    began = time.perf_counter()
    left: dict[int, tuple[socket.socket, int]] = {}
    poll, buffer, failures = select.epoll(), bytearray(MEGABYTE), 0
    for _ in range(streams):  # ORDER: all are there before the first is read
        client = socket.create_connection((address, int(where["via"])), timeout=_SECONDS)
        client.sendall(b"?" + struct.pack("!Q", size))
        poll.register(client.fileno(), select.EPOLLIN)
        left[client.fileno()] = (client, size)
    while left:
        ready = poll.poll(_SECONDS)
        if not ready:
            failures += len(left)
            break
        for descriptor, _ in ready:
            client, missing = left[descriptor]
            try:
                count = client.recv_into(buffer)
            except OSError:
                count = 0
            left[descriptor] = (client, missing - count)
            if missing == count or not count:
                failures += missing != count
                del left[descriptor]
                client.close()
    return {"seconds": (time.perf_counter() - began,), "failures": (float(failures),)}


MEASURES = {"connections": measure_connections, "stream": measure_stream, "crowd": measure_crowd}


def main() -> None:
    if sys.argv[1] == "server":
        serve()
    else:
        _, _, what, count, where = sys.argv
        print(json.dumps(MEASURES[what](int(count), json.loads(where))))


if __name__ == "__main__":
    main()
