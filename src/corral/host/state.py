"""State: small files that corral keeps for itself, in a directory that no command is ever granted."""

from __future__ import annotations

import os

from corral.host.real import state_directory


def read_state(name: str, most_bytes: int) -> bytes:
    """A file of the state directory; empty if it is not there, not the caller's own, or too large."""
    directory = state_directory()
    if not directory:
        return b""
    try:
        descriptor = os.open(os.path.join(directory, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or status.st_size > most_bytes:
            return b""
        return os.read(descriptor, most_bytes)
    except OSError:  # a directory, for one
        return b""
    finally:
        os.close(descriptor)


def write_state(name: str, data: bytes) -> None:
    """Replace a file as a whole. Raises OSError; FileNotFoundError where there is no place for it."""
    directory = state_directory()
    if not directory:
        raise FileNotFoundError(2, "there is no home directory", name)
    path = os.path.join(directory, name)
    temporary = f"{path}.{os.getpid()}"
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.rename(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
