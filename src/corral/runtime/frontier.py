"""Frontier: where the sockets of a sandbox's own network go when they come from its launcher."""

from __future__ import annotations

import os

from corral.model.errors import SetupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.border import Border
    from corral.runtime.status import Status


#: For what a command has sent right before it ended.
_LAST_WORDS_SECONDS = 2.0


def connect_border(status: Status, border: Border | None) -> None:
    """Hand on what has come: from now on somebody answers inside. Raises SetupError; then nobody does."""
    if not status.given or border is None:
        return
    try:
        border.attach(status.take_given())
    except OSError as problem:
        raise SetupError(
            "net",
            "the network of the sandbox could not be connected",
            why=problem.strerror or str(problem),
            fix="close files that are no longer used, or raise the limit on open files",
            ran=status.started,
        ) from problem


def settle_border(status: Status, border: Border | None) -> None:
    """A command has ended by itself: what it sent last is passed on. It may have been quicker than we."""
    if border is not None and status.exit_code is not None:
        connect_border(status, border)
        border.settle(_LAST_WORDS_SECONDS)


def close_border(status: Status, border: Border | None) -> None:
    """INVARIANT: no connection outlives the sandbox, and no socket that nobody took."""
    for descriptor in status.take_given():
        os.close(descriptor)
    if border is not None:
        border.close()
