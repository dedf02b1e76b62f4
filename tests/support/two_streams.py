"""Pairs of descriptors for stdout and stderr that look like one file and are not."""

from __future__ import annotations

import os
import select
import subprocess
import tty
from contextlib import ExitStack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def _pending(descriptor: int) -> bytes:
    """What was written already: whoever wrote it has ended."""
    found = b""
    while select.select([descriptor], [], [], 0)[0]:
        found += os.read(descriptor, 4096)
    return found


def run_on_two_masters(line: Sequence[str], cwd: Path) -> tuple[bytes, bytes]:
    """Run a command whose streams are the masters of two terminals; what came out of each of these."""
    with ExitStack() as stack:
        pairs = [os.openpty(), os.openpty()]
        for descriptor in (*pairs[0], *pairs[1]):
            stack.callback(os.close, descriptor)
        for _, slave in pairs:
            tty.setraw(slave)
        (out, out_end), (err, err_end) = pairs
        subprocess.run(line, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=err, check=True)
        return _pending(out_end), _pending(err_end)


def run_with_a_closed_stdout(line: Sequence[str], cwd: Path, file: Path) -> bytes:
    """Run a command whose streams are one file, which is open for reading only as stdout; what is in it."""
    file.write_bytes(b"")
    with open(file, "rb") as out, open(file, "wb") as err:
        subprocess.run(line, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=err, check=False)
    return file.read_bytes()
