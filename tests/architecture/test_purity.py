"""What is pure stays pure: no module that only computes looks at the machine, even in passing."""

from __future__ import annotations

import builtins
import os
import socket
import subprocess
from unittest import mock

import pytest
from sources import PACKAGE, calls, imported_modules, python_files, shown

from corral.backends.registry import get_backend
from support.golden_cases import CASES, LINUX, fake_probe, plan_of

PURE = ("model", "policy", "git_formats", "linux", "planning", "backends")
#: What the standard library offers to compute with.
HARMLESS = {
    "__future__",
    "collections",
    "contextlib",
    "difflib",
    "enum",
    "functools",
    "hashlib",
    "importlib",  # the registry, by name
    "ipaddress",
    "json",  # what engines say and are told
    "posixpath",
    "re",  # patterns
    "struct",
    "typing",
    "unicodedata",
}
#: The one pure module that reads files: its own data.
READERS = {"policy/preset.py": {"os"}}


def _files() -> list[tuple[str, object]]:
    return [
        (str(path.relative_to(PACKAGE)), path)
        for path in python_files()
        if path.relative_to(PACKAGE).parts[0] in PURE
    ]


@pytest.mark.parametrize(("name", "path"), _files(), ids=[name for name, _ in _files()])
def test_a_pure_module_imports_nothing_that_touches_the_world(name, path) -> None:
    imported = {module.split(".")[0] for module, _ in imported_modules(path)} - {"corral"}

    assert imported - HARMLESS - READERS.get(name, set()) == set()


def test_of_os_only_the_arithmetic_of_paths_is_used() -> None:
    used = {name for name, _ in calls(PACKAGE / "policy/preset.py") if name.startswith("os.")}

    assert used <= {"os.path.join", "os.path.dirname"}


def test_no_pure_module_opens_anything() -> None:
    opened = [
        f"{shown(path)}:{call.lineno}"
        for name, path in _files()
        for function, call in calls(path)
        if function in {"open", "eval", "exec", "__import__", "input", "print"} and name not in READERS
    ]

    assert opened == []


def _refuse(*_: object, **__: object) -> None:
    raise AssertionError("a pure function touched the machine")


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
@pytest.mark.parametrize("name", LINUX)
def test_lowering_works_on_a_machine_that_cannot_be_touched(name: str, case) -> None:
    """Everything that could look or act raises meanwhile; and the same plan gives the same launch."""
    backend, probe = get_backend(name), fake_probe(name)
    plan = plan_of(case, probe)
    system = [
        (module, function)
        for module in (os, subprocess, socket)
        for function, value in vars(module).items()
        if callable(value)
        and not isinstance(value, type)
        and function not in {"fspath", "fsencode", "fsdecode"}
    ]

    with mock.patch.object(builtins, "open", _refuse):
        patches = [mock.patch.object(module, function, _refuse) for module, function in system]
        for patch in patches:
            patch.start()
        try:
            first, second = backend.lower(plan, probe), backend.lower(plan, probe)
        finally:
            for patch in reversed(patches):
                patch.stop()

    assert first == second
