"""What a container needs besides its engine: an image, fetched where that is permitted; open ports."""

from __future__ import annotations

import os
import select
import signal
import socket
import time

from corral.limits.open_files import start_process
from corral.model.errors import SetupError
from corral.runtime.starter import Abandoned
from corral.streams.stdio import IGNORED_BY_PYTHON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from corral.model.launch import Fetch, Launch

_LOOK_SECONDS = 20.0
#: For a registry that says nothing any more; whoever waits can interrupt it sooner.
_FETCH_SECONDS = 1800.0
_WORDS_BYTES = 4096
_LISTENING = {"tcp": "0A", "udp": "07"}  # of the states in /proc/net: proc(5)
_ANYWHERE = {"0.0.0.0", "::"}  # noqa: S104


def fetch_image(launch: Launch, wake: int, say: Callable[[str], None] | None) -> tuple[str, ...]:
    """Have the engine fetch an image that it lacks; returns what the result has to say of it.

    `say` is told before: it may take long. Raises SetupError, or Abandoned when `wake` becomes readable.
    """
    fetch = launch.outer.fetch if launch.outer is not None else None
    if fetch is None or _ask(launch, fetch.look, _LOOK_SECONDS, wake)[0] == 0:
        return ()
    if say is not None:
        say(f"{launch.backend} has no image {fetch.image}, and fetches it")
    status, words = _ask(launch, fetch.pull, _FETCH_SECONDS, wake)
    if status != 0:
        raise _not_fetched(launch, fetch, words)
    status, identity = _ask(launch, fetch.look, _LOOK_SECONDS, wake)
    if status != 0:
        raise _not_fetched(launch, fetch, identity)
    return (f"the image {fetch.image} was fetched by {launch.backend}: {identity}",)


def _not_fetched(launch: Launch, fetch: Fetch, words: str) -> SetupError:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return SetupError(
        "image-pull",
        f"the image {fetch.image!r} could not be fetched",
        why=lines[-1][:300] if lines else f"{launch.backend} said nothing",
        fix=f"see what `{launch.backend} pull {fetch.image}` says, or use an image that is there",
    )


def _ask(launch: Launch, argv: tuple[str, ...], seconds: float, wake: int) -> tuple[int, str]:
    """Status and words of a program of the engine's. Raises Abandoned; then the program is gone."""
    words = os.memfd_create("corral-words", os.MFD_CLOEXEC)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pid = start_process(
            argv[0],
            argv,
            dict(launch.env),
            file_actions=[
                (os.POSIX_SPAWN_DUP2, source, target)
                for source, target in ((null, 0), (words, 1), (words, 2))
            ],
            setsid=True,
            setsigdef=IGNORED_BY_PYTHON,
            setsigmask=(),
        )
        status = _wait(pid, seconds, wake)
        size = os.fstat(words).st_size
        said = os.pread(words, _WORDS_BYTES, max(0, size - _WORDS_BYTES)).decode("utf-8", "replace")
        return status, said.strip()
    except OSError as problem:
        return 1, str(problem)
    finally:
        os.close(null)
        os.close(words)


def _wait(pid: int, seconds: float, wake: int) -> int:
    ending = os.pidfd_open(pid)
    poller = select.poll()
    for descriptor in (ending, wake):
        poller.register(descriptor, select.POLLIN)
    deadline = time.monotonic() + seconds
    ready: set[int] = set()
    try:
        while not ready and (left := deadline - time.monotonic()) > 0:
            ready = {descriptor for descriptor, _ in poller.poll(left * 1000)}
    finally:
        if ending not in ready:  # also when the wait itself was interrupted
            os.kill(pid, signal.SIGKILL)
        os.close(ending)
        _, status = os.waitpid(pid, 0)
    if wake in ready:
        raise Abandoned
    return os.waitstatus_to_exitcode(status)


def check_network(launch: Launch, pid: int) -> None:
    """Raise SetupError for a network that is not there, or a published port at which nobody listens.

    An engine that cannot make a bridge goes on without one, and says nothing.
    """
    if launch.outer is None:
        return
    if launch.outer.has_network and not _interfaces(pid) - {"lo"}:
        raise SetupError(
            "engine-network",
            f"{launch.backend} gave the container no network",
            why="it was told to make one of its own, and there is nothing but a loopback inside",
            fix=f"see `{launch.backend} network ls`; or leave out container.network and published ports",
        )
    _check_ports(launch, launch.outer.listens)


def _interfaces(pid: int) -> set[str]:
    with open(f"/proc/{pid}/net/dev", encoding="utf-8", errors="replace") as file:
        return {line.partition(":")[0].strip() for line in list(file)[2:]}


def _check_ports(launch: Launch, wanted: tuple[str, ...]) -> None:
    if not wanted:
        return
    open_now = set(_open_ports())
    for text in wanted:
        protocol, address, port = text.split()
        if not {(protocol, at, int(port)) for at in (_plain(address), *_ANYWHERE)} & open_now:
            raise SetupError(
                "port-closed",
                f"the port {port} of this machine does not lead into the container",
                why=f"nothing listens at {address} there, though {launch.backend} was told to publish it",
                fix=f"see that {launch.backend} has a network of its own (`{launch.backend} network ls`)",
            )


def _open_ports() -> Iterable[tuple[str, str, int]]:
    """Protocol, address and port of everything that listens in the caller's own network."""
    for protocol, state in _LISTENING.items():
        for family, suffix in ((socket.AF_INET, ""), (socket.AF_INET6, "6")):
            try:
                with open(f"/proc/self/net/{protocol}{suffix}", encoding="ascii") as file:
                    rows = [line.split() for line in file][1:]
            except OSError:  # there is no IPv6
                continue
            for row in rows:
                address, _, port = row[1].rpartition(":")
                if row[3] == state:
                    yield protocol, _read_address(address, family), int(port, 16)


def _read_address(text: str, family: int) -> str:
    """Words of 32 bits, each in the order of this machine's bytes."""
    import sys

    words = (int(text[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(text), 8))
    raw = b"".join(words)
    if family == socket.AF_INET6 and raw.startswith(b"\0" * 10 + b"\xff\xff"):  # IPv4 by a socket of IPv6
        return socket.inet_ntop(socket.AF_INET, raw[12:])
    return socket.inet_ntop(family, raw)


def _plain(address: str) -> str:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.inet_ntop(family, socket.inet_pton(family, address))
