"""What a caller gives for a command, in the form that runs are made of: the same for all ways to run one."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.runtime.destinations import Destinations, Stream, Target


def arguments_of(command: str | Sequence[str]) -> tuple[str, ...]:
    """The arguments of a command: a text is given to a shell, a sequence is not. Empty: there is none."""
    if isinstance(command, str):
        return ("/bin/sh", "-c", command) if command.strip() else ()
    return tuple(map(os.fspath, command))


def bytes_of(text: bytes | str) -> bytes:
    """What is fed to a command or put into a file; names of files that are not UTF-8 pass unharmed."""
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text


def destinations_of(
    stream: Stream | None, stdout: Target | None, stderr: Target | None
) -> Destinations | None:
    """Where output is to go besides the result; None: nowhere."""
    if stream is None and stdout is None and stderr is None:
        return None
    from corral.runtime.destinations import Destinations

    return Destinations(stream, stdout, stderr)
