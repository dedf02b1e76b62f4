"""Plans and launches for the runner, small and with nothing of a host in them."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from corral.model.launch import Launch
from corral.model.plan import Command, Ground, Plan
from corral.model.policy import Limits, NetPolicy, Policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def make_plan() -> Callable[..., Plan]:
    def make(
        argv: tuple[str, ...] = ("/bin/true",),
        *,
        limits: Limits | None = None,
        requires: frozenset[Feature] = frozenset(),
        waived: frozenset[Feature] = frozenset(),
        stdin: bytes = b"",
        cwd: str = "/",
        watches: tuple = (),
    ) -> Plan:
        ground = Ground(
            *((), (), (), (), ()),
            *(NetPolicy(), limits or Limits(), frozenset(), True),
            *(cwd, "/", 0, 0, "/tmp", requires),
        )
        return Plan("0" * 16, Command(argv, cwd, stdin), ground, (), (), watches, (), waived, Policy())

    return make


@pytest.fixture
def make_launch() -> Callable[..., Launch]:
    def make(plan: Plan, **changes: object) -> Launch:
        env = (("PATH", "/usr/bin:/bin"),)
        return Launch("test", plan.command.argv, env, {}, cwd=plan.command.cwd).replace(**changes)

    return make
