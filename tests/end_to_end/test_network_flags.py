"""The network as a user of the command line has it: --allow, --net limited, --stats and --json."""

from __future__ import annotations

import json

import pytest

from support.counting import CountingServer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Corral


@pytest.fixture
def server() -> Iterator[CountingServer]:
    made = CountingServer()
    yield made
    made.close()


def reach(port: int, host: str = "localhost") -> tuple[str, ...]:
    return ("bash", "-c", f"exec 3<>/dev/tcp/{host}/{port} && printf sss >&3")


def test_a_host_that_is_allowed_is_reached_and_counted(corral: Corral, server: CountingServer) -> None:
    done = corral("run", "--allow", f"localhost:{server.port}", "--stats", "--", *reach(server.port))

    assert done.returncode == 0
    assert server.settled() == 2 and server.clients == 1
    assert f"corral: network: localhost:{server.port}: 1 connection, 3 B sent, 0 B received" in (
        done.stderr.decode().splitlines()
    )


def test_what_was_refused_is_told_with_what_would_permit_it(corral: Corral, server: CountingServer) -> None:
    done = corral("run", "--allow", "example.test", "--", *reach(443, "evil.test"))
    record = json.loads(corral("run", "--json", "--net", "limited", "--", *reach(80, "127.0.0.1")).stdout)

    assert b"evil.test: no rule permits this host; to permit it: --allow evil.test" in done.stderr
    assert record["network"]["refused"] == 1 and record["network"]["connections"] == 0
    assert [found["evidence"] for found in record["violations"] if found["feature"].startswith("net.")] == [
        "observed"
    ]
    assert server.clients == 0


def test_hosts_that_are_named_are_all_that_limited_means(corral: Corral) -> None:
    shown = json.loads(corral("explain", "--json", "--net", "limited", "--allow", "example.org").stdout)
    why = corral("why", "connect", "example.com", "--net", "limited", "--allow", "example.org")

    assert "net.domains" in shown["enforced"] or "net.domains" in json.dumps(shown)
    assert why.returncode == 1


def test_a_ceiling_for_traffic_holds(corral: Corral, server: CountingServer) -> None:
    # More than the kernel holds for a reader that has not looked yet (net.ipv4.tcp_rmem): else it ends well.
    sends = f"exec 3<>/dev/tcp/localhost/{server.port} && printf s >&3 && head -c 400000000 /dev/zero >&3"
    options = ("--allow", f"localhost:{server.port}", "--cap", "traffic:limit:100kB")
    done = corral("run", *options, "--", "bash", "-c", sends)

    assert done.returncode != 0
    assert server.settled() < 2_000_000
    assert b"all the bytes that may pass had passed" in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--net", "full", "--allow", "a.test"), "drop --net full to permit these hosts alone"),
        (("--net", "none", "--allow", "a.test"), "drop --net none to permit these hosts alone"),
        (("--allow", "https://u@files.example.org:443/x?y"), "write --allow files.example.org\n"),
        (("--allow", "http://files.example.org:8080"), "write --allow files.example.org:8080\n"),
        (("--allow", "*"), "if you mean it, write --net limited"),
        (("--allow", "*.com"), "if you mean it, write --cap 'network:https:*.com'"),
        (("--allow", "*.co.uk:443"), "names are sold to anybody"),
        (("--allow", "*.github.io"), "anybody gets a name"),
    ],
)
def test_what_is_not_meant_is_refused_with_what_to_write(
    corral: Corral, options: tuple[str, ...], said: str
) -> None:
    for command in ("run", "explain"):
        done = corral(command, *options, "--", "true")

        assert done.returncode == 2
        assert said in done.stderr.decode()


def test_whoever_means_it_says_it_as_a_capability(corral: Corral) -> None:
    for words in (("--cap", "network:https:*.com"), ("--net", "limited", "--allow", "*.example.co.uk")):
        assert corral("run", *words, "--", "true").returncode == 0
