"""Descriptors of this process, for tests of what is left open."""

from __future__ import annotations

import gc
import os


def count_descriptors() -> int:
    """How many are open. What earlier tests left to the garbage collector is closed first."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))
