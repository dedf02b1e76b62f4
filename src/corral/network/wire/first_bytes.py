"""Heads: what a connection says first, looked at before any byte of it is passed on."""

from __future__ import annotations

from corral.model.network.connection import is_loopback
from corral.model.network.endpoint import LOCALHOST, is_address
from corral.model.network.traffic import NetReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.network.connection import NetVerdict

_TLS_HANDSHAKE = 0x16
_THIS_MACHINE = (LOCALHOST, "127.0.0.1", "::1")


class Refused(Exception):
    """The connection is not what was permitted."""

    def __init__(self, reason: NetReason, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


class TlsHead:
    """The name of a ClientHello has to be the one that was looked up."""

    def __init__(self, hosts: tuple[str, ...], *, checks_names: bool) -> None:
        self._hosts, self._checks_names = hosts, checks_names

    def accepts(self, data: bytes) -> bool:
        """Whether all is well; False if more has to come. Raises Refused."""
        from corral.network.wire.tls import HelloState, read_server_name

        found = read_server_name(data)
        if found.state is HelloState.MORE:
            return False
        if found.state is HelloState.NOT_TLS:
            raise Refused(NetReason.NOT_TLS)
        if found.state is HelloState.MALFORMED:
            raise Refused(NetReason.NOT_TLS, "it is malformed")
        if not self._checks_names:
            return True
        if found.state is HelloState.ABSENT:
            if any(map(is_address, self._hosts)):  # TLS has no way to name an address (RFC 6066, 3)
                return True
            raise Refused(NetReason.NO_NAME, "TLS without a server name")
        if found.name not in self._hosts:
            raise Refused(NetReason.OTHER_NAME, f"TLS asks for {found.name}")
        return True


def known_as(host: str) -> tuple[str, ...]:
    """What a client may call the host that it has connected to: this machine has more than one name."""
    if host == LOCALHOST or is_loopback(host):
        return (host, *(other for other in _THIS_MACHINE if other != host))
    return (host,)


def needs_look(verdict: NetVerdict, *, checks_names: bool) -> bool:
    """Whether what is said first decides, or anything may be said."""
    if "tcp" in verdict.schemes:
        return False
    return checks_names or "https" in verdict.schemes


def is_for_tls(verdict: NetVerdict, first: int) -> bool:
    """By which of the two permitted protocols a connection is to be judged, by its first byte."""
    return "http" not in verdict.schemes or ("https" in verdict.schemes and first == _TLS_HANDSHAKE)
