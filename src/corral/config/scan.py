"""Where everything is in a TOML or JSON text.

The scanner relies on a text that the standard library has accepted: it looks at what is around values, never
at what they mean. The searches at the end are for texts that nobody has accepted yet, and take linear time.
"""

from __future__ import annotations

import bisect
import re

from corral.config.document import Position

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.config.document import Keys

# A string that never ends counts up to where it should have: no search looks at a text twice. No possessive
# quantifiers: Python before 3.11.5 matches groups with them wrongly.
_STRING = r"""
    "{3} [^"\\]* (?: (?: \\. | "(?!"") ) [^"\\]* )* (?: "{3,5} | \\?\Z )
  | '{3} [^']* (?: '(?!'') [^']* )* (?: '{3,5} | \Z )
  | " [^"\\\n]* (?: \\[^\n] [^"\\\n]* )* (?: " | \\?(?=\n|\Z) )
  | ' [^'\n]* (?: ' | (?=\n|\Z) )
"""
_COMMENT = r"\#[^\n]*"


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.VERBOSE | re.DOTALL)


_BLANKS = _compile(rf"[ \t\r\n]* (?: {_COMMENT} [ \t\r\n]* )*")
_KEY = _compile(rf"(?P<quoted>{_STRING}) | [A-Za-z0-9_-]+")
_AFTER_KEY = _compile(r"[ \t\r\n]* (?P<mark>[.=:\]]) [ \t\r\n]*")
_SCALAR = _compile(rf"{_STRING} | [^,\]\}}\r\n\#]*")
_STRUCTURE = _compile(rf"{_STRING} | {_COMMENT} | (?P<mark>[\[\]{{}}.=,\n])")


