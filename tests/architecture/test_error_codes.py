"""Every error has a stable code, and docs/errors.md explains each: both directions are checked."""

from __future__ import annotations

import ast
import re

from sources import ROOT, nodes, python_files, shown

from corral.model import errors
from corral.runtime.status import _FIXES

DOCUMENT = ROOT / "docs/errors.md"
#: Classes whose constructor, and functions that, take a code first. The others have one of their own.
CODED = {"CorralError", "PolicyError", "UnenforceableError", "SetupError", "CallError", "refusal"}
CODED |= {"bad_module", "MissingImport", "wrong_call"}  # of modules


def _phases() -> set[str]:
    """Names in the launcher's tables: a phase that fails becomes a code of SetupError."""
    text = (ROOT / "launcher/main.c").read_text(encoding="utf-8")
    named = re.findall(r'launch->phase = "(\w+)"', (ROOT / "launcher/guard.c").read_text(encoding="utf-8"))
    return {"spec", *named, *re.findall(r'^ +\{"(\w+)", phase_', text, re.MULTILINE)}


def _codes_in_source() -> dict[str, str]:
    found = {}
    for path in python_files():
        for node in nodes(path):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = ast.unparse(node.func)
            is_coded = name in CODED or (name.startswith("super()") and path.name == "errors.py")
            first = node.args[0]
            if name == "StartFailure" and len(node.args) > 1:
                first, is_coded = node.args[1], True
            if is_coded and isinstance(first, ast.Constant) and isinstance(first.value, str):
                found[first.value] = f"{shown(path)}:{node.lineno}"
    return found


def _documented() -> dict[str, tuple[str, ...]]:
    """code -> the other cells of its row."""
    rows = {}
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| `") and len(cells) >= 5:
            rows[cells[0].strip("`")] = tuple(cells[1:])
    return rows


def test_every_code_in_the_source_is_documented() -> None:
    documented = _documented()

    assert {code: place for code, place in _codes_in_source().items() if code not in documented} == {}


def test_every_documented_code_is_in_the_source() -> None:
    assert set(_documented()) - set(_codes_in_source()) - _phases() == set()


def test_every_phase_that_can_fail_is_documented() -> None:
    assert len(_phases()) > 8
    assert _phases() - set(_documented()) == set()
    assert set(_FIXES) <= _phases()


def test_the_class_and_the_exit_status_are_those_of_the_source() -> None:
    for code, (name, status, *_) in _documented().items():
        error = getattr(errors, name.strip("`"))
        stated = {int(word) for word in status.replace(",", " ").split() if word.isdigit()}

        assert issubclass(error, errors.CorralError), code
        assert error.exit_status in stated or error is errors.CommandFailed, code


def test_every_row_says_what_it_means_and_what_to_do() -> None:
    for code, (_, _, meaning, action, *_) in _documented().items():
        assert meaning and action, code


def test_codes_are_words_with_hyphens() -> None:
    for code in _codes_in_source():
        assert code.replace("-", "").replace("_", "").isalnum(), code
        assert code == code.lower(), code
