"""Make sure that descriptors 0, 1 and 2 are what everyone takes them for."""

from __future__ import annotations

import os


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
