"""The entries of an index, read and written: for one that is made anew of another one's entries."""

from __future__ import annotations

import struct
from hashlib import sha1, sha256
from struct import Struct

from corral.git_formats.index import MalformedIndex, read_index
from corral.model.record import Record

_HEADER = Struct(">4sII")
_NUMBER = Struct(">I")
_SHORT = Struct(">H")
_STAT_LENGTH, _MODE_AT = 40, 24
_ASSUMED, _EXTENDED, _STAGES, _LONG_NAME = 0x8000, 0x4000, 0x3000, 0xFFF
_MODES = frozenset({0o100644, 0o100755, 0o120000, 0o160000})
GITLINK = 0o160000


class IndexEntry(Record):
    mode: int
    object_id: bytes
    is_assumed: bool  # unchanged, whatever the file says
    more_flags: int  # "intent to add" and "skip worktree"
    seen: bytes = bytes(_STAT_LENGTH)  # how the file was when git looked at it

    def means(self, other: IndexEntry | None) -> bool:
        """Whether both say the same of a path."""
        return other is not None and self._meaning() == other._meaning()

    def _meaning(self) -> tuple[int, bytes, bool, int]:
        return self.mode, self.object_id, self.is_assumed, self.more_flags


#: By path and stage, in the order in which git has them.
IndexEntries = dict[tuple[bytes, int], IndexEntry]


def read_entries(data: bytes, hash_length: int = 20) -> IndexEntries:
    """All entries. Raises MalformedIndex also for a split or a sparse one, which has not all of them."""
    if not data:
        return {}
    content = read_index(data, hash_length)
    if content.unsafe:
        raise MalformedIndex("it has a path that leads into a git directory, or out of the worktree")
    if content.shared or content.sparse:
        raise MalformedIndex("it is split, or has whole directories as entries")
    try:
        return _read(data, hash_length)
    except (IndexError, struct.error):
        raise MalformedIndex("it ends too early") from None


def _read(data: bytes, hash_length: int) -> IndexEntries:
    _, version, count = _HEADER.unpack_from(data)
    found: IndexEntries = {}
    at, path, fixed = _HEADER.size, b"", _STAT_LENGTH + hash_length
    for _ in range(count):
        flags = _SHORT.unpack_from(data, at + fixed)[0]
        name = at + fixed + (4 if flags & _EXTENDED else 2)
        more = _SHORT.unpack_from(data, at + fixed + 2)[0] if flags & _EXTENDED else 0
        if version < 4:
            end = data.index(0, name)
            path, following = data[name:end], at + ((end - at + 8) & -8)
        else:
            dropped, name = _read_varint(data, name)
            end = data.index(0, name)
            path, following = path[: len(path) - dropped] + data[name:end], end + 1
        mode = _NUMBER.unpack_from(data, at + _MODE_AT)[0]
        key = (path, (flags & _STAGES) >> 12)
        if key in found or mode not in _MODES:
            raise MalformedIndex("it has an entry twice, or one of an unknown mode")
        object_id = data[at + _STAT_LENGTH : at + fixed]
        found[key] = IndexEntry(mode, object_id, bool(flags & _ASSUMED), more, data[at : at + _STAT_LENGTH])
        at = following
    return found


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, at + 1


def renew(entries: IndexEntries, known: IndexEntries) -> IndexEntries:
    """Entries with what git has seen of the files on this side, as far as both say the same."""
    return {
        key: entry.replace(seen=known[key].seen if entry.means(known.get(key)) else bytes(_STAT_LENGTH))
        for key, entry in entries.items()
    }


def mean_the_same(entries: IndexEntries, others: IndexEntries) -> bool:
    """Whether git takes both for the same, but for what it has seen of the files."""
    is_same = entries.keys() == others.keys()
    return is_same and all(entry.means(others[key]) for key, entry in entries.items())


def write_entries(entries: IndexEntries, hash_length: int = 20) -> bytes:
    """An index with these entries and nothing else."""
    is_extended = any(entry.more_flags for entry in entries.values())
    parts = [_HEADER.pack(b"DIRC", 3 if is_extended else 2, len(entries))]
    for (path, stage), entry in sorted(entries.items(), key=lambda pair: pair[0]):
        flags = (stage << 12) | min(len(path), _LONG_NAME) | (_ASSUMED if entry.is_assumed else 0)
        more = b""
        if entry.more_flags:
            flags, more = flags | _EXTENDED, _SHORT.pack(entry.more_flags)
        seen = entry.seen[:_MODE_AT] + _NUMBER.pack(entry.mode) + entry.seen[_MODE_AT + 4 :]
        line = seen + entry.object_id + _SHORT.pack(flags) + more + path
        parts.append(line + bytes(8 - len(line) % 8))
    whole = b"".join(parts)
    return whole + (sha1(whole, usedforsecurity=False) if hash_length == 20 else sha256(whole)).digest()
