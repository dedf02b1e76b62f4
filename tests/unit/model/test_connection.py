"""Decisions about connections: names, look-alikes, addresses in disguise, ports, and where names may lead."""

from __future__ import annotations

import pytest

from corral.model.decision import Reason
from corral.model.network.connection import NetVerdict, Rules, capability_for, decide_connection, is_loopback
from corral.model.network.endpoint import is_address, parse_endpoint, parse_host, parse_one_host
from corral.model.network.traffic import NetReason
from corral.model.policy import NetMode, NetPolicy
from corral.model.rules.algebra import is_within_net, meet_net
from corral.model.rules.capability import parse_capability


def rules(*allow: str, deny: tuple[str, ...] = ()) -> Rules:
    return Rules(limited(*allow, deny=deny))


def limited(*allow: str, deny: tuple[str, ...] = ()) -> NetPolicy:
    return NetPolicy(NetMode.LIMITED, frozenset(allow), frozenset(map(parse_host, deny)))


def reason(found: Rules, host: str, port: int = 443) -> NetReason:
    """As it goes in the gateway: a host that cannot be read is never asked about."""
    try:
        return found.decide(parse_one_host(host), port).reason
    except ValueError:
        return NetReason.MALFORMED


def test_what_was_granted_is_said_with_its_rule_and_what_may_be_spoken() -> None:
    found = rules("https:example.com", "tcp:example.com:443", "http:example.com")

    verdict = found.decide("example.com", 443)

    assert verdict == NetVerdict(True, NetReason.GRANTED, frozenset({"https", "tcp"}), "https:example.com")
    assert found.decide("example.com", 80).schemes == {"http"}
    assert found.ports == {80, 443}


def test_an_empty_list_permits_nothing() -> None:
    assert rules().decide("example.com", 443) == NetVerdict(False, NetReason.NOT_GRANTED)
    assert rules().decide_lookup("example.com") == NetVerdict(False, NetReason.NOT_GRANTED)
    assert rules().decide("1.1.1.1", 443) == NetVerdict(False, NetReason.ADDRESS)


@pytest.mark.parametrize("host", ["allowed.com", "ALLOWED.com", "allowed.com.", "Allowed.Com."])
def test_a_name_is_the_same_in_each_spelling(host: str) -> None:
    assert reason(rules("https:allowed.com"), host) is NetReason.GRANTED
    assert reason(rules("https:*", deny=("allowed.com",)), host) is NetReason.DENIED


@pytest.mark.parametrize(
    "host",
    [
        *("allowed.com.evil.test", "evilallowed.com", "allowed.co", "allowed.comm", "com", "sub.allowed.com"),
        *("allowed-com", "allowed.com-evil.test", "www.allowed.com", "xn--allowed-9gd.com", "allowed_com"),
    ],
)
def test_look_alikes_are_other_names(host: str) -> None:
    assert reason(rules("https:allowed.com"), host) is NetReason.NOT_GRANTED


@pytest.mark.parametrize(
    "host",
    [
        *(
            "evil.test\x00.allowed.com",
            "allowed.com\x00",
            "allowed.com@evil.test",
            "allowed.com evil.test",
            "",
        ),
        *(
            "allowed.com/",
            "allowed.com#",
            "allowed.com:443",
            "allowed.com..",
            ".allowed.com",
            "a..allowed.com",
        ),
        *(
            "*",
            "*.allowed.com",
            "*.com",
            "allowed.com\n",
            "allоwed.com",
            "ａllowed.com",
            "allowed。com",
            "alloweⅾ.com",
        ),
        *(
            "allowed.com%00",
            "allowed.com\\@evil.test",
            "[allowed.com]",
            "-.allowed.com",
            "a" * 64 + ".allowed.com",
        ),
    ],
)
def test_what_is_no_name_is_not_even_asked_about(host: str) -> None:
    assert reason(rules("https:allowed.com", "https:*.allowed.com", "https:*"), host) is NetReason.MALFORMED


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("a.example.com", NetReason.GRANTED),
        ("a.b.example.com", NetReason.GRANTED),
        ("_a.example.com", NetReason.GRANTED),
        ("example.com", NetReason.NOT_GRANTED),
        ("evilexample.com", NetReason.NOT_GRANTED),
        ("a.example.com.evil.test", NetReason.NOT_GRANTED),
        ("a.example.co", NetReason.NOT_GRANTED),
        ("1.2.3.4", NetReason.ADDRESS),
    ],
)
def test_a_pattern_is_for_all_beneath_a_name_and_not_for_the_name(host: str, expected: NetReason) -> None:
    assert reason(rules("https:*.example.com"), host) is expected


