"""Laws of the matcher: one host has one fate however it is written, and look-alikes are others."""

from __future__ import annotations

import ipaddress
import socket

from hypothesis import example, given
from hypothesis import strategies as st

from corral.model.network.addresses import address_forms, canonical_address, is_public_address
from corral.model.network.connection import Rules
from corral.model.network.endpoint import is_address, is_localhost, parse_host, parse_one_host
from corral.model.policy import NetMode, NetPolicy

labels = st.sampled_from(
    ["a", "b", "evil", "example", "com", "test", "localhost", "xn--bcher-kva", "_x", "a-b"]
)
names = st.lists(labels, min_size=1, max_size=4).map(".".join)
fours = st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address)
sixes = st.integers(0, 2**128 - 1).map(ipaddress.IPv6Address)
addresses = st.one_of(
    fours, sixes, st.sampled_from(["127.0.0.1", "10.0.0.5", "1.1.1.1", "::1"]).map(ipaddress.ip_address)
).map(lambda address: canonical_address(str(address)))
hosts = st.one_of(names, addresses)
patterns = st.one_of(names, names.map(lambda name: f"*.{name}"), st.just("*"), addresses)
endpoints = patterns.map(lambda host: f"https:[{host}]" if ":" in host else f"https:{host}")
nets = st.builds(
    lambda allow, deny: NetPolicy(NetMode.LIMITED, allow, deny),
    st.frozensets(endpoints, max_size=4),
    st.frozensets(patterns, max_size=2),
)


def spelled(host: str, cases: list[bool], dot: bool) -> str:
    letters = zip(host, cases * len(host), strict=False)
    return "".join(letter.upper() if upper else letter for letter, upper in letters) + "." * dot


@given(nets, hosts, st.lists(st.booleans(), min_size=1), st.booleans())
def test_a_host_has_one_fate_however_it_is_spelled(
    net: NetPolicy, host: str, cases: list[bool], dot: bool
) -> None:
    rules = Rules(net)

    assert rules.decide(parse_one_host(spelled(host, cases, dot)), 443) == rules.decide(host, 443)


@given(nets, hosts, patterns)
def test_to_deny_more_never_permits_more(net: NetPolicy, host: str, pattern: str) -> None:
    before = Rules(net)
    after = Rules(net.replace(deny=net.deny | {pattern}))

    assert before.decide(host, 443).allowed or not after.decide(host, 443).allowed
    assert not after.decide(pattern, 443).allowed
    for is_public in (False, True):
        may_dial = before.may_dial("example.com", 443, host, is_public=is_public)
        assert may_dial or not after.may_dial("example.com", 443, host, is_public=is_public)


@given(nets, hosts, endpoints)
def test_to_allow_more_never_permits_less(net: NetPolicy, host: str, endpoint: str) -> None:
    before, after = Rules(net), Rules(net.replace(allow=net.allow | {endpoint}))

    assert after.decide(host, 443).allowed or not before.decide(host, 443).allowed
    assert after.decide_lookup(host).allowed == after.decide(host, 443).allowed


@given(nets, names)
def test_what_is_permitted_is_granted_label_by_label(net: NetPolicy, host: str) -> None:
    """The rules again, by labels and not by letters."""

    def is_covered(pattern: str) -> bool:
        wanted, ours = pattern.split("."), host.split(".")
        if pattern == "*":
            return True
        return (
            ours[-len(wanted) + 1 :] == wanted[1:] and len(ours) >= len(wanted)
            if "*" in wanted
            else ours == wanted
        )

    granted = [text.removeprefix("https:") for text in net.allow]
    expected = any(
        is_covered(pattern) and not (pattern == "*" and is_localhost(host)) for pattern in granted
    ) and not any(map(is_covered, net.deny))

    assert Rules(net).decide(host, 443).allowed == expected


@given(st.text(max_size=30))
@example("evil.test\x00.example.com")
@example("example.com@evil.test")
@example("Kelvin.example")
@example("*.example.com")
@example("example.com%eth0")
def test_whatever_a_client_writes_is_one_host_in_canonical_form_or_refused(text: str) -> None:
    try:
        host = parse_one_host(text)
    except ValueError:
        return

    assert host == parse_one_host(host) == parse_host(host)
    assert text.isascii()
    assert "*" not in host
    assert is_address(host) or host == text.lower().removesuffix(".")


def written_otherwise(number: int) -> list[str]:
    """Spellings of an address that the resolver of a system understands."""
    parts = list(number.to_bytes(4))
    return [
        str(number),
        hex(number),
        hex(number).upper().replace("X", "x"),
        ".".join(map(hex, parts)),
        ".".join(f"0{part:o}" for part in parts),
        f"{parts[0]}.{number & 0xFFFFFF}",
        f"{parts[0]}.{parts[1]}.{number & 0xFFFF}",
        f"{parts[0]}.{parts[1]}.{parts[2]}.{hex(parts[3])}",
    ]


@given(st.integers(1, 2**32 - 1))
@example(0x7F000001)
@example(0xA9FEA9FE)
@example(0x01010101)
def test_an_address_in_another_spelling_is_never_a_name(number: int) -> None:
    rules = Rules(NetPolicy(NetMode.LIMITED, frozenset({"https:*"}), frozenset({"evil.test"})))
    plain = str(ipaddress.IPv4Address(number))
    for text in written_otherwise(number):
        assert socket.inet_aton(text) == number.to_bytes(4)  # a control: it is that address
        try:
            assert parse_one_host(text) == plain
        except ValueError:
            pass
        assert not rules.decide(text.lower(), 443).allowed


@given(fours)
@example(ipaddress.IPv4Address("127.0.0.1"))
def test_an_address_within_another_is_no_more_public(address: ipaddress.IPv4Address) -> None:
    public = is_public_address(str(address))

    assert is_public_address(f"::ffff:{address}") == is_public_address(f"64:ff9b::{address}") == public
    assert not is_public_address(f"::{address}")
    assert not is_public_address(str(ipaddress.IPv6Address((0x2002 << 112) | (int(address) << 80))))
    assert canonical_address(f"::ffff:{address}") == parse_one_host(f"::ffff:{address}") == str(address)
    assert str(address) in address_forms(f"64:ff9b::{address}")
    assert public <= address.is_global


@given(nets, names, addresses)
def test_a_name_leads_inside_only_where_the_address_is_granted(
    net: NetPolicy, name: str, address: str
) -> None:
    may_dial = Rules(net).may_dial(name, 443, address, is_public=is_public_address(address))
    host = f"[{address}]" if ":" in address else address
    is_loopback = ipaddress.ip_address(address).is_loopback

    if may_dial:
        assert address not in net.deny
        assert (
            is_public_address(address) or f"https:{host}" in net.allow or (is_localhost(name) and is_loopback)
        )
