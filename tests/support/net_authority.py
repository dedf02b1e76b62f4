"""An authority for certificates that nobody trusts but who is given its file, and what servers need."""

from __future__ import annotations

import ssl

import trustme

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Authority:
    """One for all tests of a session: keys take time. Certificates are real, and checked as any other."""

    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        self.file = folder / "authority.pem"
        self._authority.cert_pem.write_to_path(str(self.file))

    @property
    def text(self) -> str:
        """The certificate that clients have to trust."""
        return self.file.read_text()

    def server_context(
        self, names: Sequence[str], protocols: Sequence[str] = ("http/1.1",)
    ) -> ssl.SSLContext:
        """For a server that is these hosts and speaks these protocols (ALPN), the preferred one first."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._authority.issue_cert(*names).configure_cert(context)
        context.set_alpn_protocols(list(protocols))
        return context

    def client_context(self, protocols: Sequence[str] = ()) -> ssl.SSLContext:
        """For a client that trusts this authority alone."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._authority.configure_trust(context)
        if protocols:
            context.set_alpn_protocols(list(protocols))
        return context
