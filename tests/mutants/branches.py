"""Mutants of branches: every condition of a module, once as if it never held and once as if it always did."""

from __future__ import annotations

import ast

from mutant import ROOT, Answer, Edit, Mutant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

REFUSED = "nothing runs: "  # how a reason begins where that is what happens
_FATES = {"never": "False", "always": "True"}


def conditions(file: str) -> Iterator[tuple[str, ast.expr]]:
    """Every condition of a module with the function it is in: of both kinds of `if`, and of comprehensions.

    Not those of names for the type checker or of another platform, nor of loops, which would not end.
    """
    tree = ast.parse((ROOT / file).read_text())
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                tests = node.ifs if isinstance(node, ast.comprehension) else []
                tests = [node.test] if isinstance(node, ast.If | ast.IfExp) else tests
                for test in tests:
                    if "sys.platform" not in ast.unparse(test):
                        yield function.name, test


def branch_mutants(
    area: str, file: str, breaks: str, tests: dict[str, tuple[str, ...]], equivalent: dict[str, str]
) -> Iterator[Mutant]:
    """`tests` by function, "" for all others; `equivalent`: mutants that cannot be noticed, and why."""
    text = (ROOT / file).read_text()
    seen: set[str] = set()
    wanted = [found for found in conditions(file) if found[0] in tests or "" in tests]
    for function, test in wanted:
        for fate, value in _FATES.items():
            name = f"{area}.{function}: {' '.join(ast.unparse(test).split())} {fate}"
            seen.add(name)
            why = equivalent.get(name, "")
            answer = Answer.REFUSED if why.startswith(REFUSED) else Answer.SURVIVES if why else Answer.CAUGHT
            edit = Edit(file, text, _replaced(text, test, value))
            yield Mutant(name, breaks, (edit,), tests.get(function) or tests[""], answer, why)
    if stale := set(equivalent) - seen:
        raise ValueError(f"{file}: explained, and not there: {sorted(stale)}")


def _replaced(text: str, node: ast.expr, value: str) -> str:
    assert node.end_lineno is not None and node.end_col_offset is not None
    lines = text.encode().splitlines(keepends=True)
    before = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
    after = lines[node.end_lineno - 1][node.end_col_offset :] + b"".join(lines[node.end_lineno :])
    return (before + f"({value})".encode() + after).decode()