def test_names_of_other_scripts_are_compared_as_they_are_sent() -> None:
    found = rules(str(parse_endpoint("https", "Bücher.example")))

    assert reason(found, "xn--bcher-kva.example") is NetReason.GRANTED
    assert reason(found, "XN--BCHER-KVA.example") is NetReason.GRANTED
    assert reason(found, "bücher.example") is NetReason.MALFORMED
    assert reason(found, "bucher.example") is NetReason.NOT_GRANTED


def test_a_denied_pattern_beats_every_grant() -> None:
    found = rules("https:*", "https:a.evil.test", "tcp:evil.test:443", deny=("*.evil.test", "evil.test"))

    assert found.decide("a.evil.test", 443) == NetVerdict(False, NetReason.DENIED, rule="*.evil.test")
    assert found.decide("evil.test", 443) == NetVerdict(False, NetReason.DENIED, rule="evil.test")
    assert found.decide_lookup("evil.test").reason is NetReason.DENIED
    assert reason(found, "notevil.test") is NetReason.GRANTED


@pytest.mark.parametrize(
    ("allowed", "denied"),
    [
        *(
            (host, "localhost")
            for host in ("127.0.0.1", "127.8.9.1", "[::1]", "0.0.0.0", "[::ffff:127.0.0.1]")
        ),
        ("localhost", "127.0.0.1"),
        ("db.localhost", "127.0.0.1"),
    ],
)
def test_this_machine_is_denied_by_its_name_and_its_address_alike(allowed: str, denied: str) -> None:
    """Whoever asks for the name may come with the address, and the other way round."""
    net = limited(f"tcp:{allowed}:8000", deny=(denied,))
    wanted = parse_endpoint("tcp", f"{allowed}:8000")

    assert Rules(limited(f"tcp:{allowed}:8000")).decide(wanted.host, 8000).allowed
    assert Rules(net).decide(wanted.host, 8000) == NetVerdict(False, NetReason.DENIED, rule=denied)
    assert decide_connection(net, wanted).reason is Reason.DENIED
    assert not Rules(net).may_dial(wanted.host, 8000, "127.0.0.1", is_public=False)
    assert meet_net(net, net).mode is NetMode.NONE
    assert not is_within_net(limited(f"tcp:{allowed}:8000"), net)


def test_other_addresses_of_loopback_can_be_denied_by_themselves() -> None:
    net = limited("tcp:localhost:8000", "tcp:127.0.0.1:8000", deny=("127.0.0.9", "::1", "*.localhost"))

    assert Rules(net).decide("localhost", 8000).allowed
    assert Rules(net).decide("127.0.0.1", 8000).allowed
    assert not Rules(net).decide("db.localhost", 8000).allowed
    assert not Rules(net).may_dial("localhost", 8000, "::1", is_public=False)


def test_another_port_is_another_thing() -> None:
    found = rules("https:allowed.com", "tcp:db.example:5432")

    assert reason(found, "allowed.com", 22) is NetReason.NOT_GRANTED
    assert reason(found, "allowed.com", 5432) is NetReason.NOT_GRANTED
    assert reason(found, "db.example", 443) is NetReason.NOT_GRANTED
    assert found.decide_lookup("db.example").allowed


def test_a_name_may_be_looked_up_for_any_of_its_ports() -> None:
    found = rules("http:a.example", "https:b.example")

    assert found.decide_lookup("a.example").allowed
    assert found.decide_lookup("b.example").allowed
    assert not found.decide_lookup("c.example").allowed


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.5", "169.254.169.254", "fd00:ec2::254", "0.0.0.0"],
)
def test_every_host_does_not_mean_those_of_our_own_networks(host: str) -> None:
    assert reason(rules("https:*"), host) is NetReason.ADDRESS


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.", "a.localhost", "a.b.localhost"])
def test_every_host_does_not_mean_the_machine_itself(host: str) -> None:
    assert reason(rules("https:*"), host) is NetReason.NOT_GRANTED
    assert not rules("https:*").decide_lookup(parse_one_host(host)).allowed


