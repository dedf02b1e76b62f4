"""What the architecture tests read: corral's own files, parsed."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "corral"
LAUNCHER = ROOT / "launcher"


def python_files() -> list[Path]:
    """Every module of the package."""
    return sorted(PACKAGE.rglob("*.py"))


@cache  # for the tests of one module: see conftest.py
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def shown(path: Path) -> str:
    """A path as messages name it."""
    return str(path.relative_to(ROOT))


def imported_modules(path: Path) -> Iterator[tuple[str, int]]:
    """(module, line) of every import: at the top, inside functions, and those for type checkers only.

    `from a.b import c` yields `a.b.c`: whether c is a module or a name in one makes no difference here.
    """
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise AssertionError(f"{shown(path)}:{node.lineno}: a relative import hides its layer")
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """(dotted name, call) of every call of a plain or dotted name."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if all(part.isidentifier() for part in name.split(".")):
                yield name, node
