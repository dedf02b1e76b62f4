"""git's index: the paths that git would write into a git directory or out of its worktree, and its gitlinks.

Git believes what the file says: it checks neither the checksum nor the paths, so an entry `.git/hooks/x` is
written by the next `git restore .`. And two readers of one file must not see different entries: what would
let git see others than are seen here is refused as malformed.
"""

from __future__ import annotations

import struct
from struct import Struct

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Entry = tuple[bytes, int, int]  # a path, its mode, and where the next entry begins

_HEADER = Struct(">4sII")
_NUMBER = Struct(">I")
_PAIR = Struct(">II")
_SHORT = Struct(">H")
_HEADER_LENGTH = 12

_STAT_LENGTH = 40
_MODE_AT = 24
_STAGE_BITS = 0x30  # in the first byte of the flags
_EXTENDED, _EXTENDED_KNOWN = (
    0x4000,
    0x6000,
)  # more flags follow; those are "intent to add" and "skip worktree"
_LONG_NAME = 0xFFF
_FILE_BYTE = 0x81  # the same in 0100644 and 0100755
_KIND, _FILE, _LINK, _GITLINK, _SPARSE_DIRECTORY = 0xF000, 0x8000, 0xA000, 0xE000, 0x4000
#: A path that begins outside of these is looked at by itself: `.`, `/`, and what HFS+ leaves out of names.
_PLAIN_FROM, _PLAIN_BELOW = ord("0"), 0xE2
_MOST_PATH = 4096  # Linux opens no longer one; names of version 4 could otherwise grow out of proportion
_MOST_NAME = 1024  # what of a name can matter: file systems have at most 255 characters
_BATCH = 4096
#: What a byte may cost: others in names of version 4, a part of a name that is looked at by itself.
_MOST_NAMES_PER_BYTE, _BYTES_PER_ODD_NAME, _ALWAYS = 4, 24, 1 << 20
_MOST_BLOCKS = 4096  # git makes one of at least 10,000 entries for each of its threads

_PART, _END, _OFFSETS, _MONITOR = b"link", b"EOIE", b"IEOT", b"FSMN"
_EXTENSIONS = frozenset({b"TREE", b"REUC", b"UNTR", b"sdir", _PART, _END, _OFFSETS, _MONITOR})
_TOKEN = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:._-"

#: Characters that HFS+ does not see in names: joiners, marks of direction, a byte order mark.
_UNSEEN = tuple(
    chr(code).encode()
    for code in (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF)
)
#: Makes one search of many: in its words, every dangerous name that follows a `/` begins with `..`.
_ALIKE = bytes.maketrans(b"gG\xe2\xef\x80\x81\xbbIT", b".......it")
_AFTER_SLASH = b"/.."
_SHORT_NAME = b".it~1"


class MalformedIndex(ValueError):
    """Not an index, or one that git might read differently than it is read here."""


class IndexContent(Record):
    """What an index would have git do. Paths that are not UTF-8 have surrogates, as in the names of files."""

    gitlinks: tuple[str, ...]  # directories in which git would run, as submodules
    unsafe: tuple[str, ...]  # paths that lead into a git directory, or out of the worktree
    shared: str = ""  # of a split index: the file `sharedindex.` and this has the other part
    sparse: tuple[str, ...] = ()  # directories that stand for all that a tree has in them, gitlinks too


def read_index(
    data: bytes, hash_length: int = 20, shared: bytes | None = None, directories: set[bytes] | None = None
) -> IndexContent:
    """What is in an index. Of a split one that is not all, until the `shared` part that it names is given.

    The directories of its entries, not those above them, are added to `directories`, and files in conflict,
    which `git rerere` writes. Raises MalformedIndex for what is not fully understood.
    """
    try:
        own = _IndexFile(data, hash_length)
        files = [own]
        if own.shared and shared is not None:
            other = _IndexFile(shared, hash_length)
            if other.shared or shared[-hash_length:].hex() != own.shared:
                raise MalformedIndex("its other part is another one")
            own.name_replaced(other)
            files.append(other)
    except (IndexError, struct.error):
        raise MalformedIndex("it ends too early") from None
    if directories is not None:
        directories.update(*(file.directories for file in files))
    gitlinks = _texts(path for file in files for path in file.gitlinks)
    unsafe = _texts(path for file in files for path in file.unsafe)
    sparse = _texts(path for file in files for path in file.sparse)
    return IndexContent(gitlinks, unsafe, own.shared, sparse)


