"""Arguments of Python: what a caller gave is of the right kind, or the error says what is taken instead."""

from __future__ import annotations

from corral.model.errors import PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def wrong_argument(name: str, value: object, takes: str, example: str) -> PolicyError:
    """An argument that cannot be what it is."""
    shown = repr(value)
    return PolicyError(
        "argument",
        f"{shown if len(shown) <= 80 else f'{shown[:77]}...'} cannot be the argument `{name}`",
        why=f"its type is {type(value).__name__}, and `{name}` takes {takes}",
        fix=f"write it as in {example}",
    )


def texts_of(name: str, values: Iterable[str], example: str) -> tuple[str, ...]:
    """Several texts. A single one is refused: it would be taken for a list of its letters."""
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise wrong_argument(name, values, "a list of texts", example)
    found = tuple(values)
    for value in found:
        if not isinstance(value, str):
            raise wrong_argument(name, value, "texts, and nothing else", example)
    return found
