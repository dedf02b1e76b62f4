"""Exchange: two names of one file system swap what they stand for, in one call that happens or does not."""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_EXCHANGE = 2  # renameat2(2): RENAME_EXCHANGE
_BEGIN_TO_WRITE = 2  # sync_file_range(2): SYNC_FILE_RANGE_WRITE
#: With fewer files than this, loading what calls the kernel takes longer than it saves.
_LEAST = 50
#: Of a directory, by which a file made in it gets more than its owner and mode.
_INHERITED = ("system.posix_acl_default", "security.")
CANNOT = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EACCES})


def load_exchange(count: int) -> Callable[[int, str, int, str, int], None] | None:
    """What swaps two names in two directories, and raises OSError; None where it is not worth it.

    Its last argument is the file that is new, or -1. It begins to go to the disk first, as at a rename that
    replaces something: else ext4 may have an empty file there after a power failure.
    """
    if count < _LEAST:
        return None
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    try:
        call, begin_to_write = library.renameat2, library.sync_file_range
    except AttributeError:
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    begin_to_write.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]

    def exchange(one: int, name: str, other: int, other_name: str, made: int) -> None:
        is_begun = made < 0 or begin_to_write(made, 0, 0, _BEGIN_TO_WRITE) == 0
        if not is_begun or call(one, os.fsencode(name), other, os.fsencode(other_name), _EXCHANGE) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), other_name)

    return exchange


def passes_on(directory: int) -> bool:
    """Whether what is made in a directory gets its group, a list of rights or a label from it."""
    if os.fstat(directory).st_mode & stat.S_ISGID:
        return True
    try:
        names = os.listxattr(f"/proc/self/fd/{directory}")
    except OSError as problem:
        return problem.errno not in {errno.EOPNOTSUPP, errno.ENOSYS}
    return any(name.startswith(_INHERITED) for name in names)
