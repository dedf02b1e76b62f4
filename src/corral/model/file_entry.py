"""FileEntry: what a listing of a sandbox's directory tells about one name; and how much a copy may be."""

from __future__ import annotations

from enum import StrEnum

from corral.model.record import Record


class FileKind(StrEnum):
    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "other"  # a FIFO, a socket, a device: it can be listed, and nothing else


class FileEntry(Record):
    name: str
    kind: FileKind
    size: int  # bytes; of a link, the length of its text
    mode: int  # permission bits
    modified: float  # seconds since the epoch, as the sandbox set it


class CopyBounds(Record):
    """Where a copy of a tree ends with an error: the sandbox may let the tree grow while it is copied."""

    total_bytes: int = 4 * 1024**3  # holes of sparse files count
    entries: int = 200_000
    depth: int = 64