class Lines:
    """Turns offsets in a text into positions."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self._text = text

    def position(self, offset: int) -> Position:
        line = bisect.bisect_right(self._starts, offset)
        return Position(line, offset - self._starts[line - 1] + 1)

    @property
    def end(self) -> Position:
        """Where the text ends."""
        return self.position(len(self._text))

    def beginning(self, line: int) -> Position:
        """The first character of a line that is not blank."""
        start = self._starts[line - 1]
        while self._text[start : start + 1] in {" ", "\t"}:
            start += 1
        return self.position(start)


class Places:
    """What a scan has found: offsets of keys and values, and keys that were there before."""

    def __init__(self, text: str) -> None:
        self.lines = Lines(text)
        self.keys: dict[Keys, int] = {}
        self.values: dict[Keys, int] = {}
        self.repeated: list[tuple[Keys, int]] = []

    def add(self, keys: Keys, key: int, value: int) -> None:
        """The first place counts: a table may be mentioned many times."""
        self.keys.setdefault(keys, key)
        self.values.setdefault(keys, value)


def scan_toml(text: str) -> Places:
    """The places in a valid TOML text."""
    scanner = _Scanner(text, _decode_toml)
    scanner.statements()
    return scanner.places


def scan_json(text: str) -> Places:
    """The places in a valid JSON text."""
    import json

    scanner = _Scanner(text, json.loads)
    scanner.skip_blanks()
    scanner.value((), scanner.at)
    return scanner.places


class _Scanner:
    """A cursor in a text. JSON looks to it like one inline table of TOML."""

    def __init__(self, text: str, decode: Callable[[str], str]) -> None:
        self.text = text
        self.at = 0
        self.places = Places(text)
        self._decode = decode
        self._repeated: set[Keys] = set()
        self._tables_in: dict[Keys, int] = {}  # array of tables -> how many there are so far

    def statements(self) -> None:
        """A whole TOML text."""
        table: Keys = ()
        self.skip_blanks()
        while self.at < len(self.text):
            if self._next() == "[":
                table = self._header()
            else:
                self._pair(table)
            self.skip_blanks()

    def skip_blanks(self) -> None:
        self.at = _match(_BLANKS, self.text, self.at).end()

    def value(self, keys: Keys, key_at: int) -> None:
        """Whatever follows; `key_at` is where its key was, or its own beginning in an array."""
        self.places.add(keys, key_at, self.at)
        if self._next() == "{":
            self._entries(lambda _: self._pair(keys))
        elif self._next() == "[":
            self._entries(lambda index: self.value((*keys, index), self.at))
        else:
            self.at = _match(_SCALAR, self.text, self.at).end()

    def _next(self) -> str:
        return self.text[self.at : self.at + 1]

    def _entries(self, entry: Callable[[int], None]) -> None:
        """What is between two brackets, with commas between."""
        self.at += 1
        self.skip_blanks()
        count = 0
        while self._next() not in {"]", "}"}:
            entry(count)
            count += 1
            self.skip_blanks()
            if self._next() == ",":
                self.at += 1
                self.skip_blanks()
        self.at += 1

    def _pair(self, table: Keys) -> None:
        *outer, (last, key_at) = self._key()
        for name, at in outer:
            table = (*table, name)
            self.places.add(table, at, at)
        keys = (*table, last)
        if keys in self.places.keys:
            self._repeat(keys, key_at)
        self.value(keys, key_at)

    def _repeat(self, keys: Keys, key_at: int) -> None:
        """Note a key that was there before, unless it is only so because a table around it was."""
        if not any(keys[:length] in self._repeated for length in range(len(keys))):
            self._repeated.add(keys)
            self.places.repeated.append((keys, key_at))

    def _header(self) -> Keys:
        is_array = self.text.startswith("[[", self.at)
        self.at += 2 if is_array else 1
        self.skip_blanks()
        *outer, (last, key_at) = self._key()
        table: Keys = ()
        for name, at in outer:
            table = self._enter((*table, name), at)
        if not is_array:
            return self._enter((*table, last), key_at)
        table = (*table, last)
        self.at += 1  # the second bracket
        self._tables_in[table] = self._tables_in.get(table, 0) + 1
        return self._enter(table, key_at)

    def _enter(self, table: Keys, at: int) -> Keys:
        """A table of that name, or the latest one in an array of that name."""
        self.places.add(table, at, at)
        count = self._tables_in.get(table)
        if count is None:
            return table
        table = (*table, count - 1)
        self.places.add(table, at, at)
        return table

    def _key(self) -> list[tuple[str, int]]:
        """The parts of a key and where they are, and beyond the `=`, `:` or `]` that follows."""
        parts = []
        while True:
            found = _match(_KEY, self.text, self.at)
            name = self._decode(found[0]) if found["quoted"] else found[0]
            parts.append((name, self.at))
            after = _match(_AFTER_KEY, self.text, found.end())
            self.at = after.end()
            if after["mark"] != ".":
                return parts


def _match(pattern: re.Pattern[str], text: str, at: int) -> re.Match[str]:
    found = pattern.match(text, at)
    assert found is not None, f"the text is not valid at {at}"
    return found


def _decode_toml(quoted: str) -> str:
    if "\\" not in quoted:
        return quoted[1:-1]
    import tomllib

    return str(tomllib.loads(f"key = {quoted}")["key"])


def find_excess(text: str, most: int) -> int | None:
    """Where brackets are nested deeper than that, or a key has more parts; for any text."""
    depth = parts = 0
    for found in _STRUCTURE.finditer(text):
        mark = found["mark"]
        if mark is None:
            continue
        parts = parts + 1 if mark == "." else 0
        if mark in "[{":
            depth += 1
        elif mark in "]}":
            depth = max(0, depth - 1)
        if depth > most or parts >= most:
            return found.start()
    return None


def find_long_number(text: str, digits: int) -> int:
    """Where the first number of so many digits begins, or 0; for any text."""
    pattern = _compile(rf"{_STRING} | {_COMMENT} | (?P<number>[0-9][0-9_]{{{digits},}}+)")
    return next((found.start() for found in pattern.finditer(text) if found["number"]), 0)
