"""The matrix of `corral doctor`: every feature against every backend that works here."""

from __future__ import annotations

from corral.model.feature import Feature
from corral.model.fidelity import Hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from corral.model.probe import Probe

MARKS = {Hold.ENFORCED: "yes", Hold.APPROXIMATED: "near", Hold.NOT_ENFORCEABLE: "-"}
LEGEND = "yes: enforced   near: something is done, less than is promised; it counts as not enforced   -: not"
_GAP = 2


def hold_of(probe: Probe, feature: Feature) -> Hold:
    """How well a backend holds a feature here."""
    if probe.available and feature in probe.enforces:
        return Hold.ENFORCED
    is_near = probe.available and feature in dict(probe.approximates)
    return Hold.APPROXIMATED if is_near else Hold.NOT_ENFORCEABLE


def render_matrix(probes: Sequence[Probe], width: int) -> Iterator[str]:
    """A row for each feature; backends that do not fit side by side follow in another table."""
    label = max(len(feature.value) for feature in Feature) + _GAP
    for table in _tables(probes, width - label):
        yield " " * label + "".join(f"{probe.backend:<{_width(probe)}}" for probe in table).rstrip()
        for feature in Feature:
            cells = "".join(f"{MARKS[hold_of(probe, feature)]:<{_width(probe)}}" for probe in table)
            yield f"{feature.value:<{label}}{cells}".rstrip()
        yield ""


def _width(probe: Probe) -> int:
    return max(len(probe.backend), *map(len, MARKS.values())) + _GAP


def _tables(probes: Sequence[Probe], room: int) -> Iterator[list[Probe]]:
    table: list[Probe] = []
    for probe in probes:
        if table and sum(map(_width, table)) + _width(probe) - _GAP > room:
            yield table
            table = []
        table.append(probe)
    if table:
        yield table
