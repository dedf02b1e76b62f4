"""The measuring program: built from measure.c, and its output understood."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("measure.c")
_FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-pthread")


def build_measure(directory: Path) -> Path:
    """Compile it, static, so that it runs in any root. Raises OSError with what the compiler said."""
    binary = directory / "measure"
    line = ["cc", *_FLAGS, "-o", str(binary), str(SOURCE)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"measure.c was not compiled: {done.stderr}")
    return binary


def last_got(output: str) -> float:
    """The number in the last `got` line. Raises ValueError if there is none: then nothing was measured."""
    numbers = [float(line.split()[1]) for line in output.splitlines() if line.startswith("got ")]
    if not numbers:
        raise ValueError(f"nothing was measured: {output!r}")
    return numbers[-1]
