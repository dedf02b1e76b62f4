"""`reaches`: whether a confined command's bytes come to a socket of the host, as they do unconfined."""

from __future__ import annotations

import socket

from support.confinement import attempt, python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.bystanders import Listener
    from support.confinement import Case, Stage

_TCP = "import socket; s = socket.create_connection({address!r}, 5); s.sendall(b'hi'); s.close()"
_UDP = "import socket; socket.socket(2, 2).sendto(b'hi', {address!r})"


def reaches(case: Case, stage: Stage, listener: Listener, *capabilities: str) -> bool:
    """Try it at the listener's own address, in three legs."""
    script = _TCP if listener.is_stream else _UDP
    done = attempt(
        case,
        stage,
        python(script.format(address=listener.address[:2])),
        effect=lambda _: listener.take() != b"",
        capabilities=capabilities,
    )
    return done.worked


def own_address() -> str:
    """An address of this machine other than loopback; no packet is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as finder:
        try:
            finder.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.2"
        return str(finder.getsockname()[0])
