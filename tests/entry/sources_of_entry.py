"""Where the sources are, and a program of some of them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parents[2]


def compile_part(program: Path, names: Iterable[str], *flags: str) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    sources = [str(ROOT / name) for name in names]
    includes = (f"-I{ROOT}/launcher", f"-I{ROOT}/entry")
    subprocess.run(
        [compiler, "-std=c11", "-D_GNU_SOURCE", *flags, *includes, *sources, "-o", str(program)], check=True
    )
    return program
