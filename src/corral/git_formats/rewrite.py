"""Write settings into a git configuration, and leave every other byte of it as it is."""

from __future__ import annotations

from corral.git_formats.config import read_config, span_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from corral.git_formats.config import ConfigEntry

    Setting = tuple[str, str | None]  # the key as it is to be written, and the value
    Edit = tuple[int, int, bytes]  # from here to there stands this

_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"))


def rewrite(data: bytes, changes: Mapping[str, tuple[Setting, ...]]) -> bytes:
    """The file, in which each name has these settings and no other; an empty tuple takes the name away.

    TRUST: one setting a line, in the form that git itself writes. Other programs read these files too, not
    all as git does, so nothing of a command's own spelling, lines and comments gets in.
    """
    if data and not data.endswith(b"\n"):
        data += b"\n"
    by_name: dict[str, list[ConfigEntry]] = {}
    ends = _bare_headers(data)  # of sections: where the next line begins
    for entry in read_config(data):
        by_name.setdefault(entry.name, []).append(entry)
        ends[_header(_stem(entry.name))] = data.index(b"\n", entry.end) + 1
    edits: list[Edit] = []
    new_sections: dict[bytes, list[bytes]] = {}
    for name, settings in changes.items():
        own = by_name.get(name, [])
        if len(own) == len(settings):
            edits += _replaced(own, settings)
            continue
        edits += ((*span_of(data, entry), b"") for entry in own)
        lines = [b"\t" + _line(setting) + b"\n" for setting in settings]
        header = _header(_stem(name))
        at = ends.get(header, -1)
        if at < 0:
            new_sections.setdefault(header, []).extend(lines)
        elif lines:
            edits.append((at, at, b"".join(lines)))
    tail = b"".join(header + b"".join(lines) for header, lines in new_sections.items() if lines)
    return _edited(data, edits) + tail


def key_of(data: bytes, entry: ConfigEntry) -> str:
    """A key as it stands in the file, capital letters and all."""
    size = len(entry.key)
    return data[entry.start : entry.start + size].decode("ascii")


def _replaced(own: list[ConfigEntry], settings: tuple[Setting, ...]) -> Iterable[Edit]:
    for entry, setting in zip(own, settings, strict=True):
        if entry.value != setting[1]:
            yield entry.start, entry.end, _line(setting)


def _stem(name: str) -> str:
    return name.rpartition(".")[0]


def _bare_headers(data: bytes) -> dict[bytes, int]:
    """Where the line behind each header begins that has a line of its own, the first of each."""
    found: dict[bytes, int] = {}
    at = 0
    for line in data.split(b"\n"):
        at += len(line) + 1
        if line.startswith(b"["):
            found.setdefault(line + b"\n", at)
    return found


def _edited(data: bytes, edits: list[Edit]) -> bytes:
    pieces: list[bytes] = []
    at = 0
    for start, end, text in sorted(edits, key=lambda edit: edit[:2]):
        pieces += (data[at:start], text)
        at = end
    return b"".join((*pieces, data[at:]))


def _header(stem: str) -> bytes:
    section, dot, subsection = stem.partition(".")
    quoted = subsection.replace("\\", "\\\\").replace('"', '\\"')
    return _bytes(f'[{section} "{quoted}"]\n' if dot else f"[{section}]\n")


def _line(setting: Setting) -> bytes:
    key, value = setting
    if value is None:
        return _bytes(key)
    written = value
    for character, escaped in _ESCAPES:
        written = written.replace(character, escaped)
    if value != value.strip() or "#" in value or ";" in value:
        written = f'"{written}"'
    return _bytes(f"{key} = {written}")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
