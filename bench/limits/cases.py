"""Cases: what a command asks for, and the limit that must stop it; the same for every enforcer."""

from __future__ import annotations

from typing import NamedTuple

from corral.model.feature import Feature
from corral.model.policy import Limits

MIB = 1024**2


class Case(NamedTuple):
    """Without the limit, the command gets far more than is asked for here. It may write to /tmp."""

    name: str
    feature: Feature
    limits: Limits
    command: tuple[str, ...]  # of the measuring program
    asked: float  # the limit, in the unit of the program's `got` lines
    unit: str


CASES = (
    Case(
        "memory",
        Feature.LIMIT_MEMORY,
        Limits(memory_bytes=64 * MIB),
        ("memory", "64", "128"),
        asked=64,
        unit="MiB",
    ),
    Case(
        "memory of 4 processes",
        Feature.LIMIT_MEMORY,
        Limits(memory_bytes=64 * MIB),
        ("memory", "64", "128", "4"),
        asked=64,
        unit="MiB",
    ),
    Case("processes", Feature.LIMIT_PIDS, Limits(pids=16), ("pids", "32"), asked=16, unit="processes"),
    Case("processors", Feature.LIMIT_CPU, Limits(cpus=0.2), ("cpu", "3", "2"), asked=0.2, unit="processors"),
    Case(
        "file size",
        Feature.LIMIT_FILE_SIZE,
        Limits(file_size_bytes=8 * MIB),
        ("file", "/tmp/file", "64", "16"),
        asked=8,
        unit="MiB",
    ),
    Case(
        "open files",
        Feature.LIMIT_OPEN_FILES,
        Limits(open_files=64),
        ("descriptors", "128"),
        asked=64,
        unit="files",
    ),
    Case(
        "disk",
        Feature.LIMIT_DISK,
        Limits(disk_bytes=16 * MIB),
        ("file", "/tmp/file", "64", "32"),
        asked=16,
        unit="MiB",
    ),
)
