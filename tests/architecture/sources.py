"""What the architecture tests read: corral's own files, parsed."""

from __future__ import annotations

import ast
import gc
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


@cache
def parse(path: Path) -> ast.Module:
    """Parsed once. The collector never looks at all that again: it would slow down every later test."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    gc.freeze()
    return tree


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All that is in a file, in the order of `ast.walk`."""
    return tuple(ast.walk(parse(path)))


def shown(path: Path) -> str:
    """A path as messages name it."""
    return str(path.relative_to(ROOT))


def imported_modules(path: Path) -> Iterator[tuple[str, int]]:
    """(module, line) of every import: at the top, inside functions, and those for type checkers only.

    `from a.b import c` yields `a.b.c`: whether c is a module or a name in one makes no difference here.
    """
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise AssertionError(f"{shown(path)}:{node.lineno}: a relative import hides its layer")
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


@cache
def calls(path: Path) -> list[tuple[str, ast.Call]]:
    """(dotted name, call) of every call of a plain or dotted name."""
    named = [(ast.unparse(node.func), node) for node in nodes(path) if isinstance(node, ast.Call)]
    return [(name, node) for name, node in named if all(part.isidentifier() for part in name.split("."))]
