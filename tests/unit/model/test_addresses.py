"""Addresses: which are public, and that each has one form."""

from __future__ import annotations

import ipaddress

import pytest

from corral.model.network.addresses import address_forms, canonical_address, is_public_address

PUBLIC = [
    *("1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"),
    *("128.0.0.0", "169.253.255.255", "172.15.255.255", "172.32.0.0", "192.167.255.255", "198.17.255.255"),
    *(
        "198.20.0.0",
        "223.255.255.255",
        "168.63.129.15",
        "168.63.129.17",
        "2606:4700::1111",
        "2001:4860::8888",
    ),
    *("2a00::1", "3ffe::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "64:ff9b::808:808"),
]
NOT_PUBLIC = [
    # Of the machine and of its networks; unspecified, broadcast, multicast, reserved.
    *("127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.5", "172.16.0.1", "172.31.255.255"),
    *("192.168.1.1", "100.64.0.1", "100.100.100.200", "169.254.169.254", "224.0.0.1", "239.255.255.255"),
    *("240.0.0.1", "255.255.255.255", "192.0.0.192", "192.0.2.1", "198.18.0.1", "198.19.255.255"),
    *("198.51.100.1", "203.0.113.1", "192.88.99.1", "168.63.129.16"),
    *("::", "::1", "fe80::1", "fc00::1", "fd00:ec2::254", "fd20:ce::254", "fec0::1", "ff02::1", "100::1"),
    *("2001:db8::1", "3fff::1", "2001:10::1", "2001:20::1", "4000::1", "5f00::1", "1fff::1"),
    # IPv4 in IPv6: mapped, compatible, translated, 6to4, Teredo, NAT64 with its own prefix.
    *("::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:169.254.169.254", "::127.0.0.1", "::8.8.8.8", "::7f00:1"),
    *(
        "::ffff:0:127.0.0.1",
        "::ffff:0:8.8.8.8",
        "64:ff9b::127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::10.0.0.5",
    ),
    *("64:ff9b:1::8.8.8.8", "64:ff9b:1::10.0.0.1", "2002:7f00:1::1", "2002:808:808::1"),
    *("2001:0:4136:e378:8000:63bf:80ff:fffe", "2001::1"),
    # What is no address in its usual form, and what only some hosts understand.
    *("", " ", "localhost", "example.com", "127.1", "0x7f.1", "0x08080808", "134744072", "08.8.8.8", "8.8.8"),
    *("8.8.8.8.", " 8.8.8.8", "8.8.8.8\n", "8.8.8.8/32", "[2606:4700::1111]", "2606:4700::1111%eth0"),
    *(
        "::ffff:8.8.8.8%1",
        "8.8.8.8%eth0",
        "8.8.8.8\x00",
        "２.2.2.2",
        "1.1.1.1@8.8.8.8",
        "256.1.1.1",
        ":",
        "1::2::3",
    ),
]


@pytest.mark.parametrize("text", PUBLIC)
def test_a_host_of_the_internet_is_public(text: str) -> None:
    assert is_public_address(text)


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_all_else_is_not(text: str) -> None:
    assert not is_public_address(text)


def _edges(version: int) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """The first and last address of every block in the standard library's table, and their neighbours."""
    table = ipaddress._IPv4Constants if version == 4 else ipaddress._IPv6Constants
    make = ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address
    most = (1 << (32 if version == 4 else 128)) - 1
    ends = [int(end) for block in table._private_networks for end in (block[0], block[-1])]
    return [make(number) for end in ends for number in (end - 1, end, end + 1) if 0 <= number <= most]


def test_nothing_is_public_that_the_standard_library_does_not_call_global() -> None:
    """Its own table differs from version to version; ours may be narrower, and never wider."""
    steps = [ipaddress.ip_address(number << 12) for number in range(0, 1 << 20, 101)] + _edges(4)
    sixes = [ipaddress.IPv6Address((number << 112) | 1) for number in range(0, 1 << 16, 11)] + _edges(6)

    assert [
        str(each) for each in (*steps, *sixes) if is_public_address(str(each)) and not each.is_global
    ] == []
    assert any(is_public_address(str(each)) for each in steps)
    assert any(is_public_address(str(each)) for each in sixes)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("10.0.0.5", "10.0.0.5"),
        ("::ffff:10.0.0.5", "10.0.0.5"),
        ("::FFFF:0A00:0005", "10.0.0.5"),
        ("0:0:0:0:0:ffff:10.0.0.5", "10.0.0.5"),
        ("::ffff:10.0.0.5%eth0", "10.0.0.5"),
        ("2606:4700:0:0::1111", "2606:4700::1111"),
        ("FE80::1%eth0", "fe80::1"),
        ("::0001", "::1"),
        ("::127.0.0.1", "::7f00:1"),
    ],
)
def test_an_address_has_one_form(text: str, canonical: str) -> None:
    assert canonical_address(text) == canonical
    assert canonical_address(canonical) == canonical


@pytest.mark.parametrize(
    "text", ["", "localhost", "127.1", "0x7f.1", "2130706433", "010.0.0.1", "[::1]", "::1%"]
)
def test_what_is_no_address_has_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"IPv4|Invalid"):
        canonical_address(text)
    assert address_forms(text) == ()


def test_a_translated_address_has_two_forms() -> None:
    assert address_forms("64:ff9b::1.2.3.4") == ("64:ff9b::102:304", "1.2.3.4")
    assert address_forms("::ffff:1.2.3.4") == ("1.2.3.4",)
    assert address_forms("2606::1%1") == ("2606::1",)
