"""LeakyBackend: claims every guarantee, names a mechanism for each, and enforces nothing.

A conformance test that it passes proves nothing, so the suite runs every one of them on it as a
strict expected failure.

The runner enforces some things by itself, whatever the backend does: the time and output limits, the
guard over protected names, closed descriptors, a session of its own. With the real runner the leaky
backend would pass those tests, and nobody would learn whether the tests can fail. So it comes with a
leaky runner as well: `forgetful` and `spawn_leaking` take exactly those things away.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from unittest import mock

from corral.model.feature import Feature
from corral.model.launch import Launch
from corral.model.probe import Probe
from corral.runtime.run import Run
from corral.runtime.starter import Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.backend import Host
    from corral.model.plan import Plan
    from corral.model.result import Result


class LeakyBackend:
    name = "leaky"

    def probe(self, host: Host) -> Probe:
        return Probe(self.name, True, frozenset(Feature), version="holds no water")

    def lower(self, plan: Plan, probe: Probe) -> Launch:
        """The command itself, with the caller's whole environment."""
        env = {**dict(plan.env), **os.environ}
        mechanisms = dict.fromkeys(Feature, "a promise")
        return Launch(self.name, plan.command.argv, tuple(env.items()), mechanisms, cwd=plan.command.cwd)


def run_leaking(plan: Plan, launch: Launch, quarantine: str) -> Result:
    """Run a launch with a runner that holds nothing either."""
    with mock.patch("corral.runtime.starter.spawn_bare", spawn_leaking):
        return Run(forgetful(plan), launch, quarantine=quarantine).run()


def forgetful(plan: Plan) -> Plan:
    """The plan without what the runner would enforce."""
    limits = plan.resolved.limits.replace(wall_seconds=None, output_bytes=None)
    return plan.replace(resolved=plan.resolved.replace(limits=limits), watches=(), worktrees=())


def spawn_leaking(launch: Launch, stdio: tuple[int, int, int]) -> Process:
    """Start the command with every inheritable descriptor, in the caller's own session."""
    child = subprocess.Popen(
        launch.argv,
        stdin=stdio[0],
        stdout=stdio[1],
        stderr=stdio[2],
        env=dict(launch.env),
        cwd=launch.cwd,
        close_fds=False,
    )
    with contextlib.suppress(AttributeError):
        child.returncode = 0  # the runner waits for it
    return Process(child.pid, -1, -1)
