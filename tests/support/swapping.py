"""Another process that exchanges two names as fast as it can, as a command in a sandbox would."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SCRIPT = """
import ctypes, os, select, sys
exchange = ctypes.CDLL(None).renameat2
first, second = (os.fsencode(path) for path in sys.argv[1:])
if exchange(-100, first, -100, second, 2):
    sys.exit("renameat2 failed")
print("ready", flush=True)
while True:
    for _ in range(100):
        exchange(-100, first, -100, second, 2)
    if select.select([0], [], [], 0)[0]:
        break
"""


@contextmanager
def swapping(first: Path, second: Path) -> Iterator[None]:
    """Until the block ends, `first` and `second` change places all the time."""
    with subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, str(first), str(second)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as swapper:
        assert swapper.stdout is not None and swapper.stdin is not None
        assert swapper.stdout.readline() == b"ready\n"
        try:
            yield
        finally:
            swapper.stdin.close()
            assert swapper.wait() == 0
