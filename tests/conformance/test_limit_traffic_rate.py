"""limit.traffic-rate: all connections together carry no more bytes per second than permitted."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from support.counting import carries_too_much, sending, taking

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.LIMIT_TRAFFIC_RATE)


def test_a_command_cannot_send_more(backend: Case, stage: Stage) -> None:
    assert not carries_too_much(backend, stage, sending, "traffic:rate:200kB", "time:limit:4s")


def test_a_command_cannot_take_more(backend: Case, stage: Stage) -> None:
    assert not carries_too_much(backend, stage, taking, "traffic:rate:200kB", "time:limit:4s")