class _IndexFile:
    """One file: its layout checked, its entries gone through once."""

    def __init__(self, data: bytes, hash_length: int) -> None:
        self._data = data
        self._hash_length = hash_length
        self._end = len(data) - hash_length
        signature, self._version, self._count = _HEADER.unpack_from(data)
        if signature != b"DIRC" or not 2 <= self._version <= 4 or hash_length not in {20, 32}:
            raise MalformedIndex("it is of an unknown kind")
        self.gitlinks: list[bytes] = []
        self.sparse: list[bytes] = []
        self.unsafe: list[bytes] = []
        self.directories: set[bytes] = set()
        self._replaced: list[int] = []  # gitlinks without a name, by their numbers
        self._has_nameless = False
        self._odd_names_left = len(data) // _BYTES_PER_ODD_NAME + _BATCH
        self._names_left = len(data) * _MOST_NAMES_PER_BYTE + _ALWAYS
        self._last = b""
        self._extensions: dict[bytes, tuple[int, int]] = {}
        self._read()
        self.shared = self._read_part()
        self._check_monitor()

    def _read(self) -> None:
        """Entries and extensions; git begins with either, so both ways have to come to the same."""
        end_at = self._find_end()
        if end_at < 0:
            entries_end = self._walk([(_HEADER_LENGTH, self._count)])
            self._read_extensions(entries_end)
        else:
            entries_end = _NUMBER.unpack_from(self._data, end_at + 8)[0]
            self._read_extensions(entries_end)
            if self._walk(self._blocks()) != entries_end:
                raise MalformedIndex("its entries end elsewhere than it says")
        if self._extensions.get(_END, (-1, 0))[0] != (end_at + 8 if end_at >= 0 else -1):
            raise MalformedIndex("it says at two places where its entries end")
        if self._version < 4 and self._may_be_unsafe(self._data, _HEADER_LENGTH, entries_end):
            self.unsafe += [path for path, _, _ in self._entries() if is_unsafe(path)]

    def _find_end(self) -> int:
        """The extension that says where entries end; git looks for it backwards from the end of the file."""
        for length in (24, 4 + self._hash_length):  # for SHA-256 git writes one that it does not find itself
            at = self._end - 8 - length
            if at >= _HEADER_LENGTH and self._data[at : at + 4] == _END:
                return at
        return -1

    def _read_extensions(self, at: int) -> None:
        """Each is known, none is there twice, and together they fill the rest of the file."""
        while at < self._end:
            name = self._data[at : at + 4]
            start = at + 8
            at = start + _NUMBER.unpack_from(self._data, at + 4)[0]
            if name not in _EXTENSIONS or name in self._extensions:
                raise MalformedIndex(f"it has an extension {name!r} that nobody knows, or twice")
            self._extensions[name] = (start, at)
        if at != self._end:
            raise MalformedIndex("its extensions end elsewhere than it does")
        if _OFFSETS in self._extensions and _END not in self._extensions:
            raise MalformedIndex("it has offsets of its entries, but does not say where they end")

    def _blocks(self) -> list[tuple[int, int]]:
        """Offsets and numbers of entries, from which git reads with several threads."""
        start, end = self._extensions.get(_OFFSETS, (0, 0))
        if not start:
            return [(_HEADER_LENGTH, self._count)]
        if (end - start) % 8 != 4 or end - start < 12 or _NUMBER.unpack_from(self._data, start)[0] != 1:
            raise MalformedIndex("its offsets are of an unknown kind")
        if end - start > 8 * _MOST_BLOCKS:
            raise MalformedIndex("it has more offsets than git has threads")
        blocks = [_PAIR.unpack_from(self._data, at) for at in range(start + 4, end, 8)]
        if sum(number for _, number in blocks) != self._count:
            raise MalformedIndex("its offsets are those of more or fewer entries")
        return blocks

    def _walk(self, blocks: list[tuple[int, int]]) -> int:
        """Go through the entries, and note what is not a plain file; returns where they end.

        INVARIANT: a block begins exactly where the entries before it end. Git jumps to the offset, so any
        other one would show it entries that are not seen here.
        """
        at, first = _HEADER_LENGTH, 0
        for offset, number in blocks:
            if offset != at:
                raise MalformedIndex("its offsets lead elsewhere than its entries")
            walk = self._walk_padded if self._version < 4 else self._walk_compressed
            at = walk(at, first, number)
            first += number
        if at > self._end:
            raise MalformedIndex("it ends too early")
        return at

    def _walk_padded(self, at: int, first: int, number: int) -> int:
        """Versions 2 and 3. There may be 100,000 entries: a plain file costs these few lines and no more."""
        data = self._data
        fixed = _STAT_LENGTH + self._hash_length
        mode, rounded = fixed - _MODE_AT - 2, fixed + 2 + 8
        flags = at + fixed
        find_slash, directory, directories = data.rfind, b"", self.directories
        for position in range(first, first + number):
            length = data[flags + 1]
            if (
                data[flags]  # a stage of a merge, another flag, a long name
                or data[flags - mode] != _FILE_BYTE
                or not _PLAIN_FROM <= data[flags + 2] < _PLAIN_BELOW
                or data[flags + 2 + length]
            ):
                path, kind, following = self._padded_entry(flags - fixed)
                self._note(path, kind, position)
                directories.add(self._way_to(path, kind, data[flags]))
                flags = following + fixed
            else:
                slash = find_slash(47, flags + 2, flags + 2 + length)
                if slash >= 0 and data[flags + 2 : slash] != directory:
                    directory = data[flags + 2 : slash]
                    directories.add(directory)
                flags += (length + rounded) & -8
        return flags - fixed

    def _walk_compressed(self, at: int, first: int, number: int) -> int:
        """Version 4: a name is a part of the one before it, and what follows."""
        batch, fixed = [self._last], _STAT_LENGTH + self._hash_length
        for position in range(first, first + number):
            entry = at
            path, mode, at = self._compressed_entry(at, batch[-1], is_first=position == first)
            if mode & _KIND != _FILE or path[:1] in {b"", b"/"}:
                self._note(path, mode, position)
            self.directories.add(self._way_to(path, mode, self._data[entry + fixed]))
            batch.append(path)
            if len(batch) == _BATCH:
                self._judge(batch)
                batch = [path]
        self._judge(batch)
        self._last = batch[-1]
        return at

    def _way_to(self, path: bytes, mode: int, flags: int) -> bytes:
        """The directory of an entry. A file in conflict is written through a link at its own end as well."""
        is_in_conflict = flags & _STAGE_BITS and mode & _KIND == _FILE
        return path if is_in_conflict else path.rpartition(b"/")[0]

    def _judge(self, paths: list[bytes]) -> None:
        joined = b"".join([b"/%b\0" % path for path in paths])
        if self._may_be_unsafe(joined, 0, len(joined)):
            self.unsafe += filter(is_unsafe, paths)

    def _may_be_unsafe(self, data: bytes, start: int, end: int) -> bool:
        """Whether an unsafe path may be in there, apart from one that begins with a dot or a slash.

        It finds every one, wherever entries begin, and now and then something else.
        """
        for name in _odd_names(data, start, end):
            self._odd_names_left -= 1
            if self._odd_names_left < 0:
                raise MalformedIndex("it has more odd names than any other")
            if _is_unsafe_name(name):
                return True
        return False

    def _entries(self) -> Iterator[Entry]:
        """All entries, one by one."""
        at, path = _HEADER_LENGTH, b""
        for _ in range(self._count):
            entry = self._padded_entry(at) if self._version < 4 else self._compressed_entry(at, path)
            path, _, at = entry
            yield entry

    def _padded_entry(self, at: int) -> Entry:
        mode, length, name = self._fields(at)
        end = self._data.find(0, name) if length == _LONG_NAME else name + length
        path = self._data[name:end]
        if end < 0 or self._data[end] or 0 in path or len(path) > _MOST_PATH:
            raise MalformedIndex("a name ends elsewhere than it says")
        return path, mode, at + ((end - at + 8) & -8)

    def _compressed_entry(self, at: int, before: bytes, *, is_first: bool = False) -> Entry:
        mode, length, name = self._fields(at)
        dropped, name = _read_varint(self._data, name)
        kept = len(before) - dropped
        end = self._data.find(0, name)
        if end < 0 or kept < 0 or (is_first and kept):  # a thread that begins here knows no name before it
            raise MalformedIndex("a name does not fit to the one before it")
        path = before[:kept] + self._data[name:end]
        self._names_left -= len(path)
        if len(path) > _MOST_PATH or length not in {len(path), _LONG_NAME} or self._names_left < 0:
            raise MalformedIndex("a name has another length than it says, or all of them are too long")
        return path, mode, end + 1

    def _fields(self, at: int) -> tuple[int, int, int]:
        """The mode of an entry, the length that its name is said to have, and where the name begins."""
        mode = _NUMBER.unpack_from(self._data, at + _MODE_AT)[0]
        flags_at = at + _STAT_LENGTH + self._hash_length
        flags = _SHORT.unpack_from(self._data, flags_at)[0]
        if not flags & _EXTENDED:
            return mode, flags & _LONG_NAME, flags_at + 2
        if _SHORT.unpack_from(self._data, flags_at + 2)[0] & ~_EXTENDED_KNOWN:
            raise MalformedIndex("an entry has unknown flags")
        return mode, flags & _LONG_NAME, flags_at + 4

    def _note(self, path: bytes, mode: int, position: int) -> None:
        """An entry that is not a plain file, or has a name that is not."""
        kind = mode & _KIND
        is_gitlink = kind == _GITLINK
        if mode == _SPARSE_DIRECTORY:
            self.sparse.append(path)
        if kind not in {_FILE, _LINK, _GITLINK} and not (mode == _SPARSE_DIRECTORY and path.endswith(b"/")):
            raise MalformedIndex("an entry is of an unknown kind")
        if not path:
            self._has_nameless = True
            if is_gitlink:
                self._replaced.append(position)
        elif is_unsafe(path) or (is_gitlink and not {b"", b"."}.isdisjoint(path.split(b"/"))):
            self.unsafe.append(path)
        elif is_gitlink:
            self.gitlinks.append(path)

    def _read_part(self) -> str:
        """The name of the other part, if this is a split index: only there may entries be without a name."""
        start, end = self._extensions.get(_PART, (0, 0))
        base = self._data[start : start + self._hash_length]
        if start and end - start < self._hash_length:
            raise MalformedIndex("it does not say which its other part is")
        if start and any(base):
            return base.hex()
        if self._has_nameless:
            raise MalformedIndex("an entry has no name")
        return ""

    def name_replaced(self, other: _IndexFile) -> None:
        """Find the names of gitlinks that stand for entries of the other part.

        The n-th entry without a name replaces the one that the n-th bit of the second bitmap stands for.
        """
        if not self._replaced:
            return
        start, end = self._extensions[_PART]
        _, start = _read_bitmap(self._data, start + self._hash_length, end, other._count)
        places, _ = _read_bitmap(self._data, start, end, other._count)
        wanted = {places[number] for number in self._replaced}
        for position, (path, _, _) in enumerate(other._entries()):
            if position in wanted:
                self._note(path, _GITLINK, position)

    def _check_monitor(self) -> None:
        """The token is an argument of the user's fsmonitor program, which may not expect everything."""
        start, end = self._extensions.get(_MONITOR, (0, 0))
        if not start:
            return
        token, found, _ = self._data[start + 4 : end].partition(b"\0")
        version = _NUMBER.unpack_from(self._data, start)[0]
        if version != 1 and (version != 2 or not found or token.strip(_TOKEN)):
            raise MalformedIndex("its token for fsmonitor is of an unknown kind")


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number as git packs it, and what follows it."""
    byte = data[at]
    value = byte & 127
    while byte & 128:
        at += 1
        byte = data[at]
        value = ((value + 1) << 7) + (byte & 127)
        if value > _MOST_PATH:
            raise MalformedIndex("a name is too long")
    return value, at + 1


def _read_bitmap(data: bytes, at: int, end: int, most: int) -> tuple[list[int], int]:
    """The bits that are set in a compressed bitmap (EWAH), and what follows it."""
    size, words = _PAIR.unpack_from(data, at)
    following = at + 8 + 8 * words + 4
    if following > end or size > most:
        raise MalformedIndex("a bitmap is too long")
    values = [int.from_bytes(data[at : at + 8], "big") for at in range(at + 8, following - 4, 8)]
    bits: list[int] = []
    position = number = 0
    while number < len(values):
        marker = values[number]
        run, literals = 64 * (marker >> 1 & 0xFFFFFFFF), marker >> 33
        if marker & 1:
            bits.extend(range(position, min(position + run, size)))
        position += run
        for value in values[number + 1 : number + 1 + literals]:
            bits.extend(position + bit for bit in range(64) if value >> bit & 1)
            position += 64
        number += 1 + literals
    return bits, following


def _texts(paths: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path.decode("utf-8", "surrogateescape") for path in paths))


def is_unsafe(path: bytes) -> bool:
    """Whether a path leads into a git directory or out of the worktree, on whatever file system it is."""
    if path.startswith(b"/"):
        return True
    whole = b"/" + path  # most names need not be looked at by themselves
    return any(_odd_names(whole, 0, len(whole))) and any(map(_is_unsafe_name, path.split(b"/")))


def _is_unsafe_name(name: bytes) -> bool:
    lower = name[:_MOST_NAME].lower()
    if lower.startswith(b"git~1"):  # the short name that DOS gives to `.git`
        return _ends_there(lower[5:])
    if not name.isascii():
        for unseen in _UNSEEN:
            lower = lower.replace(unseen, b"")
    return lower == b".." or (lower.startswith(b".git") and _ends_there(lower[4:]))


def _ends_there(rest: bytes) -> bool:
    """Whether Windows' file systems take a name without its rest for the same."""
    return rest.lstrip(b" .")[:1] in {b"", b":", b"\\"}


def _odd_names(data: bytes, start: int, end: int) -> Iterator[bytes]:
    """What may be an unsafe name, by its first bytes; one of Windows also where it is the end of another."""
    alike = data.translate(_ALIKE)
    for needle, skipped in ((_SHORT_NAME, 0), (_AFTER_SLASH, 1)):
        at = alike.find(needle, start, end)
        while at >= 0:
            first = at + skipped
            yield data[first : first + _MOST_NAME].partition(b"/")[0].partition(b"\0")[0]
            at = alike.find(needle, at + 1, end)
