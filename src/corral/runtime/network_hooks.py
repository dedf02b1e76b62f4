"""Hooks of the network: where the sockets of a sandbox's own network go when they come from its launcher."""

from __future__ import annotations

import contextlib
import os

from corral.model.errors import SetupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.model.network.sandbox_network import SandboxNetwork
    from corral.model.violation import Violation
    from corral.runtime.status import Status


#: For what a command has sent right before it ended.
_LAST_WORDS_SECONDS = 2.0


def connect_network(status: Status, network: SandboxNetwork | None) -> None:
    """Hand on what has come: from now on somebody answers inside. Raises SetupError; then nobody does."""
    if not status.given or network is None:
        return
    try:
        network.attach(status.take_given())
    except OSError as problem:
        raise SetupError(
            "net",
            "the network of the sandbox could not be connected",
            why=problem.strerror or str(problem),
            fix="close files that are no longer used, or raise the limit on open files",
            ran=status.started,
        ) from problem


def listening(
    network: SandboxNetwork | None, hear: Callable[[Violation], None]
) -> contextlib.AbstractContextManager[None]:
    """Tell somebody at once what is refused, where there is a network."""
    return network.listening(hear) if network is not None else contextlib.nullcontext()


def settle_network(status: Status, network: SandboxNetwork | None) -> None:
    """A command has ended by itself: what it sent last is passed on. It may have been quicker than we."""
    if network is not None and status.exit_code is not None:
        connect_network(status, network)
        network.settle(_LAST_WORDS_SECONDS)


def close_network(status: Status, network: SandboxNetwork | None) -> None:
    """INVARIANT: no connection outlives the sandbox, and no socket that nobody took."""
    for descriptor in (*status.take_given(), *status.areas):
        os.close(descriptor)
    status.areas.clear()
    if network is not None:
        network.close()
