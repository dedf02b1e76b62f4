"""Numbers of WASI preview 1: errors, kinds of files, rights and flags."""

from __future__ import annotations

import errno

SUCCESS, TOO_BIG, ACCESS, BAD_DESCRIPTOR, BUSY = 0, 1, 2, 8, 10
EXISTS, FAULT, FILE_TOO_BIG, INVALID, IO, IS_DIRECTORY = 20, 21, 22, 28, 29, 31
LOOP, TOO_MANY_FILES, NAME_TOO_LONG, NO_ENTRY, NO_SPACE, NOT_SUPPORTED = 32, 33, 37, 44, 51, 58
NOT_DIRECTORY, NOT_EMPTY, NOT_PERMITTED, BROKEN_PIPE, ILLEGAL_SEEK, CROSS_DEVICE = 54, 55, 63, 64, 70, 75
NOT_CAPABLE, READ_ONLY, WOULD_BLOCK, OVERFLOW, NOT_SOCKET = 76, 69, 6, 61, 57

_FROM_HOST = {
    errno.E2BIG: TOO_BIG,
    errno.EACCES: ACCESS,
    errno.EAGAIN: WOULD_BLOCK,
    errno.EBADF: BAD_DESCRIPTOR,
    errno.EBUSY: BUSY,
    errno.EEXIST: EXISTS,
    errno.EFBIG: FILE_TOO_BIG,
    errno.EINVAL: INVALID,
    errno.EISDIR: IS_DIRECTORY,
    errno.ELOOP: LOOP,
    errno.EMFILE: TOO_MANY_FILES,
    errno.ENAMETOOLONG: NAME_TOO_LONG,
    errno.ENOENT: NO_ENTRY,
    errno.ENOSPC: NO_SPACE,
    errno.ENOTDIR: NOT_DIRECTORY,
    errno.ENOTEMPTY: NOT_EMPTY,
    errno.EPERM: NOT_PERMITTED,
    errno.EPIPE: BROKEN_PIPE,
    errno.EROFS: READ_ONLY,
    errno.ESPIPE: ILLEGAL_SEEK,
    errno.EXDEV: CROSS_DEVICE,
}


def from_host(number: int | None) -> int:
    """The number that a module is told for an error of the host."""
    return _FROM_HOST.get(number or 0, IO)


# Kinds of files.
UNKNOWN, BLOCK, CHARACTER, DIRECTORY, REGULAR, SOCKET, _STREAM, LINK = range(8)

# Of path_open.
CREATE, DIRECTORY_ONLY, EXCLUSIVE, TRUNCATE = 1, 2, 4, 8
# Of descriptors.
APPEND, DSYNC, NONBLOCK = 1, 2, 4
# Of lookups.
FOLLOW = 1
# Of times.
SET_ACCESSED, ACCESSED_NOW, SET_MODIFIED, MODIFIED_NOW = 1, 2, 4, 8

RIGHT_DATASYNC, RIGHT_READ, RIGHT_SEEK, RIGHT_SET_FLAGS, RIGHT_SYNC, RIGHT_TELL, RIGHT_WRITE = (
    1 << bit for bit in range(7)
)
RIGHT_ALLOCATE = 1 << 8
RIGHT_SET_SIZE = 1 << 22
RIGHTS_OF_FILES = 0x08E0_01FF | RIGHT_SET_SIZE
RIGHTS_OF_DIRECTORIES = 0x0FBF_FE98
ALL_RIGHTS = 0x1FFF_FFFF
#: Whoever asks for one of these wants to write.
WRITING = RIGHT_WRITE | RIGHT_ALLOCATE | RIGHT_SET_SIZE
