"""Names: the synthetic address that each name has within one sandbox, and where the name leads to."""

from __future__ import annotations

import ipaddress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from corral.network.resolve import Addresses

MOST_NAMES = 4096
#: What a lookup found is dialled for so long; the next lookup after that asks again.
FRESH_SECONDS = 60.0
#: Reserved for tests of networks as well (RFC 5180). The last bits are the address that the name has in IPv4.
_PREFIX_6 = int(ipaddress.IPv6Address("2001:2::"))
_IPV4_BITS = 32


class NameEntry:
    """One name. INVARIANT: what is dialled for a name is what its last lookup found, and was checked."""

    __slots__ = ("address", "answers", "name", "resolved_at")

    def __init__(self, name: str, address: str) -> None:
        self.name, self.address = name, address
        self.answers: Mapping[int, Addresses] | None = None  # by port; 0: for each
        self.resolved_at = 0.0

    def is_fresh(self, now: float) -> bool:
        return self.answers is not None and now - self.resolved_at < FRESH_SECONDS

    def addresses(self, port: int) -> Addresses | None:
        """Where to go for a port, not yet checked; None if it was never asked."""
        if self.answers is None:
            return None
        if port in self.answers:
            return self.answers[port]
        if 0 in self.answers:
            return tuple((address, port) for address, _ in self.answers[0])
        return None

    def has_ipv6(self) -> bool:
        """Whether the name has such an address, by whatever port."""
        found = () if self.answers is None else self.answers.values()
        return any(":" in address for addresses in found for address, _ in addresses)


class Names:
    """A bounded table; the names that were used least recently are forgotten.

    Addresses are given out in turn, so that one which was forgotten is nobody's for as long as possible: a
    program that kept it is refused, and does not reach another host.
    """

    def __init__(self, range_text: str, most: int = MOST_NAMES) -> None:
        network = ipaddress.ip_network(range_text)
        if network.version != 4 or network.num_addresses < 4 * most:
            raise ValueError(f"{range_text} is too small for {most} names")
        self._is_loopback = network.is_loopback
        self._first, self._count = int(network.network_address) + 1, network.num_addresses - 2
        self._most, self._next = most, 0
        self._by_name: dict[str, NameEntry] = {}  # the least recently used first
        self._by_address: dict[str, NameEntry] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def give(self, name: str) -> NameEntry:
        """The entry of a name, made if there is none."""
        entry = self._by_name.pop(name, None)
        if entry is None:
            if len(self._by_name) >= self._most:
                oldest = self._by_name.pop(next(iter(self._by_name)))
                del self._by_address[oldest.address]
            entry = NameEntry(name, self._free_address())
            self._by_address[entry.address] = entry
        self._by_name[name] = entry
        return entry

    def find(self, address: str) -> NameEntry | None:
        """Whose address it is."""
        entry = self._by_address.get(_in_ipv4(address))
        if entry is not None:
            self._by_name[entry.name] = self._by_name.pop(entry.name)
        return entry

    def covers(self, address: str) -> bool:
        """Whether an address is one of those that are given out, to whomever."""
        address = _in_ipv4(address)
        if ":" in address:
            return False
        return self._first - 1 <= int(ipaddress.IPv4Address(address)) <= self._first + self._count

    def in_ipv6(self, address: str) -> str:
        """Another spelling of an address that was given out, for clients that want one of IPv6."""
        if self._is_loopback:  # there is no route for others; this one is reached by IPv4, unnoticed
            return f"::ffff:{address}"
        return str(ipaddress.IPv6Address(_PREFIX_6 | int(ipaddress.IPv4Address(address))))

    def _free_address(self) -> str:
        while True:
            address = str(ipaddress.IPv4Address(self._first + self._next))
            self._next = (self._next + 1) % self._count
            if address not in self._by_address:
                return address


def _in_ipv4(address: str) -> str:
    """The spelling that is kept; addresses that are not ours stay as they are."""
    if ":" not in address:
        return address
    number = int(ipaddress.IPv6Address(address))
    if number >> _IPV4_BITS != _PREFIX_6 >> _IPV4_BITS:
        return address
    return str(ipaddress.IPv4Address(number & ((1 << _IPV4_BITS) - 1)))


def plain_address(address: str) -> str:
    """IPv4 in its own form; and without the zone, which says nothing here."""
    from corral.model.network.addresses import canonical_address

    return canonical_address(address.partition("%")[0])
