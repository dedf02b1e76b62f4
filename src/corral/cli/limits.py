"""Limits in the words of a person."""

from __future__ import annotations

from corral.model.rules.quantities import format_duration, format_share, format_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from corral.model.policy import Limits

_FORMATS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "wall_seconds": ("time", format_duration),
    "memory_bytes": ("memory", format_size),
    "cpus": ("processors", format_share),
    "cpu_seconds": ("processor time", format_duration),
    "pids": ("processes", str),
    "output_bytes": ("output", format_size),
    "file_size_bytes": ("file size", format_size),
    "open_files": ("open files", str),
    "disk_bytes": ("disk", format_size),
    "disk_files": ("files on disk", str),
    "traffic_bytes": ("traffic", format_size),
    "traffic_rate": ("traffic in a second", format_size),
}
#: Kept by the runner, with and without a sandbox.
_RUNNERS = frozenset({"wall_seconds", "output_bytes", "open_files", "file_size_bytes"})


def list_limits(limits: Limits) -> Iterator[str]:
    """Every limit that is set: `memory 1GiB`."""
    yield from (text for _, text in _said(limits))


def list_dropped(limits: Limits) -> Iterator[str]:
    """Those that nobody keeps where there is no sandbox."""
    yield from (text for field, text in _said(limits) if field not in _RUNNERS)


def _said(limits: Limits) -> Iterator[tuple[str, str]]:
    for field, (label, render_value) in _FORMATS.items():
        value = getattr(limits, field)
        if value is not None:
            yield field, f"{label} {render_value(value)}"
