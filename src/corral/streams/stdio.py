"""Make sure that descriptors 0, 1 and 2 are what everyone takes them for."""

from __future__ import annotations

import fcntl
import os
import signal
import stat

from corral.model.errors import SetupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: What Python ignores, and no program expects to find ignored.
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


#: Open for the path alone; only Linux has that.
PATH_ONLY: int = getattr(os, "O_PATH", 0)


def ensure_stdio() -> None:
    """Open /dev/null over each of the three that is closed.

    INVARIANT: before corral opens anything. A directory that landed on a free descriptor 0 would be the
    command's stdin, and a way out of everything that is mounted inside.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free one: this one
            os.set_inheritable(opened, True)


def check_stdio(descriptors: Iterable[int]) -> None:
    """Refuse what no command may have as one of them, as the launcher does (launcher/stdio.c).

    A directory leads around every mount. What is open for its path alone could be opened for more.
    """
    for descriptor in descriptors:
        is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        if is_directory or fcntl.fcntl(descriptor, fcntl.F_GETFL) & PATH_ONLY:
            raise SetupError(
                "streams",
                "the command's input and output could not be set up",
                why="one of them is a directory or a mere path, which would lead around every mount",
                fix="redirect it elsewhere",
            )
