"""Random documents: tables, and two writers of them that note where they have written everything."""

from __future__ import annotations

import datetime
import json
import string

from hypothesis import strategies as st

from corral.config.document import Position

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random
    from typing import Any

    Keys = tuple[str | int, ...]
    #: The parts of a dotted key, each with the way to it from the top.
    Parts = list[tuple[str, Keys]]

BARE = frozenset(string.ascii_letters + string.digits + "-_")
ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
COMMENTS = ("", "#", "# plain", "# ] } = , .", '# "', "# '''", '# """ \\', "# [é]", "# a = 1")

texts = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=6),
    st.text("\"'\\# \n\r\t[]{}=,.ab\x7f\x00é𝄞", max_size=8),
)
names = st.one_of(st.sampled_from(["a", "b", "c-1", "1", "read", "a.b", "", "ü", 'q"', "q'", "\\"]), texts)
integers = st.integers(-(2**63), 2**63 - 1)
plain = st.one_of(texts, integers, st.booleans(), st.floats(allow_nan=False, allow_infinity=False))
dates = st.one_of(st.datetimes(), st.dates(), st.times())


def tables(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Tables within tables and arrays within arrays."""
    values = st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
        max_leaves=12,
    )
    arrays_of_tables = st.lists(st.dictionaries(names, values, max_size=3), min_size=1, max_size=3)
    return st.dictionaries(names, st.one_of(values, arrays_of_tables), max_size=5)


def paths(value: object, keys: Keys = ()) -> list[Keys]:
    """Everything that can be asked for in a table."""
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    found = [keys] if keys else []
    for key, inner in entries:
        found += paths(inner, (*keys, key))
    return found


class Writer:
    """A text that grows, and the places of keys and values in it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.text = ""
        self.keys: dict[Keys, Position] = {}
        self.values: dict[Keys, Position] = {}

    def write(self, *parts: str) -> None:
        self.text += "".join(parts)

    def any_of(self, *choices: str) -> None:
        self.write(self.random.choice(choices))

    def chance(self) -> bool:
        return self.random.random() < 0.5

    def note(self, *where: dict[Keys, Position], keys: Keys) -> None:
        """The place where the next thing is written; the first one counts."""
        before = self.text.split("\n")
        for places in where:
            places.setdefault(keys, Position(len(before), len(before[-1]) + 1))

    def entries(
        self, brackets: str, entries: list[Callable[[], None]], gap: Callable[[], None], more: str = ""
    ) -> None:
        """What is between two brackets; `more` may come after the last entry."""
        self.write(brackets[0])
        gap()
        for index, entry in enumerate(entries):
            if index:
                self.write(",")
                gap()
            entry()
            gap()
        self.write(more if entries else "", brackets[1])


class JsonWriter(Writer):
    def gap(self) -> None:
        self.any_of("", " ", "\t", "\n", "\n    ", "\r\n")

    def document(self, table: dict[str, Any]) -> None:
        self.gap()
        self.value(table, ())
        self.gap()

    def value(self, value: object, keys: Keys) -> None:
        self.note(self.values, keys=keys)
        if isinstance(value, dict):
            pairs = [lambda key=key, inner=inner: self.pair(key, inner, keys) for key, inner in value.items()]
            self.entries("{}", pairs, self.gap)
        elif isinstance(value, list):
            self.entries(
                "[]", [lambda at=at: self.element(value, at, keys) for at in range(len(value))], self.gap
            )
        else:
            self.write(json.dumps(value, ensure_ascii=self.chance()))

    def pair(self, key: str, value: object, table: Keys) -> None:
        self.note(self.keys, keys=(*table, key))
        self.write(json.dumps(key, ensure_ascii=self.chance()))
        self.gap()
        self.write(":")
        self.gap()
        self.value(value, (*table, key))

    def element(self, array: list[Any], index: int, keys: Keys) -> None:
        self.note(self.keys, keys=(*keys, index))
        self.value(array[index], (*keys, index))


class TomlWriter(Writer):
    """Says the same thing in any of the ways that TOML has for it."""

    def blank(self) -> None:
        self.any_of("", " ", "\t", "  ")

    def end_line(self) -> None:
        self.blank()
        self.any_of(*COMMENTS)
        self.write("\n")
        self.any_of("", "", "\n", " # [x]\n")

    def gap_in_array(self) -> None:
        self.blank()
        if self.chance():
            self.end_line()
            self.blank()

    def document(self, table: dict[str, Any]) -> None:
        self.any_of("", "\n", "# first\n")
        self.table(table, ())

    def table(self, table: dict[str, Any], keys: Keys) -> None:
        """What can stand in lines of its own comes first: after a header there is no way back."""
        beneath = {key: value for key, value in table.items() if self.has_header(value)}
        in_lines = {key: value for key, value in table.items() if key not in beneath}
        for parts, value in self.dotted(in_lines, keys, []):
            self.blank()
            self.pair(parts, value)
            self.end_line()
        for key, value in beneath.items():
            if isinstance(value, dict):
                self.table_beneath(value, (*keys, key))
                continue
            for index, element in enumerate(value):
                self.header((*keys, key, index), "[[", "]]")
                self.table(element, (*keys, key, index))

    def has_header(self, value: object) -> bool:
        is_array = isinstance(value, list) and value and all(isinstance(inner, dict) for inner in value)
        return bool(isinstance(value, dict) or is_array) and self.chance()

    def table_beneath(self, table: dict[str, Any], keys: Keys) -> None:
        """A header, which may be missing where headers of inner tables imply it."""
        is_implied = table and all(isinstance(value, dict) for value in table.values())
        if is_implied and self.chance():
            for key, value in table.items():
                self.table_beneath(value, (*keys, key))
        else:
            self.header(keys, "[", "]")
            self.table(table, keys)

    def header(self, keys: Keys, opening: str, closing: str) -> None:
        self.blank()
        self.write(opening)
        self.blank()
        for at, name in enumerate(keys):
            if isinstance(name, int):
                continue
            if at:
                self.write(".")
                self.blank()
            indexed = keys[: at + 2] if at + 1 < len(keys) and isinstance(keys[at + 1], int) else None
            for noted in (keys[: at + 1], indexed):
                if noted:
                    self.note(self.keys, self.values, keys=noted)
            self.key(name)
            self.blank()
        self.write(closing)
        self.end_line()

    def dotted(self, table: dict[str, Any], keys: Keys, outer: Parts) -> list[tuple[Parts, object]]:
        """Keys and values of a table; some inner tables are said by dotted keys: a.b = 1."""
        found = []
        for name, value in table.items():
            parts = [*outer, (name, (*keys, name))]
            if isinstance(value, dict) and value and self.chance():
                found += self.dotted(value, (*keys, name), parts)
            else:
                found.append((parts, value))
        return found

    def pair(self, parts: Parts, value: object) -> None:
        for name, keys in parts:
            is_last = keys == parts[-1][1]
            self.note(*((self.keys,) if is_last else (self.keys, self.values)), keys=keys)
            self.key(name)
            self.blank()
            self.write("=" if is_last else ".")
            self.blank()
        self.value(value, parts[-1][1])

    def value(self, value: object, keys: Keys) -> None:
        self.note(self.values, keys=keys)
        if isinstance(value, dict):
            entries = self.dotted(value, keys, [])
            pairs = [lambda parts=parts, inner=inner: self.pair(parts, inner) for parts, inner in entries]
            self.entries("{}", pairs, self.blank)
        elif isinstance(value, list):
            self.array(value, keys)
        else:
            self.write(self.scalar(value))

    def array(self, array: list[Any], keys: Keys) -> None:
        def element(index: int) -> None:
            self.note(self.keys, keys=(*keys, index))
            self.value(array[index], (*keys, index))

        entries = [lambda at=at: element(at) for at in range(len(array))]
        self.entries("[]", entries, self.gap_in_array, self.random.choice(["", ",", ", # last\n"]))

    def key(self, name: str) -> None:
        if name and BARE.issuperset(name) and self.chance():
            self.write(name)
        elif is_literal(name) and self.chance():
            self.write(f"'{name}'")
        else:
            self.write(f'"{self.escaped(name)}"')

    def scalar(self, value: object) -> str:
        if isinstance(value, str):
            return self.string(value)
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int):
            styles = [str(value)] if value < 0 else [str(value), f"+{value}", f"{value:#x}", f"{value:_}"]
            return self.random.choice(styles)
        if isinstance(value, datetime.datetime):
            return value.isoformat(sep=self.random.choice("T "))
        return value.isoformat() if isinstance(value, datetime.date | datetime.time) else repr(value)

    def string(self, text: str) -> str:
        written = [f'"{self.escaped(text)}"', f'"""{self.escaped_lines(text)}"""']
        if is_literal(text):
            written.append(f"'{text}'")
        if is_literal(text.replace("\n", "").replace("'", "")) and "'''" not in text:
            written.append(f"'''\n{text}'''")
        return self.random.choice(written)

    def escaped(self, text: str) -> str:
        return "".join(self.escape(character) for character in text)

    def escape(self, character: str) -> str:
        if character in ESCAPES:
            return ESCAPES[character]
        if not is_literal(character.replace("'", "")) or self.random.random() < 0.1:
            return f"\\U{ord(character):08x}" if ord(character) > 0xFFFF else f"\\u{ord(character):04X}"
        return character

    def escaped_lines(self, text: str) -> str:
        """For three quotes: line feeds as they are, two quotes in a row, and lines that are continued."""
        done = "\n" if text.startswith("\n") or self.chance() else ""
        for character in text:
            if character == "\n" and self.chance():
                done += character
            elif character == '"' and not done.endswith('""') and self.chance():
                done += character
            else:
                may_continue = character not in " \t\n" and self.random.random() < 0.2
                done += ("\\ \n  \n " if may_continue else "") + self.escape(character)
        return done


def is_literal(text: str) -> bool:
    """Whether a text can stand between single quotes."""
    return not any(character in "'\x7f" or (character < " " and character != "\t") for character in text)