@pytest.mark.parametrize(
    "host",
    [
        *("0x7f.1", "0x7f000001", "2130706433", "127.1", "0177.0.0.1", "127.0.0.01", "0x1010101", "16843009"),
        *("1.1.1.0x1", "0X7F.1", "1.1.1.1.1", "foo.1", "foo.0x", "fe80::1%eth0", "::1%1", "[::1]", "1.1.1"),
    ],
)
def test_an_address_in_disguise_is_neither_name_nor_address(host: str) -> None:
    assert reason(rules("https:*"), host) is NetReason.MALFORMED
    assert reason(rules("https:*", deny=("evil.test",)), host) is NetReason.MALFORMED


@pytest.mark.parametrize("host", ["0x7f.1", "0x01010101", "2130706433", "1.1.1.1", "::1"])
def test_even_if_asked_about_a_disguised_address_is_no_name(host: str) -> None:
    assert is_address(host)
    assert rules("https:*", deny=("evil.test",)).decide(host, 443) == NetVerdict(False, NetReason.ADDRESS)


def test_an_address_may_be_that_of_a_denied_name() -> None:
    assert reason(rules("https:*"), "1.1.1.1") is NetReason.GRANTED
    assert reason(rules("https:*", deny=("evil.test",)), "1.1.1.1") is NetReason.ADDRESS
    assert reason(rules("https:*", deny=("evil.test",)), "64:ff9b::1.1.1.1") is NetReason.ADDRESS
    assert reason(rules("https:*", "https:1.1.1.1", deny=("evil.test",)), "1.1.1.1") is NetReason.GRANTED


@pytest.mark.parametrize("written", ["1.2.3.4", "[::ffff:1.2.3.4]", "[::FFFF:102:304]"])
def test_a_mapped_address_is_the_address(written: str) -> None:
    granted = rules(str(parse_endpoint("https", written)))
    denied = rules("https:1.2.3.4", "https:*", deny=(written.strip("[]"),))

    for host in ("1.2.3.4", "::ffff:1.2.3.4", "::ffff:102:304"):
        assert reason(granted, host) is NetReason.GRANTED
        assert reason(denied, host) is NetReason.DENIED


def test_a_name_leads_to_public_addresses_only() -> None:
    found = rules("https:*", "http:localhost")

    assert found.may_dial("example.com", 443, "1.1.1.1", is_public=True)
    for address in ("127.0.0.1", "::1", "10.0.0.5", "169.254.169.254", "fd00:ec2::254", "::ffff:127.0.0.1"):
        assert not found.may_dial("example.com", 443, address, is_public=False)
        assert not found.may_dial("localhost.evil.test", 443, address, is_public=False)
        assert not found.may_dial("evil-localhost", 443, address, is_public=False)


def test_localhost_leads_to_loopback_and_nowhere_else_inside() -> None:
    found = rules("http:localhost:8000")

    assert found.decide("localhost", 8000).allowed
    assert not found.decide("a.localhost", 8000).allowed
    assert not found.decide("127.0.0.1", 8000).allowed
    for address in ("127.0.0.1", "127.0.1.1", "::1", "::ffff:127.0.0.1"):
        assert found.may_dial("localhost", 8000, address, is_public=False)
    for address in ("10.0.0.5", "169.254.169.254", "::ffff:10.0.0.5", "::", "0.0.0.0", "127.evil.test"):
        assert not found.may_dial("localhost", 8000, address, is_public=False)


def test_a_granted_address_may_be_where_a_name_leads_on_its_port() -> None:
    found = rules("https:*", "https:10.0.0.5", "tcp:10.0.0.6:5432")

    assert found.may_dial("registry.example", 443, "10.0.0.5", is_public=False)
    assert found.may_dial("registry.example", 443, "::ffff:10.0.0.5", is_public=False)
    assert not found.may_dial("registry.example", 443, "10.0.0.6", is_public=False)
    assert not found.may_dial("registry.example", 80, "10.0.0.5", is_public=False)
    assert not found.may_dial("registry.example", 443, "64:ff9b::10.0.0.5", is_public=False)


