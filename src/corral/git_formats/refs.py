"""References and their logs, as git keeps them in files. Whatever git would not write is malformed."""

from __future__ import annotations

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_HEX = frozenset("0123456789abcdef")
_SYMBOLIC = "ref: "
_MOST_NAME = 1024
_MOST_MESSAGE = 4096


class MalformedRefs(ValueError):
    """Not as git writes it."""


class LogEntry(Record):
    """One line of the log of a reference."""

    new: str
    name: str
    email: str
    date: str  # seconds and zone, as git takes it
    message: str


def is_object_id(text: str) -> bool:
    """Whether it is a whole object id, of SHA-1 or SHA-256."""
    return len(text) in {40, 64} and _HEX.issuperset(text)


def is_ref_name(name: str) -> bool:
    """Whether it can be the name of a reference; `git check-ref-format` says the same, or is stricter."""
    if not name.startswith("refs/") or len(name) > _MOST_NAME or name.endswith((".", "/")):
        return False
    if any(ord(character) <= 32 or character in '\x7f~^:?*[\\"' for character in name):
        return False
    parts = name.split("/")
    return ".." not in name and "@{" not in name and all(map(_is_part, parts))


def _is_part(part: str) -> bool:
    return bool(part) and not part.startswith(".") and not part.endswith(".lock")


def read_value(data: bytes) -> str:
    """Of a loose reference or HEAD: an object id, or `ref: ` and a name. Raises MalformedRefs."""
    try:
        text = data.decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError:
        raise MalformedRefs("a reference is not text") from None
    if is_object_id(text) or (text.startswith(_SYMBOLIC) and is_ref_name(text[len(_SYMBOLIC) :])):
        return text
    raise MalformedRefs("a reference has neither an object id nor a name")


def target_of(value: str) -> str:
    """The name that a symbolic reference leads to; empty for another one."""
    return value.removeprefix(_SYMBOLIC) if value.startswith(_SYMBOLIC) else ""


def read_packed(data: bytes) -> dict[str, str]:
    """The references of `packed-refs`. Raises MalformedRefs."""
    found: dict[str, str] = {}
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        raise MalformedRefs("packed-refs is not text") from None
    if lines[-1]:
        raise MalformedRefs("packed-refs is cut off")
    for line in lines[:-1]:
        if line.startswith("#") and not found:
            continue
        if line.startswith("^") and found and is_object_id(line[1:]):
            continue
        value, _, name = line.partition(" ")
        if not is_object_id(value) or not is_ref_name(name) or name in found:
            raise MalformedRefs("packed-refs has a line that git does not write")
        found[name] = value
    return found


def read_log(data: bytes) -> tuple[LogEntry, ...]:
    """The log of a reference, the oldest entry first. Raises MalformedRefs."""
    return tuple(_entries(data.decode("utf-8", "replace")))


def _entries(text: str) -> Iterator[LogEntry]:
    lines = text.split("\n")
    if lines[-1]:
        raise MalformedRefs("a log is cut off")
    for line in lines[:-1]:
        head, _, message = line.partition("\t")
        ids, _, after = head.partition("> ")
        old, _, others = ids.partition(" ")
        new, _, words = others.partition(" ")
        name, found, email = words.rpartition("<")
        seconds, _, zone = after.partition(" ")
        is_date = seconds.isdecimal() and seconds.isascii() and len(seconds) < 12
        is_zone = len(zone) == 5 and zone[0] in "+-" and zone[1:].isdecimal() and zone.isascii()
        if not (is_object_id(old) and is_object_id(new) and found and is_date and is_zone):
            raise MalformedRefs("a log has a line that git does not write")
        yield LogEntry(new, plain(name), plain(email), f"@{seconds} {zone}", plain(message))


def plain(text: str) -> str:
    """Without what git's own files use as marks, and without characters that nobody sees."""
    kept = "".join(" " if not character.isprintable() else character for character in text)
    return kept.replace("<", "").replace(">", "").strip()[:_MOST_MESSAGE]
