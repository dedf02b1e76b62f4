"""What the parsers of the standard library say about a text, in terms of place, mistake and remedy."""

from __future__ import annotations

import re

from corral.config.document import START, Position

TYPE_CHECKING = False
if TYPE_CHECKING:
    from json import JSONDecodeError

    from corral.config.scan import Lines

# Newer versions also have the place in attributes, but all of them have it in the message.
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)\Z")
_TOML_FIXES = (
    ("Invalid value", 'write a text in quotes: "..."'),
    ("Expected '='", "write key = value"),
    ("Invalid statement", "write key = value, or a header such as [table]"),
    (
        "Invalid initial character",
        'a key is made of letters, digits, - and _; put any other in quotes: "..."',
    ),
    ("Unescaped '\\'", "write two backslashes, or put the text in single quotes: '...'"),
    ("Unterminated string", "end the text with the quotes it began with"),
    ("Unclosed", "put a comma between two entries, and the bracket after the last"),
    ("Cannot overwrite", "say each key once"),
    ("Duplicate", "say each key once"),
    ("Cannot declare", "put everything in one table below one header"),
    ("Cannot redefine", "put everything in one table below one header"),
    ("Cannot mutate", "a value in braces or brackets is complete: add the entry there"),
    ("Expected newline", "begin a new line for the next key"),
)


def explain_toml(message: str, lines: Lines) -> tuple[Position, str, str]:
    """Place, mistake and remedy of a message by tomllib."""
    found = _PLACE.search(message)
    if found is None:
        where = START
    elif found[1] is None:
        where = lines.end
    else:
        where = Position(int(found[1]), int(found[2]))
    said = message[: found.start()] if found else message
    if said.startswith("Cannot"):  # it was noticed at the end of a statement, whose key is what is wrong
        where = lines.beginning(where.line)
    fix = next((fix for begin, fix in _TOML_FIXES if said.startswith(begin)), "see https://toml.io")
    return where, f"this is not TOML: {said}", fix


def explain_json(error: JSONDecodeError) -> tuple[Position, str, str]:
    """Place, mistake and remedy of an error by json."""
    fix = "double quotes around keys and texts, a comma between two entries, none after the last, no comments"
    return Position(error.lineno, error.colno), f"this is not JSON: {error.msg}", fix
