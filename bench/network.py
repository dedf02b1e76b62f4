"""Measure the gateway: new connections, one stream, many streams, and what an idle network costs.

`python bench/network.py` prints the tables, `--record` puts them into docs/performance.md as well; `--quick`
only looks whether everything can be measured at all.
The client and the server are other processes, on loopback; the gateway has this one for itself.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from corral.model.policy import NetMode, NetPolicy
from corral.network.opening import open_sandbox_network
from corral.network.options import NetworkOptions
from corral.network.sandbox_network import GatewayNetwork
from document import measure_and_tell
from goals import Goal
from network_peers import DIRECT, DOWN, NAMED, TLS, UP, VIA
from report import goal_lines, table

PEERS = Path(__file__).resolve().parent / "network_peers.py"
RANGE, NAME, TLS_NAME = "127.64.0.0/10", "bench.test", "tls.bench.test"
ROUNDS, STREAM_ROUNDS, STREAM_MEGABYTES, STREAMS, NETWORKS = 2000, 7, 500, 500, 200
QUICK = (20, 1, 20, 20, 10)
MOST_ADDED, LEAST_SPEED, MOST_MEMORY = 1.5, 0.5, 1.0


class Found(NamedTuple):
    """Everything that one run has found."""

    connections: dict[str, tuple[float, ...]]
    streams: dict[str, tuple[float, ...]]
    processor: float  # seconds of the gateway for each gigabyte
    crowd: dict[str, tuple[float, ...]]
    memory: float  # megabytes for each idle sandbox network
    networks: int


@contextmanager
def _server() -> Iterator[int]:
    with subprocess.Popen([sys.executable, PEERS, "server"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


def _listen(kind: int = socket.SOCK_STREAM) -> tuple[int, int]:
    """A descriptor and its port."""
    sock = socket.socket(socket.AF_INET, kind)
    sock.bind(("0.0.0.0", 0))
    if kind == socket.SOCK_STREAM:
        sock.listen(4096)
    port = sock.getsockname()[1]
    return sock.detach(), port


def _open(server: int) -> tuple[GatewayNetwork, dict[str, int | str]]:
    """A sandbox network in front of the server, and where a client finds both."""
    (plain, via), (checked, tls), (lookups, lookup_port) = _listen(), _listen(), _listen(socket.SOCK_DGRAM)
    allow = {f"tcp:{NAME}:{via}", f"https:{TLS_NAME}:{tls}", f"tcp:127.0.0.1:{via}", f"tcp:127.0.0.1:{tls}"}
    options = NetworkOptions(resolve=lambda _name, _port: [("127.0.0.1", server)])
    network = open_sandbox_network(NetPolicy(NetMode.LIMITED, frozenset(allow)), options, addresses=RANGE)
    network.attach([plain, checked, lookups])
    where: dict[str, int | str] = {"direct": server, "via": via, "tls": tls, "lookups": lookup_port}
    return network, {**where, "name": NAME, "tls_name": TLS_NAME, "megabytes": STREAM_MEGABYTES}


def _ask(what: str, count: int, where: dict[str, int | str]) -> dict[str, tuple[float, ...]]:
    line = [sys.executable, str(PEERS), "client", what, str(count), json.dumps(where)]
    done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=600)
    return {name: tuple(values) for name, values in json.loads(done.stdout).items()}


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def measure_idle(count: int) -> float:
    """Megabytes that each sandbox network takes while nobody uses it; the loop is there already."""
    with ExitStack() as stack:
        network, _ = _open(1)  # what the first one brings along is not the others' cost
        stack.callback(network.close)
        gc.collect()
        before = _resident()
        for _ in range(count):
            stack.callback(_open(1)[0].close)
        gc.collect()
        return (_resident() - before) / count / 1e6


def measure(*, quick: bool) -> Found:
    rounds, stream_rounds, megabytes, streams, networks = (
        QUICK if quick else (ROUNDS, STREAM_ROUNDS, STREAM_MEGABYTES, STREAMS, NETWORKS)
    )
    memory = measure_idle(networks)
    with _server() as server:
        network, where = _open(server)
        where["megabytes"] = megabytes
        try:
            connections = _ask("connections", rounds, where)
            before = time.process_time()
            stream = _ask("stream", stream_rounds, where)
            spent = (time.process_time() - before) / stream_rounds / megabytes / len((DOWN, UP)) * 1000
            crowd = _ask("crowd", streams, where)
            crowd["streams"] = (streams,)
        finally:
            network.close()
    return Found(connections, stream, spent, crowd, memory, networks)


def judge(found: Found) -> list[Goal]:
    """What was promised."""
    medians = {name: statistics.median(values) for name, values in found.connections.items()}
    added = medians[VIA] - medians[DIRECT]
    speeds = {name: statistics.median(values) for name, values in found.streams.items()}
    streams = int(found.crowd["streams"][0])
    took = f"in {found.crowd['seconds'][0]:.1f} s"
    return [
        Goal(f"a new connection: median of added time <= {MOST_ADDED:g} ms", MOST_ADDED, added),
        *(
            Goal(
                f"{via}: >= {LEAST_SPEED:g} x direct",
                LEAST_SPEED,
                speeds[via] / speeds[direct],
                at_least=True,
            )
            for direct, via in (DOWN, UP)
        ),
        Goal(f"{streams} streams at once: no failure", 0, found.crowd["failures"][0], took),
        Goal(
            f"an idle sandbox network: <= {MOST_MEMORY:g} MB",
            MOST_MEMORY,
            found.memory,
            f"of {found.networks}",
        ),
    ]


def render(found: Found, judged: list[Goal]) -> Iterator[str]:
    yield from goal_lines(judged)
    yield ""
    base = statistics.median(found.connections[DIRECT])
    cells = []
    for name in (DIRECT, VIA, NAMED, TLS):
        values = sorted(found.connections[name])
        median, p99 = statistics.median(values), values[-(-99 * len(values) // 100) - 1]
        cells.append((name, f"{median:.3f}", f"{p99:.3f}", f"{median - base:.3f}", str(len(values))))
    yield from table(("New connection", "Median ms", "p99 ms", "Added ms", "Samples"), cells, {1, 2, 3, 4})
    yield ""
    cells = []
    for pair in (DOWN, UP):
        direct = statistics.median(found.streams[pair[0]])
        for name in pair:
            speed, count = statistics.median(found.streams[name]), len(found.streams[name])
            cells.append((name, f"{speed:,.0f}", f"{speed / direct:.2f}", str(count)))
    yield from table(("One stream", "MB per second", "Ratio", "Samples"), cells, {1, 2, 3})
    yield ""
    yield f"The gateway itself took {found.processor:.2f} seconds of a processor for each gigabyte."


def main() -> int:
    return measure_and_tell(str(__doc__), measure, judge, render, document="performance.md", part="network")


if __name__ == "__main__":
    sys.exit(main())
