"""Sandboxes without a launcher: whether they can be watched over here, and why one never stood."""

from __future__ import annotations

import os

from corral.model.errors import SetupError, UnenforceableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.launch import Launch
    from corral.runtime.status import Status

_NOT_FOUND = 127


def check_platform() -> None:
    """Raise UnenforceableError where the runner cannot notice that a command has ended: before it starts."""
    if not hasattr(os, "pidfd_open"):
        raise UnenforceableError(
            "platform",
            "commands cannot be run on this platform",
            why="the runner needs Linux: it watches processes and protected names by what only Linux has",
            fix="use corral on Linux, or inside a virtual machine with Linux",
        )


def explain_missing(launch: Launch, status: Status, stderr: bytes) -> SetupError:
    """The error for it. What the program printed is the reason, as far as it was captured."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    how = f"signal {status.signal}" if status.signal is not None else f"status {status.exit_code}"
    why = lines[-1][:300] if lines else f"{launch.argv[0]} ended with {how}"
    if status.exit_code == _NOT_FOUND:
        return SetupError(
            "exec",
            "the command could not be started",
            why=why,
            fix="check the name; programs outside the granted paths can be added with --read",
            exit_status=_NOT_FOUND,
        )
    return SetupError(
        "sandbox",
        f"the sandbox of the backend {launch.backend} was not made",
        why=why,
        fix="run `corral doctor`, and the command again; what it printed says more",
    )
