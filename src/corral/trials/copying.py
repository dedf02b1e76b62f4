"""Copy one file by descriptor: holes stay holes, and blocks are shared where the file system can."""

from __future__ import annotations

import errno
import os

_PIECE = 1 << 30
_SMALL = 64 << 10
_WITHOUT_RANGES = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM})


def copy_content(source: int, target: int, size: int, most: int | None = None) -> None:
    """The first `size` bytes, into an empty file, of which `most` may be no holes. Raises OSError."""
    left = size if most is None else most
    if size <= _SMALL and os.fstat(source).st_blocks * 512 >= size <= left:  # most are: quicker
        piece = os.pread(source, size, 0)
        if len(piece) == size and os.pwrite(target, piece, 0) == size:
            return
    at = 0
    while at < size:
        try:
            start = os.lseek(source, at, os.SEEK_DATA)
        except OSError as problem:
            if problem.errno == errno.ENXIO:  # nothing but a hole is left
                break
            if problem.errno != errno.EINVAL:
                raise
            start, end = at, size  # this file system does not tell
        else:
            end = min(os.lseek(source, start, os.SEEK_HOLE), size)
        left -= end - start
        if left < 0:
            raise OSError(errno.EFBIG, "it grows while it is copied")
        _copy_range(source, target, start, end)
        at = end
    if os.fstat(target).st_size != size:
        os.ftruncate(target, size)


def _copy_range(source: int, target: int, start: int, end: int) -> None:
    while start < end:
        try:
            copied = os.copy_file_range(source, target, min(end - start, _PIECE), start, start)
        except OSError as problem:
            if problem.errno not in _WITHOUT_RANGES:
                raise
            _copy_by_hand(source, target, start, end)
            return
        if copied == 0:
            raise OSError(errno.ESTALE, "it became shorter while it was copied")
        start += copied


def _copy_by_hand(source: int, target: int, start: int, end: int) -> None:
    while start < end:
        piece = os.pread(source, min(end - start, 1 << 20), start)
        if not piece:
            raise OSError(errno.ESTALE, "it became shorter while it was copied")
        written = 0
        while written < len(piece):
            written += os.pwrite(target, piece[written:], start + written)
        start += len(piece)
