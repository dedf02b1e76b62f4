"""What is counted is bounded, whatever a command invents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from corral.cli.stats import describe_traffic
from corral.model.errors import CorralError
from corral.model.feature import Feature
from corral.model.network.traffic import SENTENCES, NetAction, NetEvent, NetReason
from corral.model.policy import NetMode, NetPolicy
from corral.network import tally as tally_module
from corral.network.grants import Grants
from corral.network.hosts_file import names_of
from corral.network.names import Names
from corral.network.tally import Tally

GRANTS = Grants(NetPolicy(NetMode.LIMITED, frozenset({"https:good.test", "tcp:db.test:5432"})))


class NoLane:
    """Runs nothing: a listener that never comes to its turn."""

    def submit(self, job: Callable[[], None]) -> bool:
        return True


def _tally(on_event: Callable[[NetEvent], None] | None = None) -> Tally:
    return Tally(on_event, NoLane())  # type: ignore[arg-type]


def _connect(host: str, port: int = 443, reason: NetReason = NetReason.GRANTED, **more: object) -> NetEvent:
    return NetEvent(NetAction.CONNECT, reason is NetReason.GRANTED, reason, host, port, **more)


def test_hosts_that_were_only_refused_do_not_push_out_those_that_were_reached() -> None:
    tally = _tally()
    tally.record(_connect("good.test"))
    for number in range(5000):
        tally.record(_connect(f"n{number}.test", reason=NetReason.NOT_GRANTED))
    tally.record(_connect("late.test"))
    traffic = tally.traffic()

    assert len(traffic.hosts) <= tally_module._MOST_HOSTS + 1
    assert {"good.test", "late.test"} <= {one.host for one in traffic.hosts}
    assert (traffic.refused, sum(one.refused for one in traffic.hosts)) == (5000, 5000)
    assert len(traffic.refusals) == tally_module._MOST_REFUSALS
    assert len(tally.violations(GRANTS)) == tally_module._MOST_REFUSALS


def test_more_hosts_than_there_is_room_for_are_one() -> None:
    tally = _tally()
    for number in range(3000):
        tally.record(_connect(f"n{number}.test"))
    traffic = tally.traffic()

    assert len(traffic.hosts) <= tally_module._MOST_HOSTS + 1
    assert (traffic.connections, sum(one.connections for one in traffic.hosts)) == (3000, 3000)


def test_events_that_nobody_takes_are_bounded_and_counted() -> None:
    tally = _tally(lambda _: None)
    for _ in range(10_000):
        tally.record(_connect("good.test"))

    assert len(tally._events) == tally_module._MOST_WAITING
    assert tally.dropped_events == 10_000 - tally_module._MOST_WAITING


@pytest.mark.parametrize(
    ("event", "feature", "hint"),
    [
        (_connect("x.test", reason=NetReason.NOT_GRANTED), Feature.NET_DOMAINS, "network:https:x.test"),
        (_connect("good.test", 80, NetReason.NOT_GRANTED), Feature.NET_PORTS, "network:http:good.test"),
        (_connect("1.2.3.4", 22, NetReason.ADDRESS), Feature.NET_DOMAINS, "network:tcp:1.2.3.4:22"),
        (_connect("x.test", reason=NetReason.DENIED), Feature.NET_DOMAINS, ""),
        (
            _connect("x.test", reason=NetReason.NOT_PUBLIC, address="10.0.0.5"),
            Feature.NET_DOMAINS,
            "network:https:10.0.0.5",
        ),
        (
            NetEvent(NetAction.LOOKUP, False, NetReason.NOT_PUBLIC, "db.test", address="10.0.0.5"),
            Feature.NET_DOMAINS,
            "network:tcp:10.0.0.5:5432",
        ),
        (_connect("x.test", reason=NetReason.NOT_TLS), Feature.NET_DOMAINS, "network:tcp:x.test:443"),
        (
            NetEvent(NetAction.LOOKUP, False, NetReason.NOT_GRANTED, "x.test"),
            Feature.NET_DOMAINS,
            "network:https:x.test",
        ),
    ],
)
def test_a_violation_names_the_capability_that_would_permit_it(
    event: NetEvent, feature: Feature, hint: str
) -> None:
    tally = _tally()
    tally.record(event)
    (violation,) = tally.violations(GRANTS)

    assert (violation.feature, violation.hint) == (feature, hint)


@pytest.mark.parametrize("reason", [NetReason.UNREACHABLE, NetReason.UNRESOLVED, NetReason.TOO_MANY])
def test_what_the_policy_did_not_forbid_is_no_violation(reason: NetReason) -> None:
    tally = _tally()
    tally.record(_connect("good.test", reason=reason))

    traffic = tally.traffic()
    assert tally.violations(GRANTS) == ()
    assert (traffic.refused, traffic.failed, traffic.hosts[0].failed) == (0, 1, 1)
    assert "refused" not in "".join(describe_traffic(traffic))
    assert SENTENCES[reason] in "".join(describe_traffic(traffic))


@pytest.mark.parametrize(
    ("event", "warned"),
    [
        (_connect("169.254.169.254", 80, NetReason.ADDRESS), "the metadata service of a cloud"),
        (_connect("x.test", 80, NetReason.NOT_PUBLIC, address="fd00:ec2::254"), "the metadata service of a"),
        (_connect("x.test", reason=NetReason.NOT_PUBLIC, address="10.0.0.5"), "of a private network"),
        (_connect("64:ff9b::a9fe:a9fe", 80, NetReason.ADDRESS), "the metadata service of a cloud"),
        (_connect("127.0.0.1", 80, NetReason.ADDRESS), "this machine's own loopback"),
        (_connect("1.1.1.1", 80, NetReason.ADDRESS), ""),
        (_connect("x.test", reason=NetReason.NOT_GRANTED), ""),
    ],
)
def test_a_hint_that_leads_into_a_private_network_comes_with_a_warning(event: NetEvent, warned: str) -> None:
    tally = _tally()
    tally.record(event)
    (violation,) = tally.violations(GRANTS)

    assert violation.hint
    assert ("beware" in violation.describe()) is bool(warned)
    assert warned in violation.risk


def test_an_address_that_stands_for_no_name_is_not_to_be_granted() -> None:
    tally = _tally()
    tally.record(_connect("198.18.0.9", 80, NetReason.ADDRESS))
    (violation,) = tally.violations(GRANTS, is_synthetic=Names("198.18.0.0/15").covers)

    assert violation.hint == ""


def test_a_name_that_was_looked_up_is_permitted_by_http_and_by_https(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CorralError, "speaks_of_flags", True)
    tally = _tally()
    tally.record(NetEvent(NetAction.LOOKUP, False, NetReason.NOT_GRANTED, "x.test"))
    tally.record(_connect("x.test", 80, NetReason.NOT_GRANTED))
    tally.record(NetEvent(NetAction.LOOKUP, False, NetReason.NOT_PUBLIC, "good.test", address="10.0.0.5"))

    assert [one.describe().partition("to permit it: ")[2] for one in tally.violations(GRANTS)] == [
        "--allow x.test",
        "--cap network:http:x.test",
        "--allow 10.0.0.5",
    ]


def test_a_name_of_the_hosts_own_table_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "hosts"
    table.write_text("127.0.0.1 localhost\n10.9.8.7\tgood.test alias # a comment\n")
    monkeypatch.setattr(tally_module, "names_of", lambda address: names_of(address, str(table)))
    tally = _tally()
    tally.record(_connect("10.9.8.7", 443, NetReason.ADDRESS))
    tally.record(_connect("127.0.0.1", 443, NetReason.ADDRESS))
    of_table, of_loopback = tally.violations(GRANTS)

    assert "/etc/hosts has it for good.test, which is therefore never looked up" in of_table.detail
    assert of_table.hint == "network:tcp:10.9.8.7:443"  # TLS will ask for the name
    assert "/etc/hosts" not in of_loopback.detail