@pytest.mark.parametrize("address", ["1.2.3.4", "::ffff:1.2.3.4", "64:ff9b::1.2.3.4"])
def test_no_name_leads_to_a_denied_address(address: str) -> None:
    found = rules("https:*", deny=("1.2.3.4",))

    assert not found.may_dial("alias.example", 443, address, is_public=True)
    assert found.may_dial("alias.example", 443, "1.2.3.5", is_public=True)


def test_what_is_no_address_is_not_dialled() -> None:
    for text in ("", "example.com", "127.1", "0x7f.1", "1.2.3.4\x00"):
        assert not rules("https:*").may_dial("example.com", 443, text, is_public=True)


def test_more_endpoints_add_to_what_is_granted_and_never_to_what_is_denied() -> None:
    first = rules("https:a.example", deny=("evil.test",))

    more = first.with_endpoints(
        [parse_endpoint("https", "b.example"), parse_endpoint("tcp", "evil.test:443")]
    )

    assert more.decide("a.example", 443).allowed
    assert more.decide("b.example", 443).allowed
    assert more.decide("evil.test", 443).reason is NetReason.DENIED
    assert not first.decide("b.example", 443).allowed


@pytest.mark.parametrize(
    ("net", "endpoint", "expected"),
    [
        (NetPolicy(), ("https", "example.com"), (False, Reason.NOT_GRANTED, "")),
        (
            NetPolicy(NetMode.NONE, frozenset({"https:example.com"})),
            ("https", "example.com"),
            (False, Reason.NOT_GRANTED, ""),
        ),
        (NetPolicy(NetMode.FULL), ("tcp", "10.0.0.5:22"), (True, Reason.GRANTED, "full")),
        (
            NetPolicy(NetMode.FULL, deny=frozenset({"evil.test"})),
            ("https", "a.example"),
            (True, Reason.GRANTED, "full"),
        ),
        (NetPolicy(NetMode.FULL, deny=frozenset({"*"})), ("https", "a.example"), (False, Reason.DENIED, "*")),
        (limited("https:*"), ("https", "example.com"), (True, Reason.GRANTED, "https:*")),
        (limited("https:*"), ("http", "example.com:443"), (False, Reason.NOT_GRANTED, "")),
        (limited("tcp:*:443"), ("http", "example.com:443"), (True, Reason.GRANTED, "tcp:*:443")),
        (limited("https:*"), ("https", "127.0.0.1"), (False, Reason.NOT_GRANTED, "")),
        (limited("https:*", deny=("*.test",)), ("https", "a.test"), (False, Reason.DENIED, "*.test")),
    ],
)
def test_a_policy_answers_for_an_endpoint(
    net: NetPolicy, endpoint: tuple[str, str], expected: tuple[bool, Reason, str]
) -> None:
    decision = decide_connection(net, parse_endpoint(*endpoint))

    assert (decision.allowed, decision.reason, decision.rule) == expected


@pytest.mark.parametrize(
    ("host", "port", "capability"),
    [
        ("example.com", 443, "network:https:example.com"),
        ("example.com", 80, "network:http:example.com"),
        ("example.com", 22, "network:tcp:example.com:22"),
        ("::1", 443, "network:https:[::1]"),
        ("10.0.0.5", 8443, "network:tcp:10.0.0.5:8443"),
    ],
)
def test_the_capability_that_is_missing_would_permit_it(host: str, port: int, capability: str) -> None:
    assert capability_for(host, port) == capability
    assert str(parse_capability(capability)) == capability
    assert rules(capability.removeprefix("network:")).decide(host, port).allowed


def test_loopback_is_an_address() -> None:
    assert [is_loopback(text) for text in ("127.0.0.1", "127.9.9.9", "::1")] == [True] * 3
    assert [is_loopback(text) for text in ("128.0.0.1", "::2", "1127.0.0.1", "fe80::1")] == [False] * 4
