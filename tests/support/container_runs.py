"""Runs in containers of a private engine, by corral's own pipeline."""

from __future__ import annotations

import itertools
import os

from corral.backends.registry import get_backend
from corral.host.real import RealHost
from corral.model.container import Container
from corral.model.plan import Command
from corral.planning.build import build, nested_repositories
from corral.planning.resolved_policy import resolve_policy
from corral.policy.compose import build_policy
from corral.runtime.check import check
from corral.runtime.run import Run
from support.engines import IMAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from corral.model.backend import Backend
    from corral.model.launch import Launch
    from corral.model.probe import Probe
    from corral.model.result import Result

_numbers = itertools.count()
_known: dict[str, Probe] = {}


def _probed(backend: Backend) -> Probe:
    """What is known of an engine that works; to try it takes as long as a run."""
    host = RealHost()
    program = host.which(backend.name)
    if program not in _known or not _known[program].available:
        _known[program] = backend.probe(host)
    now = {f"env {name}": value for name, value in host.environment().items()}
    details = ((name, now.get(name, value)) for name, value in _known[program].details)
    return _known[program].replace(details=tuple(details))


class ContainerRuns:
    """One backend, on the engine that the PATH leads to."""

    def __init__(self, engine: str, workspace: Path, state: Path) -> None:
        self.backend = get_backend(engine)
        self.workspace = str(workspace)
        self.probe = _probed(self.backend)
        self._quarantine = str(state / "quarantine" / "run")

    def run(
        self,
        script: str,
        *capabilities: str,
        change: Callable[[Launch], Launch] = lambda launch: launch,
        stdin: bytes = b"",
        preset: str = "moderate",
        run_id: str = "",
        **settings,
    ) -> Result:
        """Run a line of shell. `change` sees the launch before it is carried out."""
        assert self.probe.available, self.probe.reason
        host = RealHost()
        policy = build_policy(preset, capabilities)
        resolved = resolve_policy(policy, self.workspace, host)
        plan = build(
            policy,
            Command(("sh", "-c", script), self.workspace, stdin=stdin),
            resolved,
            host,
            run_id=run_id or f"{os.getpid():08x}{next(_numbers):08x}",
            nested=nested_repositories(resolved, host),
            waived=resolved.requires - self.probe.enforces,
            container=Container(**{"image": IMAGE, **settings}),
        )
        launch = change(self.backend.lower(plan, self.probe))
        check(plan, launch)
        return Run(plan, launch, quarantine=self._quarantine).run()
