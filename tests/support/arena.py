"""Arena: one backend with one enforcer of limits, fresh directories, and an eye on the host meanwhile.

An enforcer is forced by what the host says that it has: a host without control groups makes corral fall back
to what it would do there, the rlimits of the kernel or the launcher's own looking.
"""

from __future__ import annotations

import subprocess
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from corral.backends._limits import read_holders
from corral.backends.registry import UNCONFINED
from corral.host.real import RealHost
from corral.limits.hierarchy import explain_absence, find_hierarchy
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox
from support.confinement import INTERPRETER, PYTHON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from corral.limits.ceiling import Ceiling
    from corral.model.enforcer import Enforcer
    from corral.model.feature import Feature
    from corral.model.probe import Probe
    from corral.model.result import Result

GROUPED, GROUPLESS = "cgroup", "supervisor"
#: How long the smallest command may take on the host while something is being limited.
RESPONSE_SECONDS = 15.0
#: How long a command that is to be ended waits for that; it never comes to the end of it.
HOLD_SECONDS = 45
_LIMIT = "limit."


class GrouplessHost(RealHost):
    """This host, if nobody could make a control group on it."""

    def enforcers(self) -> tuple[Enforcer, ...]:
        return ()

    def limits_key(self) -> str:
        return "groupless"


@dataclass
class Arena:
    """Where commands are limited. What is required and not claimed is waived; the supervisor looks anyway."""

    backend: str
    enforcer: str
    work: Path
    host: RealHost = field(init=False)
    probe: Probe = field(init=False)

    def __post_init__(self) -> None:
        self.host = RealHost() if self.enforcer == GROUPED else GrouplessHost()
        if self.is_grouped and find_hierarchy() is None:
            pytest.skip(f"no control group can be made here: {explain_absence()[0]}")
        self.probe = next(Sandbox(backend=self.backend, workspace=self.work, host=self.host).probes())

    @property
    def is_grouped(self) -> bool:
        return self.enforcer == GROUPED

    def holder(self, feature: Feature) -> str:
        """Who holds a limit here, as in corral.model.enforcer."""
        return read_holders(self.probe).of(feature)

    def needs(self, *features: Feature) -> None:
        """Skip what is neither claimed here nor approximated."""
        for feature in features:
            if feature not in self.probe.enforces | dict(self.probe.approximates).keys():
                pytest.skip(f"{self.backend} with {self.enforcer} does not hold {feature.value} here")

    def sandbox(self, *capabilities: str, within: Ceiling | None = None) -> Sandbox:
        """A sandbox with limits; the test is skipped if one of them is not claimed."""
        policy = build_policy("moderate", (*INTERPRETER, *capabilities))
        request = Sandbox(policy, backend=UNCONFINED, workspace=self.work, host=self.host)
        lacking = request.explain(["true"]).plan.requires - self.probe.enforces
        self.needs(*(feature for feature in lacking if feature.value.startswith(_LIMIT)))
        return Sandbox(
            policy,
            backend=self.backend,
            workspace=self.work,
            waive=lacking,
            within=within,
            host=self.host,
        )

    def run(self, argv: tuple[str, ...], *capabilities: str) -> Result:
        """Run a command with limits, while the host is asked over and over whether it answers."""
        sandbox = self.sandbox(*capabilities)
        with responsive_host():
            return sandbox.run(argv)


def shell(text: str, *arguments: str) -> tuple[str, ...]:
    return "/bin/sh", "-c", text, "sh", *arguments


def python(text: str, *arguments: str) -> tuple[str, ...]:
    return PYTHON, "-I", "-S", "-c", text, *arguments


@contextmanager
def responsive_host() -> Iterator[None]:
    """Bare processes are started on the host all the time; the slowest must not have been slow."""
    slowest, is_over = 0.0, threading.Event()

    def ask() -> None:
        nonlocal slowest
        while True:
            began = time.monotonic()
            subprocess.run(["/bin/true"], check=True)
            slowest = max(slowest, time.monotonic() - began)
            if is_over.wait(0.1):
                return

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        is_over.set()
        asking.join()

    assert slowest < RESPONSE_SECONDS
