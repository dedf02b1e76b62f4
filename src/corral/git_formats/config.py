"""Git configuration files: read as git reads them, and written with some settings left out.

This is `git_parse_source` of git's config.c once more, character for character. A reader that differs from
git can be shown a harmless setting where git sees a program.
"""

from __future__ import annotations

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_BOM = b"\xef\xbb\xbf"
_LINE_FEED, _RETURN = b"\n\r"
_EQUALS, _QUOTE, _BACKSLASH, _OPEN, _CLOSE, _DOT = b'="\\[].'
_COMMENT = frozenset(b"#;")
#: git has its own idea of characters: ASCII, whatever the locale; form feeds are no spaces.
_BLANK = frozenset(b" \t\r")
_SPACE = frozenset(b" \t\r\n")
_LETTER = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_KEY = _LETTER | frozenset(b"0123456789-")
_MEANINGFUL = b'"\\#;\t\r'
#: Every setting has the name of its section: those of a long one could grow out of proportion.
_MOST_NAMES_PER_BYTE, _ALWAYS = 8, 65_536
_ESCAPED = dict(zip(b'tbn\\"', b'\t\b\n\\"', strict=True))


class MalformedConfig(ValueError):
    """Git says "bad config line" and gives up, whatever it was asked for; or names are too long for us."""

    def __init__(self, line: int) -> None:
        super().__init__(f"bad config line {line}")
        self.line = line


class ConfigEntry(Record):
    """One setting. Text that is not UTF-8 has surrogates, as in the names of files."""

    name: str  # as git compares it: section and key in lower case, the subsection as it was written
    value: str | None  # None if there was no `=`: true for a switch, an error for anything else
    older_value: str | None  # before git 2.45 each tab and return between two words was a space
    line: int  # of the key, from 1
    start: int  # the first byte of the key
    end: int  # behind the last byte, a comment included; here stands the end of the line

    @property
    def section(self) -> str:
        """What stands before the first dot; empty for a key above all sections, which git ignores."""
        return self.name.partition(".")[0] if "." in self.name else ""

    @property
    def subsection(self) -> str | None:
        """What stands between the first dot and the last one; None if they are the same."""
        return self.name.partition(".")[2].rpartition(".")[0] if self.name.count(".") > 1 else None

    @property
    def key(self) -> str:
        """What stands behind the last dot."""
        return self.name.rpartition(".")[2]

    @property
    def readings(self) -> tuple[str, ...]:
        """What any version of git takes for the value; a path must be protected in each reading."""
        return tuple(dict.fromkeys(text for text in (self.value, self.older_value) if text is not None))


def read_config(data: bytes) -> tuple[ConfigEntry, ...]:
    """Every setting of a file, in order; MalformedConfig if git would refuse the file.

    Nothing is included from other files: `include.path` is a setting like others.
    """
    return tuple(_Parser(data).entries())


def without(data: bytes, drop: Callable[[ConfigEntry], bool]) -> bytes:
    """The file without the settings that are to be dropped; the rest stays as it is, byte for byte.

    A section keeps its header, also when nothing is left in it.
    """
    kept, at = [], 0
    for entry in read_config(data):
        if drop(entry):
            start, end = span_of(data, entry)
            kept.append(data[at:start])
            at = end
    return b"".join((*kept, data[at:]))


def span_of(data: bytes, entry: ConfigEntry) -> tuple[int, int]:
    """What to cut out: the whole line of a setting; only the setting if a header shares the line."""
    start, end = entry.start, entry.end
    while start and data[start - 1] in _BLANK:
        start -= 1
    if start and data[start - 1] != _LINE_FEED:
        return entry.start, entry.end
    if data[end : end + 1] == b"\r":
        end += 1
    return start, min(end + 1, len(data))


