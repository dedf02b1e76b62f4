"""A module imports only from rows below its own; packages of the middle row never import each other."""

from __future__ import annotations

from sources import PACKAGE, imported_modules, python_files, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

#: From the bottom up (ARCHITECTURE.md, layers). Within SIBLINGS nobody knows of the others.
ROWS = (
    {"model"},
    {"policy", "programs", "git"},
    {"linux"},
    {"limits"},
    {"planning", "backends", "runtime", "images", "network", "audit", "guard", "workspace", "calls"},
    {
        *("sandbox", "planner", "attempt", "fidelity", "session", "background", "stateful", "given"),
        *("pool", "stock", "successor", "turns", "freshness", "aio", "watch"),
        *("executor", "batch", "function", "progress"),
        *("host", "tool", "probes", "state", "directory", "trace", "compilation", "crossing", "live"),
    },
    {"config"},
    {"selftest", "named"},
    {"cli", "mcp", "tui", "web", "integrations", "testing"},
    {"__main__"},
)
SIBLINGS = ROWS[4] | ROWS[8]
#: `corral/__init__.py` lists the public names and belongs to no row; importing `corral` itself is free.
ROOT_MODULE = "__init__"


def _unit(dotted: str) -> str:
    parts = dotted.split(".")
    return parts[1] if len(parts) > 1 else ROOT_MODULE


def _row(unit: str) -> int:
    return next((number for number, row in enumerate(ROWS) if unit in row), -1)


def _own_unit(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_every_module_belongs_to_a_row() -> None:
    units = {_own_unit(path) for path in python_files()} - {ROOT_MODULE}

    assert {unit for unit in units if _row(unit) < 0} == set()


def test_nothing_is_imported_from_above_or_from_a_sibling() -> None:
    wrong = []
    for path in python_files():
        own = _own_unit(path)
        for module, line in imported_modules(path):
            other = _unit(module)
            if module.split(".")[0] != "corral" or own in {ROOT_MODULE, other} or _row(other) < 0:
                continue
            if _row(other) > _row(own) or (_row(other) == _row(own) and own in SIBLINGS):
                wrong.append(f"{shown(path)}:{line}: {own} imports {module}")

    assert wrong == []


def test_the_model_needs_nothing_but_the_standard_library() -> None:
    allowed = {"__future__", "collections", "difflib", "enum", "hashlib", "ipaddress", "posixpath", "typing"}
    allowed |= {"functools", "re"}  # of patterns
    foreign = {
        module.split(".")[0]
        for path in python_files()
        if _own_unit(path) == "model"
        for module, _ in imported_modules(path)
    }

    assert foreign - {"corral"} <= allowed
