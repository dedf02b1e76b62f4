"""Exchange: two names of one file system swap what they stand for, in one call that happens or does not."""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_EXCHANGE = 2  # renameat2(2): RENAME_EXCHANGE
#: With fewer files than this, loading what calls the kernel takes longer than it saves.
_LEAST = 50
#: Of a directory, by which a file made in it gets more than its owner and mode.
_INHERITED = ("system.posix_acl_default", "security.")
CANNOT = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EACCES})


def load_exchange(count: int) -> Callable[[int, str, int, str], None] | None:
    """What swaps two names in two directories, and raises OSError; None where it is not worth it."""
    if count < _LEAST:
        return None
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    try:
        call = library.renameat2
    except AttributeError:
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]

    def exchange(one: int, name: str, other: int, other_name: str) -> None:
        if call(one, os.fsencode(name), other, os.fsencode(other_name), _EXCHANGE) != 0:
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
