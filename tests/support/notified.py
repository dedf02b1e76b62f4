"""Commands whose connections the kernel asks corral about, with a proxy that only listens."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import stat
import sys
import traceback
from importlib import import_module
from pathlib import Path

from corral.host.real import RealHost
from corral.linux import landlock
from corral.linux.bpf import compile_filter
from corral.linux.encode import encode
from corral.linux.filter import SocketPolicy, default_filter
from corral.linux.listening import listened, with_questions
from corral.linux.spec import GatewayFlag, GatewaySockets, Landlock, Spec
from corral.linux.syscalls import Arch
from corral.model.launch import Front, GatewayRequest, Launch
from corral.network.fronts.notify import Notified
from corral.runtime.launcher.spawn import spawn
from corral.runtime.status import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from corral.network.fronts.notify import Target

SECONDS = 20.0


def _interpreter() -> str:
    """This one, if others may run it; the system's otherwise."""
    real = Path(sys.executable).resolve()
    is_reachable = all(path.stat().st_mode & stat.S_IXOTH for path in (real, *real.parents))
    return str(real) if is_reachable else "/usr/bin/python3"


PYTHON = (_interpreter(), "-I", "-S", "-c")
PRELUDE = """
import ctypes, errno, fcntl, json, os, socket, struct, sys, threading, time
PORT = int(os.environ["PORT"])
libc = ctypes.CDLL(None, use_errno=True)

def name(error):
    return errno.errorcode.get(error.errno, str(error))

def connect(address, port=PORT, family=socket.AF_INET, kind=socket.SOCK_STREAM, protocol=0):
    with socket.socket(family, kind, protocol) as sock:
        sock.connect((address, port))
        return sock.recv(100).decode()

def attempt(function, *arguments, **named):
    try:
        return function(*arguments, **named)
    except OSError as error:
        return name(error)

def tell(value):
    print(json.dumps(value), flush=True)
"""


class Listening:
    """A socket that greets whoever comes, from the test's own loop, and counts."""

    def __init__(self, address: str, port: int = 0, family: int = socket.AF_INET) -> None:
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind((address, port))
        self.socket.listen(1024)
        self.socket.setblocking(False)
        self.port: int = self.socket.getsockname()[1]
        self.greeting = address.encode()
        self.met = 0

    def serve(self) -> None:
        """Greet all that are there."""
        with contextlib.suppress(BlockingIOError):
            while True:
                client, _ = self.socket.accept()
                self.met += 1
                with client, contextlib.suppress(OSError):
                    client.sendall(self.greeting)

    def close(self) -> None:
        self.socket.close()


class Command:
    """One script in the launcher, and what it told."""

    def __init__(self, script: str, port: int, *, walls: str = "both", notifies: bool = True) -> None:
        host = RealHost()
        rules = default_filter(sockets=SocketPolicy.PROXIED, private_ipc_by_filter=True)
        arch = Arch(host.machine)
        abi = host.landlock_abi()
        spec = Spec(
            argv=(*PYTHON, PRELUDE + script),
            cwd="/",
            env=(("PORT", str(port)),),
            gateway=GatewaySockets((), GatewayFlag.NOTIFY) if notifies else None,
            landlock=Landlock(0, landlock.handled_net(abi), 0) if walls == "both" else None,
            seccomp=compile_filter(with_questions(rules) if notifies else rules, arch)
            if walls != "none"
            else b"",
            listens=tuple(listened(arch)) if notifies else (),
        )
        launch = Launch("landlock", (host.launcher()[0],), (), {}, gateway=GatewayRequest(Front.PROXY))
        self._output, written = os.pipe()
        null = os.open(os.devnull, os.O_RDONLY)
        try:
            self._process = spawn(launch, encode(spec), (null, written, written))
        finally:
            os.close(null)
            os.close(written)
        self.status = Status(is_socket=True)
        self.notified: Notified | None = None
        self.output = b""
        self.refused: list[tuple[str, int]] = []
        self.details: list[str] = []
        self.granted: set[tuple[str, int]] = set()
        self.relayed: list[tuple[str, int]] = []
        self._port = port

    def begin(self) -> None:
        """Wait until the launcher has sent the listener, and answer from now on."""
        os.set_blocking(self._process.status, False)
        while not self.status.given:
            select.select([self._process.status], [], [], SECONDS)
            assert self.status.read(self._process.status), self.status
        (listener,) = self.status.take_given()
        self.notified = Notified(listener, self._port, self)

    def may_reach(self, target: Target) -> bool:
        return (target.address, target.port) in self.granted

    def relay(self, client: socket.socket, target: Target) -> None:
        self.relayed.append((target.address, target.port))
        with client:
            client.sendall(b"relayed")

    def refuse(self, target: Target, detail: str) -> None:
        self.refused.append((target.address, target.port))
        self.details.append(detail)

    def handshake(self, *listeners: Listening, until: Callable[[], bool] | None = None) -> list[Any]:
        """Serve until the script has ended, or something is so; what it told."""
        watched = [self._output, *(each.socket for each in listeners)]
        while until is None or not until():
            ready, _, _ = select.select(watched, [], [], SECONDS)
            assert ready, f"nothing more came: {self.output!r}"
            for listener in listeners:
                listener.serve()
            if self._output in ready:
                piece = os.read(self._output, 65536)
                self.output += piece
                if not piece:
                    break
        for listener in listeners:
            listener.serve()
        return [json.loads(line) for line in self.output.splitlines()]

    def end(self) -> None:
        """End everything, whatever is still there."""
        if self.notified is not None:
            self.notified.close()
        os.close(self._process.lifeline)
        os.close(self._process.status)
        os.close(self._output)
        os.waitpid(self._process.pid, 0)


def run(
    script: str,
    *listeners: Listening,
    walls: str = "both",
    notifies: bool = True,
    granted: tuple[tuple[str, int], ...] = (),
) -> tuple[list[Any], Command]:
    """A whole script; the first listener is the proxy. `granted`: addresses that may be connected to."""
    command = Command(script, listeners[0].port, walls=walls, notifies=notifies)
    command.granted.update(granted)
    try:
        if notifies:
            command.begin()
        return command.handshake(*listeners), command
    finally:
        command.end()


def as_user(number: int, work: Callable[[], Any]) -> Any:
    """What a function returns in a process of another user; its failure is this one's."""
    for module in ("ctypes", "ipaddress", "fcntl", "hmac"):  # where he may not read, they are there already
        import_module(module)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(read_end)
            if number != os.geteuid():
                os.setgroups([])
                os.setresgid(number, number, number)
                os.setresuid(number, number, number)
            os.write(write_end, json.dumps(work()).encode())
            code = 0
        except BaseException:
            os.write(write_end, traceback.format_exc().encode())
        finally:
            os._exit(code)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, (status, answer.decode())
    return json.loads(answer)
