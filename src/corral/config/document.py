"""Document: a configuration file as it was read, TOML or JSON, which knows where each of its keys is.

What the text means is for the standard library to say. What a file cannot mean (a key twice, a number that
no field could hold, a text that is not Unicode) is refused here, all of it at once and each with its place.
"""

from __future__ import annotations

import functools

from corral.model.problem import Problem
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from corral.config.scan import Places

    Keys = tuple[str | int, ...]

MOST_BYTES = 1024 * 1024
#: How many keys and indexes may lead to a value.
MOST_DEPTH = 50
_MOST_INTEGER = 2**63
#: Every integer that is in range has fewer characters; int() itself refuses some thousands of digits.
_MOST_DIGITS = 40


class Position(Record):
    """A place in a text; both numbers count from 1, columns are characters."""

    line: int
    column: int


START = Position(1, 1)


class DocumentProblems(Exception):
    """A text is no document; `problems` has every mistake that was found, in the order of the text."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(problem.render() for problem in problems))
        self.problems = problems

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problems,)


class Document:
    """What a file says (`table`), and where it says so: the file is scanned when that is first asked."""

    def __init__(self, file: str, table: dict[str, Any], text: str) -> None:
        self.file = file
        self.table = table
        self._text = text

    def position(self, keys: Keys) -> Position:
        """Where a key is written, or an element of an array; else the nearest thing that it would be in."""
        return self._nearest(keys, self._places.keys)

    def value_position(self, keys: Keys) -> Position:
        """Where the value of a key begins. A table that has a header begins at its name there."""
        return self._nearest(keys, self._places.values)

    def problem(self, position: Position, what: str, fix: str) -> Problem:
        """A mistake in this file."""
        return Problem(self.file, position.line, position.column, what, fix)

    @functools.cached_property
    def _places(self) -> Places:
        from corral.config.scan import scan_json, scan_toml

        return (scan_json if is_json(self.file) else scan_toml)(self._text)

    def _nearest(self, keys: Keys, offsets: dict[Keys, int]) -> Position:
        for length in range(len(keys), 0, -1):
            offset = offsets.get(keys[:length])
            if offset is not None:
                return self._places.lines.position(offset)
        return START


def is_json(file: str) -> bool:
    """Whether a file of this name is read as JSON; every other one is TOML."""
    return file.lower().endswith(".json")


def read_document(text: str, file: str) -> Document:
    """Read a text; the file's name decides how, and is what problems are reported with.

    Raises DocumentProblems, and nothing else whatever the text.
    """
    text = text.removeprefix("\ufeff")
    _check_text(text, file)
    parse = _parse_json if is_json(file) else _parse_toml
    document = Document(file, parse(text, file), text)
    useless = sorted(_useless(document, document.table, ()), key=lambda found: (found.line, found.column))
    if useless:
        raise DocumentProblems(tuple(useless))
    return document


def _check_text(text: str, file: str) -> None:
    """Refuse what the parsers cannot digest: they recurse, and take long over long keys."""
    from corral.config.scan import Lines, find_excess

    try:
        size = len(text) if len(text) > MOST_BYTES else len(text.encode())
    except UnicodeEncodeError as error:
        where = Lines(text).position(error.start)
        raise _refusal(file, where, "the text is not Unicode", "save the file as UTF-8") from None
    if size > MOST_BYTES:
        what = f"the file is larger than {MOST_BYTES} bytes"
        raise _refusal(file, START, what, "no policy needs so much; is it the right file?")
    excess = find_excess(text, MOST_DEPTH)
    if excess is not None:
        raise _too_deep(file, Lines(text).position(excess))


def _parse_toml(text: str, file: str) -> dict[str, Any]:
    import tomllib

    from corral.config.scan import Lines, find_long_number
    from corral.config.syntax import explain_toml

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _refusal(file, *explain_toml(str(error), Lines(text))) from None
    except RecursionError:
        raise _too_deep(file, START) from None
    except ValueError:  # int() of too many digits: the one thing that tomllib leaves to others
        where = Lines(text).position(find_long_number(text, _MOST_DIGITS))
        raise _refusal(file, where, *_NUMBER_TOO_LARGE) from None


def _parse_json(text: str, file: str) -> dict[str, Any]:
    import json

    from corral.config.syntax import explain_json

    is_repeated = False

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal is_repeated
        table = dict(pairs)  # the last one counts, silently
        is_repeated = is_repeated or len(table) != len(pairs)
        return table

    try:
        table = json.loads(text, parse_int=_integer, object_pairs_hook=build)
    except json.JSONDecodeError as error:
        raise _refusal(file, *explain_json(error)) from None
    except RecursionError:
        raise _too_deep(file, START) from None
    if not isinstance(table, dict):
        raise _refusal(file, START, "the document is not an object", "put everything between { and }")
    if is_repeated:
        raise DocumentProblems(tuple(_duplicates(Document(file, table, text))))
    return table


def _integer(digits: str) -> int:
    return int(digits) if len(digits) <= _MOST_DIGITS else _MOST_INTEGER


def _duplicates(document: Document) -> Iterator[Problem]:
    """Keys that are said twice."""
    for keys, offset in document._places.repeated:
        where = document._places.lines.position(offset)
        first = document.position(keys)
        yield document.problem(
            where,
            f"{keys[-1]!r} is here for the second time; the first is at {first.line}:{first.column}",
            "keep one of the two",
        )


def _useless(document: Document, value: object, keys: Keys) -> Iterator[Problem]:
    """Values that no field could hold, wherever they are."""
    if len(keys) > MOST_DEPTH:
        yield document.problem(document.position(keys), *_NESTED_TOO_DEEP)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if not _is_unicode(key):
                yield document.problem(document.position((*keys, key)), *_HALF_A_CHARACTER)
            yield from _useless(document, inner, (*keys, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _useless(document, inner, (*keys, index))
    elif isinstance(value, str) and not _is_unicode(value):
        yield document.problem(document.value_position(keys), *_HALF_A_CHARACTER)
    elif isinstance(value, int) and not -_MOST_INTEGER <= value < _MOST_INTEGER:
        yield document.problem(document.value_position(keys), *_NUMBER_TOO_LARGE)
    elif isinstance(value, float) and not -_INFINITE < value < _INFINITE:
        yield document.problem(document.value_position(keys), *_NOT_FINITE)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refusal(file: str, where: Position, what: str, fix: str) -> DocumentProblems:
    return DocumentProblems((Problem(file, where.line, where.column, what, fix),))


def _too_deep(file: str, where: Position) -> DocumentProblems:
    return _refusal(file, where, *_NESTED_TOO_DEEP)


_INFINITE = float("inf")
_NESTED_TOO_DEEP = (f"this is nested more than {MOST_DEPTH} levels deep", "no setting is nested so deep")
_NUMBER_TOO_LARGE = ("the number does not fit into 64 bits", "write a smaller number")
_NOT_FINITE = ("the number is not finite", "write a plain number")
_HALF_A_CHARACTER = (
    "the text is not Unicode: it contains half of a surrogate pair",
    "write the character itself",
)
