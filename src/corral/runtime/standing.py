"""Explain a sandbox that never stood: its program ended, and the file that it makes is not there."""

from __future__ import annotations

from corral.model.errors import SetupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.launch import Launch
    from corral.runtime.status import Status

_NOT_FOUND = 127


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
