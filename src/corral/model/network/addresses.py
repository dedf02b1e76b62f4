"""Addresses: which are public, in whatever form they come. Imported only where a network is granted."""

from __future__ import annotations

import ipaddress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

#: Special-purpose blocks of IPv4 (the registry of IANA, RFC 6890): none of them is a host of the Internet.
_SPECIAL_4 = tuple(
    map(
        ipaddress.IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
            *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
            # Looks like any other, and is the host's own service for its virtual machines, at one provider.
            "168.63.129.16/32",
        ),
    )
)
#: Networks that people have at home and at work.
_OWN_NETWORKS = tuple(
    map(ipaddress.ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"))
)
#: Where clouds tell their machines who they are.
_METADATA = frozenset(
    {"169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "fd00:ec2::254", "fd00:ec2::23"}
)
#: All that is assigned to hosts of the Internet lies in here, but for these.
_GLOBAL_6 = ipaddress.IPv6Network("2000::/3")
_SPECIAL_6 = tuple(
    map(
        ipaddress.IPv6Network,
        # Protocol assignments with Teredo in them, documentation, and 6to4, which carries an IPv4 address.
        ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
)
#: Translated by a gateway to the IPv4 address in its last bits (RFC 6052).
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def is_public_address(text: str) -> bool:
    """Whether an address is one of a host of the Internet; what is no address is not, nor what has a zone."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text and _is_public(address)


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if address.version == 4:
        return not any(address in block for block in _SPECIAL_4)
    if address.ipv4_mapped is not None:
        return _is_public(address.ipv4_mapped)
    if address in _NAT64:
        return _is_public(_translated(address))
    return address in _GLOBAL_6 and not any(address in block for block in _SPECIAL_6)


def what_is_private(text: str) -> str:
    """What there is behind an address that is none of the Internet's; empty for all others."""
    forms = address_forms(text)
    if not forms or is_public_address(text):
        return ""
    last = forms[-1]
    if last in _METADATA:
        return "the metadata service of a cloud, which gives out credentials"
    address = ipaddress.ip_address(last)
    if address.is_loopback:
        return "this machine's own loopback"
    if address.is_link_local:
        return "an address of the local link, where metadata services are"
    is_own = any(address in block for block in _OWN_NETWORKS if block.version == address.version)
    return "an address of a private network" if is_own else "not a public address"


def canonical_address(text: str) -> str:
    """The one form by which an address is compared: a mapped IPv4 address is that IPv4 address.

    Zones are left out: what is denied is denied in each of them. Raises ValueError for what is no address.
    """
    return str(_parse(text))


def address_forms(text: str) -> tuple[str, ...]:
    """The canonical form, and that of the IPv4 address which a gateway translates it to; of none, nothing."""
    try:
        address = _parse(text)
    except ValueError:
        return ()
    if address.version == 6 and address in _NAT64:
        return str(address), str(_translated(address))
    return (str(address),)


def _parse(text: str) -> IPv4Address | IPv6Address:
    address = ipaddress.ip_address(text)
    if address.version == 4:
        return address
    return address.ipv4_mapped or ipaddress.IPv6Address(int(address))


def _translated(address: IPv6Address) -> IPv4Address:
    return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
