"""The grammar of bash, by tree-sitter: an extra, because most runs check nothing."""

from __future__ import annotations

from functools import cache

from corral.model.errors import PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Longer texts are not parsed: what cannot be looked at is for a person.
MOST_BYTES = 100_000
#: Where a text is no shell, the parser's time and memory grow with the square of these.
MOST_SPECIAL = 4000
_SPECIAL = "|<>(){}[]$&`"


@cache
def _parser() -> Any:
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError as problem:
        raise PolicyError(
            "missing-extra",
            "commands cannot be checked",
            why=f"the grammar of the shell is not installed ({problem})",
            fix="pip install 'corral[check]', or set check.mode = \"off\"",
        ) from None
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse(data: bytes) -> Any:
    """The root of the tree. Raises PolicyError if the extra is not there."""
    return _parser().parse(data).root_node


def is_too_much(text: str) -> bool:
    """Whether a text would take the parser, or its caller, too long."""
    return len(text) > MOST_BYTES or sum(map(text.count, _SPECIAL)) > MOST_SPECIAL


def grammar_version() -> str:
    """Which grammar it is, for what is remembered about rules."""
    from importlib.metadata import version

    _parser()
    return f"{version('tree-sitter')} {version('tree-sitter-bash')}"
