"""A module imports only from rows below its own."""

from __future__ import annotations

import re
import subprocess
import sys

from sources import PACKAGE, ROOT, imported_modules, python_files, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

#: From the bottom up (ARCHITECTURE.md, layers). Within a row nobody knows of the others, but for MUTUAL.
ROWS = (
    {"model"},
    {"policy", "git_formats"},
    {"linux", "untrusted_files", "wasi"},
    {"limits", "git_check"},
    {"protected_names", "streams"},
    {"planning", "backends", "runtime", "network", "audit", "guard", "workspace"},
    {"host"},
    {"sandbox_files", "images", "live_runs", "pipeline", "shell_check", "trials"},
    {"sandbox", "sessions"},
    {"parallel", "compiled_plans", "aio", "wasm"},
    {"config"},
    {"selftest", "learning", "integrations"},
    {"cli", "tui", "web", "testing"},
    {"__main__"},
)
#: The public nouns make one another: `Sandbox.session()` is a `Session`, which plans with its `Sandbox`.
MUTUAL = {"sandbox", "sessions"}
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


def test_the_architecture_has_the_same_rows() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| (\d+) \| `(\w+)` \|", text, re.MULTILINE)
    units = {_own_unit(path) for path in python_files()} - {ROOT_MODULE}

    assert sorted((unit, int(row)) for row, unit in table) == sorted((unit, _row(unit)) for unit in units)


def test_nothing_is_imported_from_above_or_from_a_sibling() -> None:
    wrong = []
    for path in python_files():
        own = _own_unit(path)
        for module, line in imported_modules(path):
            other = _unit(module)
            if module.split(".")[0] != "corral" or own in {ROOT_MODULE, other} or _row(other) < 0:
                continue
            if _row(other) > _row(own) or (_row(other) == _row(own) and own not in MUTUAL):
                wrong.append(f"{shown(path)}:{line}: {own} imports {module}")

    assert wrong == []


def test_the_model_needs_nothing_but_the_standard_library() -> None:
    allowed = {"__future__", "collections", "difflib", "enum", "hashlib", "ipaddress", "posixpath", "typing"}
    allowed |= {"functools", "re"}  # of patterns
    allowed |= {"contextlib"}  # for types
    foreign = {
        module.split(".")[0]
        for path in python_files()
        if _own_unit(path) == "model"
        for module, _ in imported_modules(path)
    }

    assert foreign - {"corral"} <= allowed


#: What a command is on any POSIX system; macOS has no launcher, control groups or namespaces.
POSIX = ("runtime/*.py", "streams/*.py")
LINUX = ("corral.linux.", "corral.limits.", "corral.runtime.launcher.")


def test_what_any_posix_system_can_do_needs_nothing_of_linux() -> None:
    """In a Python of its own. What functions import is for launches that have a spec."""
    files = [file for pattern in POSIX for file in sorted(PACKAGE.glob(pattern))]
    names = [".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts) for file in files]
    program = (
        f"import sys, importlib\nfor name in {names!r}: importlib.import_module(name)\nprint(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert len(names) > 15
    assert [name for name in loaded.stdout.split() if f"{name}.".startswith(LINUX)] == []
