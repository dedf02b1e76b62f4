"""Descriptors of this process, for tests of what is left open."""

from __future__ import annotations

import gc
import os


def open_descriptors() -> frozenset[str]:
    """Those that are open now. What earlier tests left to the garbage collector is closed first."""
    gc.collect()
    return frozenset(os.listdir("/proc/self/fd"))