class _Characters:
    """The characters of a file, where the end of a line has one form and the end of the file is one too."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0  # of the character that `next` returned last
        self._behind = 0
        self.line = 1
        self.is_at_end = False

    def next(self) -> int:
        data, at = self._data, self._behind
        self.at = at
        if at >= len(data):
            self.is_at_end = True
            self.line += 1
            return _LINE_FEED
        character = data[at]
        self._behind = at + 1
        if character == _RETURN and data[at + 1 : at + 2] == b"\n":
            self._behind = at + 2
            character = _LINE_FEED
        if character == _LINE_FEED:
            self.line += 1
        return character

    def skip_line(self) -> None:
        """Read on to the end of the line, as `next` would."""
        end = self._data.find(b"\n", self._behind)
        if end < 0:
            end = len(self._data)
        elif self._data[self._behind : end].endswith(b"\r"):
            end -= 1
        self._behind = end
        self.next()

    def plain_line(self) -> bytes | None:
        """The rest of the line, if no character there has a meaning; most values are quick to read so."""
        end = self._data.find(b"\n", self._behind)
        rest = self._data[self._behind : max(end, self._behind)]
        if not rest or len(rest.translate(None, _MEANINGFUL)) != len(rest):
            return None
        self.skip_line()
        return rest


class _Parser:
    def __init__(self, data: bytes) -> None:
        self._characters = _Characters(data)
        self._next = self._characters.next
        self._stem = b""  # the section with its dot
        self._names_left = len(data) * _MOST_NAMES_PER_BYTE + _ALWAYS

    def entries(self) -> list[ConfigEntry]:
        """The states of git's own loop: between settings, in a comment, in a header, in a setting."""
        found = []
        character = self._skip_mark()
        while not self._characters.is_at_end:
            if character in _COMMENT:
                self._characters.skip_line()
            elif character == _OPEN:
                self._stem = self._header() + b"."
            elif character in _LETTER:
                found.append(self._entry(character))
            elif character not in _SPACE:
                raise self._malformed()
            character = self._next()
        return found

    def _malformed(self, *, lines_back: int = 0) -> MalformedConfig:
        return MalformedConfig(self._characters.line - lines_back)

    def _skip_mark(self) -> int:
        """The first character behind the mark that some editors put before UTF-8; half a mark is an error."""
        character = self._next()
        if character != _BOM[0]:
            return character
        for expected in _BOM[1:]:
            if self._next() != expected:
                raise self._malformed()
        return self._next()

    def _header(self) -> bytes:
        """A section behind its `[`: [name], [name.sub] or [name "sub"]."""
        name = bytearray()
        while True:
            character = self._next()
            if self._characters.is_at_end:
                raise self._malformed()
            if character == _CLOSE:
                break
            if character in _SPACE:
                return bytes(name).lower() + b"." + self._subsection(character)
            if character not in _KEY and character != _DOT:
                raise self._malformed()
            name.append(character)
        if not name:
            raise self._malformed()
        return bytes(name).lower()

    def _subsection(self, character: int) -> bytes:
        """A subsection in quotes. A backslash has no meaning but that the next character has none."""
        while character in _SPACE:
            if character == _LINE_FEED:
                raise self._malformed(lines_back=1)
            character = self._next()
        if character != _QUOTE:
            raise self._malformed()
        name = bytearray()
        while (character := self._next()) != _QUOTE:
            if character == _BACKSLASH:
                character = self._next()
            if character == _LINE_FEED:
                raise self._malformed(lines_back=1)
            name.append(character)
        if self._next() != _CLOSE:
            raise self._malformed()
        return bytes(name)

    def _entry(self, first: int) -> ConfigEntry:
        start, line = self._characters.at, self._characters.line
        key = bytearray([first])
        while (character := self._next()) in _KEY:
            key.append(character)
        while character in b" \t":
            character = self._next()
        value = older = None
        if character == _EQUALS:
            value, older = map(_text, self._value())
        elif character != _LINE_FEED:
            raise self._malformed()
        self._names_left -= len(self._stem) + len(key)
        if self._names_left < 0:
            raise self._malformed()
        name = _text(self._stem + bytes(key).lower())
        return ConfigEntry(name, value, older, line, start, self._characters.at)

    def _value(self) -> tuple[bytes, bytes]:
        """A value behind its `=`, as git reads it since 2.45 and as it did before."""
        if (plain := self._characters.plain_line()) is not None:
            return plain.strip(b" "), plain.strip(b" ")
        value, older, blanks = bytearray(), bytearray(), bytearray()
        is_quoted = False
        while (character := self._next()) != _LINE_FEED:
            if not is_quoted and character in _BLANK:
                if value:
                    blanks.append(character)
                continue
            if not is_quoted and character in _COMMENT:
                self._characters.skip_line()
                break
            value += blanks
            older += b" " * len(blanks)
            blanks.clear()
            if character == _QUOTE:
                is_quoted = not is_quoted
                continue
            if character == _BACKSLASH:
                character = self._next()
                if character == _LINE_FEED:
                    continue
                if character not in _ESCAPED:
                    raise self._malformed()
                character = _ESCAPED[character]
            value.append(character)
            older.append(character)
        if is_quoted:
            raise self._malformed(lines_back=1)
        return bytes(value), bytes(older)


def _text(raw: bytes) -> str:
    """What git's C strings have of it: up to the first NUL.

    TRUST: so [core "hookspath\\0"] x = y is core.hookspath; a reader that keeps the NUL sees another name.
    """
    return raw.partition(b"\0")[0].decode("utf-8", "surrogateescape")
