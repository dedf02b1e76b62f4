"""Write settings into a git configuration, and leave every other byte of it as it is."""

from __future__ import annotations

from corral.git.config import read_config, span_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from corral.git.config import Entry

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
    entries = read_config(data)
    edits: list[Edit] = []
    new_sections: dict[str, list[bytes]] = {}
    for name, settings in changes.items():
        own = [entry for entry in entries if entry.name == name]
        if len(own) == len(settings):
            edits += _replaced(own, settings)
            continue
        edits += ((*span_of(data, entry), b"") for entry in own)
        lines = [b"\t" + _line(setting) + b"\n" for setting in settings]
        stem = name.rpartition(".")[0]
        at = _end_of_section(data, entries, stem)
        if at < 0:
            new_sections.setdefault(stem, []).extend(lines)
        elif lines:
            edits.append((at, at, b"".join(lines)))
    tail = b"".join(_header(stem) + b"".join(lines) for stem, lines in new_sections.items() if lines)
    return _edited(data, edits) + tail


def key_of(data: bytes, entry: Entry) -> str:
    """A key as it stands in the file, capital letters and all."""
    size = len(entry.key)
    return data[entry.start : entry.start + size].decode("ascii")


def _replaced(own: list[Entry], settings: tuple[Setting, ...]) -> Iterable[Edit]:
    for entry, setting in zip(own, settings, strict=True):
        if entry.value != setting[1]:
            yield entry.start, entry.end, _line(setting)


def _end_of_section(data: bytes, entries: Iterable[Entry], stem: str) -> int:
    """Where the line behind the last setting of a section begins, or behind its bare header; -1 if none."""
    last = max((entry.end for entry in entries if entry.name.rpartition(".")[0] == stem), default=-1)
    if last >= 0:
        return data.index(b"\n", last) + 1
    header = _header(stem)
    at = 0 if data.startswith(header) else data.find(b"\n" + header) + 1
    return at + len(header) if at or data.startswith(header) else -1


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
