"""The audit log as configured: where it lies, its key, and what to do where it cannot be written."""

from __future__ import annotations

import contextlib
import os

from corral.host.real import state_directory
from corral.model.errors import PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.audit.recorder import Recorder

_MOST_KEY_BYTES, _FEWEST_KEY_BYTES = 4096, 32


def audit_directory() -> str:
    """Where the log lies: in the state directory, out of every sandbox's reach. Raises PolicyError."""
    state = state_directory()
    if not state:
        raise PolicyError(
            "audit-missing",
            "there is no place for an audit log",
            why="you have no home directory",
            fix="set XDG_STATE_HOME",
        )
    return os.path.join(os.path.realpath(state), "audit")


def read_key(path: str) -> bytes:
    """The key of a log. Raises PolicyError for one that others can read, or that is too short."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            key = file.read(_MOST_KEY_BYTES)
    except OSError as problem:
        raise _bad_key(path, str(problem)) from None
    if status.st_mode & 0o077:
        raise _bad_key(path, "others than its owner can read it")
    if len(key) < _FEWEST_KEY_BYTES:
        raise _bad_key(path, f"it has less than {_FEWEST_KEY_BYTES} bytes")
    return key


def _bad_key(path: str, why: str) -> PolicyError:
    fix = f"make one: (umask 077; head -c 32 /dev/urandom > {path})"
    return PolicyError("audit-key", f"{path} cannot be the key of the audit log", why=why, fix=fix)


def make_recorder(rotate_bytes: int, on_failure: str, key: str, agent: str) -> Recorder:
    """What records runs. Makes the directory, so that a plan can hide it."""
    from corral.audit.log import AuditLog
    from corral.audit.recorder import Recorder

    directory = audit_directory()
    with contextlib.suppress(OSError):  # the first record says it, if that matters
        os.makedirs(directory, mode=0o700, exist_ok=True)
    log = AuditLog(directory, rotate_bytes=rotate_bytes, key=read_key(key) if key else None)
    return Recorder(log, agent=agent, on_failure=on_failure)
