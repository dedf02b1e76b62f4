"""No error is swallowed: a rule is applied, refused, or waived on record."""

from __future__ import annotations

import ast

import pytest
from sources import nodes, python_files, shown

BROAD = {"Exception", "BaseException"}


def _handlers() -> list[tuple[str, ast.ExceptHandler]]:
    return [
        (f"{shown(path)}:{node.lineno}", node)
        for path in python_files()
        for node in nodes(path)
        if isinstance(node, ast.ExceptHandler)
    ]


def _caught(handler: ast.ExceptHandler) -> set[str]:
    return (
        {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)} if handler.type else set()
    )


def test_no_except_is_bare() -> None:
    assert [place for place, handler in _handlers() if handler.type is None] == []


def test_whoever_catches_everything_raises_or_reports_it() -> None:
    silent = [
        place
        for place, handler in _handlers()
        if _caught(handler) & BROAD
        and all(isinstance(line, ast.Pass | ast.Continue) for line in handler.body)
    ]

    assert silent == []


def test_nobody_suppresses_everything() -> None:
    suppressed = [
        f"{shown(path)}:{node.lineno}"
        for path in python_files()
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("suppress")
        and BROAD & {ast.unparse(argument) for argument in node.args}
    ]

    assert suppressed == []


@pytest.mark.parametrize("word", ["shell=True", "os.system(", "os.popen(", "yaml.load(", "pickle.load"])
def test_no_module_uses_what_runs_text(word: str) -> None:
    assert [shown(path) for path in python_files() if word in path.read_text(encoding="utf-8")] == []
