"""Change one place of a JSON text, and keep every other character of it as it is."""

from __future__ import annotations

import json
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

_SPACE = " \t\r\n"
_DECODER = json.JSONDecoder()


class Part(NamedTuple):
    """A member of an object, or an item of an array."""

    key: str
    start: int  # of the key, or of the item
    value: int  # where the value begins
    end: int


def parse(text: str) -> dict[str, Any]:
    """The object that a text is. Raises ValueError."""
    value = json.loads(text, object_pairs_hook=_without_doubles)
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    return value


def set_member(text: str, path: tuple[str, ...], value: object) -> str:
    """The text with a value at the end of a path of keys; objects on the way are made. Raises ValueError."""
    return _put(text, path, value, is_item=False)


def append_item(text: str, path: tuple[str, ...], value: object) -> str:
    """The text with one item more in the array at a path, which is made if need be. Raises ValueError."""
    return _put(text, path, value, is_item=True)


def remove(text: str, path: tuple[str | int, ...]) -> str:
    """The text without what is at a path, and without the containers that are empty then."""
    while True:
        start = _root(text)
        for step in path[:-1]:
            start = _child(text, start, step).value
        parts, close = _parts(text, start)
        index = next(number for number, part in enumerate(parts) if path[-1] in {part.key, number})
        if len(parts) > 1 or len(path) == 1:
            break
        path = path[:-1]
    if index:
        return text[: parts[index - 1].end] + text[parts[index].end :]
    if len(parts) > 1:
        return text[: parts[0].start] + text[parts[1].start :]
    return text[: start + 1] + text[close:]


def _put(text: str, path: tuple[str, ...], value: object, *, is_item: bool) -> str:
    start = _root(text)
    for level, key in enumerate(path):
        parts, _ = _parts(text, start)
        found = next((part for part in parts if part.key == key), None)
        is_last = level == len(path) - 1
        if found is None:
            rest = [value] if is_item else value
            for name in reversed(path[level + 1 :]):
                rest = {name: rest}
            return _insert(text, start, level + 1, rest, key)
        if is_last and not is_item:
            return text[: found.value] + _rendered(text, value, level + 1) + text[found.end :]
        if text[found.value] != ("[" if is_last else "{"):
            raise ValueError(f"{'.'.join(path[: level + 1])} is not {'an array' if is_last else 'an object'}")
        start = found.value
    return _insert(text, start, len(path) + 1, value)


def _insert(text: str, start: int, level: int, value: object, key: str | None = None) -> str:
    parts, close = _parts(text, start)
    body = ("" if key is None else f"{json.dumps(key)}: ") + _rendered(text, value, level)
    if parts:
        at = parts[-1].end
        return f"{text[:at]},{_line(text, level) or ' '}{body}{text[at:]}"
    return f"{text[: start + 1]}{_line(text, level)}{body}{_line(text, level - 1)}{text[close:]}"


def _rendered(text: str, value: object, level: int) -> str:
    if not _line(text, 0):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, indent=_unit(text), ensure_ascii=False).replace("\n", _line(text, level))


def _line(text: str, level: int) -> str:
    """The beginning of a line; nothing in a text that is one line, unless it is empty as well."""
    ending = "\r\n" if "\r\n" in text else "\n"
    is_one_line = "\n" not in text.strip(_SPACE) and len(text.strip(_SPACE)) > 2
    return "" if is_one_line else ending + _unit(text) * level


def _unit(text: str) -> str:
    for line in text.splitlines()[1:]:
        stripped = line.lstrip(" \t")
        if stripped and len(stripped) < len(line):
            return line[: len(line) - len(stripped)]
    return "  "


def _root(text: str) -> int:
    return len(text) - len(text.lstrip(_SPACE))


def _child(text: str, start: int, step: str | int) -> Part:
    parts, _ = _parts(text, start)
    return parts[step] if isinstance(step, int) else next(part for part in parts if part.key == step)


def _parts(text: str, start: int) -> tuple[list[Part], int]:
    """What an object or array holds, and where it closes. The text is valid: `parse` has read it."""
    is_object = text[start] == "{"
    parts: list[Part] = []
    at = _skip(text, start + 1)
    while text[at] not in "]}":
        begin, key = at, ""
        if is_object:
            key, at = scanstring(text, at + 1)
            at = _skip(text, _skip(text, at) + 1)
        _, end = _DECODER.raw_decode(text, at)
        parts.append(Part(key, begin, at, end))
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return parts, at


def _skip(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key is there twice")
    return made
