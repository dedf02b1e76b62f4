"""How big is readable: a limit that is only written down is not kept."""

from __future__ import annotations

import ast

from sources import LAUNCHER, PACKAGE, nodes, parse, python_files, shown

FILE_LINES, FILE_LINES_WISHED = 450, 300
BODY_LINES, BODY_LINES_WISHED = 60, 35
C_LINES = 300
#: Tables: what grows there is data.
BANNED = {
    "utils",
    "util",
    "helpers",
    "common",
    "misc",
    "manager",
    "handler",
    "processor",
    "context",
    "data",
    "info",
    "core",
}


def _line_count(path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def _body_length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_no_file_is_longer_than_can_be_read() -> None:
    sizes = {shown(path): _line_count(path) for path in python_files()}
    for name, lines in sorted(sizes.items()):
        if lines > FILE_LINES_WISHED:
            print(f"long: {name}: {lines} lines")

    assert {name: lines for name, lines in sizes.items() if lines > FILE_LINES} == {}


def test_no_function_is_longer_than_a_screen() -> None:
    sizes = {
        f"{shown(path)}:{node.lineno} {node.name}": _body_length(node)
        for path in python_files()
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    for name, lines in sorted(sizes.items()):
        if lines > BODY_LINES_WISHED:
            print(f"long: {name}: {lines} lines")

    assert {name: lines for name, lines in sizes.items() if lines > BODY_LINES} == {}


def test_no_file_of_the_launcher_is_longer_than_can_be_audited() -> None:
    sizes = {shown(path): _line_count(path) for path in sorted(LAUNCHER.glob("*.[ch]"))}

    assert sizes
    assert {name: lines for name, lines in sizes.items() if lines > C_LINES} == {}


def test_every_file_is_named_after_what_it_defines() -> None:
    names = [path for path in python_files() if path.stem.strip("_").lower() in BANNED]
    folders = [path for path in PACKAGE.rglob("*") if path.is_dir() and path.name.lower() in BANNED]

    assert [shown(path) for path in (*names, *folders)] == []


def test_every_module_says_in_a_sentence_what_it_is() -> None:
    silent = [
        shown(path)
        for path in python_files()
        if path.read_text(encoding="utf-8").strip() and not ast.get_docstring(parse(path))
    ]

    assert silent == []
