"""Stage: the surroundings of one leg of one probe. Everything on it is a canary, and is gone afterwards."""

from __future__ import annotations

import os
import socket
import stat as stat_bits
import subprocess
import tempfile
from contextlib import ExitStack

from corral.host.real import RealHost
from corral.model.container import Container
from corral.untrusted_files.removal import remove_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

_READ_BYTES = 65_536
#: A victim ends by itself, even if corral is killed before it can clean up.
_VICTIM_SECONDS = "60"


class Stage:
    """A fresh directory with `ws` (the workspace), `out` (outside of it), `home`, `tmp` and `state`.

    `secret` lies on the host and is never given to the attack; `token` is given to it, to leave somewhere.
    """

    def __init__(self) -> None:
        self._cleanup = ExitStack()
        self.token = os.urandom(12).hex()
        self.secret = os.urandom(12).hex()
        self.sentinel = os.urandom(12).hex()
        self.arguments: list[str] = []  # more of them for the attack
        self.environment: dict[str, str] = {}  # what the caller of corral has in its environment
        self.inherited: list[int] = []  # descriptors that the caller forgot to close
        self.remembered: dict[str, object] = {}
        self._sockets: dict[str, socket.socket] = {}

    def __enter__(self) -> Self:
        self.base = os.path.realpath(tempfile.mkdtemp(prefix="corral-selftest-"))
        self._cleanup.callback(remove_tree, *os.path.split(self.base))
        for name in ("ws", "out", "home", "tmp", "state"):
            os.mkdir(self.at(name))
        self.workspace = self.at("ws")  # a setup may choose another
        self.write("out/secret", self.secret)
        self.write("home/.ssh/id_ed25519", self.secret)
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def at(self, name: str) -> str:
        """The absolute path of something on the stage."""
        return os.path.join(self.base, name)

    def on_leaving(self, function: Callable[[], object]) -> None:
        """Have something undone at the end, whatever happens."""
        self._cleanup.callback(function)

    def write(self, name: str, text: str = "", *, mode: int = 0o644) -> str:
        """Put a file on the stage, with the directories above it."""
        path = self.at(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def read(self, name: str) -> str:
        """The beginning of a regular file; empty for anything else. Never waits, whatever the attack left."""
        try:
            descriptor = os.open(self.at(name), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return ""
        try:
            if not stat_bits.S_ISREG(os.fstat(descriptor).st_mode):
                return ""
            return os.read(descriptor, _READ_BYTES).decode("utf-8", "replace")
        finally:
            os.close(descriptor)

    def repository(self, name: str = "ws", *, directory: str = ".git") -> None:
        """A git repository as `git init` makes it, without the need for git."""
        git = f"{name}/{directory}"
        self.write(f"{git}/HEAD", "ref: refs/heads/main\n")
        self.write(f"{git}/config", "[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
        self.write(f"{git}/hooks/pre-commit.sample", "#!/bin/sh\n", mode=0o755)
        self.write(f"{git}/info/exclude", "")
        for part in ("objects/info", "objects/pack", "refs/heads"):
            os.makedirs(self.at(f"{git}/{part}"))

    def listen(self, name: str, family: int, kind: int, address: object) -> socket.socket:
        """A listener that only counts: whoever connects or sends is found in the kernel's queue later."""
        server = socket.socket(family, kind)
        self._cleanup.callback(server.close)
        server.bind(address)  # type: ignore[arg-type]
        if kind != socket.SOCK_DGRAM:
            server.listen(8)
        server.setblocking(False)
        self._sockets[name] = server
        return server

    def received_descriptor(self, name: str) -> int:
        """A descriptor that was sent to the socket, which the caller closes; -1 if there is none."""
        try:
            caller, _ = self._sockets[name].accept()
        except BlockingIOError:
            return -1
        with caller:
            _, descriptors, _, _ = socket.recv_fds(caller, 1, 1)
        return descriptors[0] if descriptors else -1

    def has_received(self, name: str) -> bool:
        """Whether anybody connected or sent something."""
        server = self._sockets[name]
        try:
            if server.type == socket.SOCK_DGRAM:
                server.recv(_READ_BYTES)
            else:
                server.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def victim(self, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """A process of the host that does no harm and takes all of it."""
        process = subprocess.Popen(
            ["sleep", _VICTIM_SECONDS],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
        )
        self._cleanup.callback(_end, process)
        return process


#: Attacks name the paths of the stage, so a container shows them where they are.
IN_PLACE = Container(workspace="")


class StagedHost(RealHost):
    """The real host, with the stage's home, environment and temporary directory."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.home = stage.at("home")
        self._environment = staged_environment(stage)
        self._temporary = stage.at("tmp")

    def environment(self) -> Mapping[str, str]:
        return self._environment

    def temporary_directory(self) -> str:
        return self._temporary


def staged_environment(stage: Stage) -> dict[str, str]:
    """What a shell of the staged user would have."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TERM", "USER") if name in os.environ}
    kept.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    return {**kept, "HOME": stage.at("home"), "TMPDIR": stage.at("tmp"), **stage.environment}


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
