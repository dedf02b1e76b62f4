"""The same list of permitted hosts holds for programs as people use them; none of them is told of a proxy.

What worked is judged by what the server was asked and by what the program made of it; what was refused, by
what the server was not asked, and by the report.
"""

from __future__ import annotations

import shutil

import pytest

from corral.model.feature import Feature
from corral.model.violation import Evidence
from support.engines import ENGINES
from support.net_runs import (
    ALLOWED,
    EVERY,
    FORBIDDEN,
    PROXIED,
    ROUTED,
    TRANSPARENT,
    copy_node,
    network_violations,
)
from support.net_tools import CURL, EVERY_TOOL, NODE, NPM, URLLIB, WGET, Tool, capabilities_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from corral.model.result import Result
    from support.net_runs import Place


#: node's own fetch (of node 20) knows no proxy, and landlock leaves no other way out. npm is tried there.
PAIRS = [(name, tool) for name in EVERY for tool in EVERY_TOOL if name not in PROXIED or tool is not NODE]
PAIRS += [(name, NPM) for name in EVERY if name not in ENGINES]  # images have no npm
on_each = pytest.mark.parametrize(("place", "tool"), PAIRS, indirect=["place"], ids=str)
PLAIN = (CURL, WGET, URLLIB)


@pytest.fixture(scope="session")
def node_folder(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """Images have no node: they are lent the host's."""
    return copy_node(tmp_path_factory.mktemp("node") / "lent")


def _use(place: Place, tool: Tool, where: str, node_folder: Path | None) -> Result:
    is_lent = tool.needs_node and place.backend in ENGINES
    node = f"{node_folder}/node" if is_lent else "node"
    command = tool.command(where, node)
    if (node_folder if is_lent else shutil.which(command[0])) is None:
        pytest.skip(f"{tool.name} is not installed")
    return place.run(command, *capabilities_of(tool, node_folder if is_lent else None))


@on_each
def test_what_is_allowed_works(place: Place, tool: Tool, node_folder: Path | None) -> None:
    result = _use(place, tool, f"https://{ALLOWED}", node_folder)

    assert tool.fetched(place, result, ALLOWED), f"{result.describe()}: {result.stderr}"
    assert place.site.hosts() == {ALLOWED}
    assert {request.server_name for request in place.site.https.requests} == {ALLOWED}
    assert network_violations(result) == []
    _check_traffic(place, result)


def _check_traffic(place: Place, result: Result) -> None:
    """What corral counted is what the server saw."""
    (host,) = (found for found in result.network.hosts if found.host == ALLOWED)
    assert host.port == 443
    assert host.connections == len(place.site.https.server_names)
    assert host.sent > 0
    assert host.received > 0
    assert host.refused == 0


@on_each
def test_what_is_not_allowed_fails_and_is_reported(
    place: Place, tool: Tool, node_folder: Path | None
) -> None:
    result = _use(place, tool, f"https://{FORBIDDEN}", node_folder)

    assert not result.ok
    assert not tool.fetched(place, result, FORBIDDEN)
    assert place.site.hosts() == set()
    assert FORBIDDEN not in place.site.names.asked
    _check_report(result)
    assert result.network.refused > 0
    assert result.network.connections == 0


def _check_report(result: Result) -> None:
    """Each says what was asked for, that it was seen and not guessed, and what would permit it."""
    reported = network_violations(result)
    assert reported
    for found in reported:
        assert found.feature is Feature.NET_DOMAINS
        assert found.evidence is Evidence.OBSERVED
        assert found.subject.partition(":")[0] == FORBIDDEN
        assert found.hint == f"network:https:{FORBIDDEN}"


@pytest.mark.parametrize("tool", PLAIN, ids=str)
@pytest.mark.parametrize("place", EVERY, indirect=True)
def test_plain_http_is_held_to_the_same_list(place: Place, tool: Tool) -> None:
    allowed = place.run(tool.command(f"http://{ALLOWED}", ""))

    assert tool.fetched(place, allowed, ALLOWED), allowed.stderr
    assert [request.host for request in place.site.http.requests] == [ALLOWED]
    forbidden = place.run(tool.command(f"http://{FORBIDDEN}", ""))
    assert not forbidden.ok
    assert place.site.hosts() == {ALLOWED}
    assert FORBIDDEN in {found.subject.partition(":")[0] for found in forbidden.violations}


@pytest.mark.parametrize("tool", PLAIN, ids=str)
@pytest.mark.parametrize("place", ROUTED, indirect=True)
@pytest.mark.parametrize(
    ("address", "hint"),
    [("192.0.2.7", "network:http:192.0.2.7"), ("[2001:db8::7]", "network:http:[2001:db8::7]")],
)
def test_an_address_is_refused_and_reported(place: Place, tool: Tool, address: str, hint: str) -> None:
    result = place.run(tool.command(f"http://{address}", ""))

    assert not result.ok
    assert hint in {found.hint for found in result.violations}
    assert place.site.names.asked == []


@pytest.mark.parametrize("place", [*ROUTED, *PROXIED], indirect=True)
def test_a_port_that_is_not_granted_is_reported_like_a_host(place: Place) -> None:
    """Of a name that is permitted on another port; and the command's own closed ports are its own affair."""
    own = "" if place.is_proxied else "curl -sS http://127.0.0.1:9/; "
    result = place.run(f"{own}curl -sSf --max-time 20 http://{ALLOWED}:8443/")

    assert not result.ok
    (found,) = network_violations(result)
    assert found.feature is Feature.NET_PORTS
    assert found.subject == f"{ALLOWED}:8443"
    assert found.detail == "no rule permits this port"
    assert found.hint == f"network:tcp:{ALLOWED}:8443"
    assert place.site.hosts() == set()


@pytest.mark.parametrize("address", ["192.0.2.7:22", "[2001:db8::7]:22"])
@pytest.mark.parametrize("place", ROUTED, indirect=True)
def test_an_address_is_reported_with_whatever_port(place: Place, address: str) -> None:
    result = place.run(f"curl -sS --max-time 20 http://{address}/")

    assert [found.hint for found in network_violations(result)] == [f"network:tcp:{address}"]


@pytest.mark.parametrize("place", TRANSPARENT, indirect=True)
def test_no_program_is_told_of_a_proxy(place: Place) -> None:
    result = place.run("env")

    assert result.ok
    assert "proxy" not in result.stdout.lower()


@pytest.mark.parametrize("place", EVERY, indirect=True)
def test_several_programs_share_the_network_of_one_command(place: Place) -> None:
    """As a build does: two at a time, one that may and one that may not."""
    fetch = "curl -sSf --max-time 20 https://{}/{}"
    lines = [f"({fetch.format(ALLOWED, number)} >out.{number}) &" for number in range(8)]
    lines += [f"({fetch.format(FORBIDDEN, number)} >bad.{number}) &" for number in range(8)]

    result = place.run("\n".join([*lines, "wait"]))

    texts = {(place.work / f"out.{number}").read_text() for number in range(8)}
    assert texts == {f"this is {ALLOWED} at /{number}\n" for number in range(8)}, result.stderr
    assert {(place.work / f"bad.{number}").read_text() for number in range(8)} == {""}
    assert place.site.hosts() == {ALLOWED}
    _check_report(result)
