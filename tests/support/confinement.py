"""`attempt`: try something forbidden, in three legs, so that a test cannot pass by accident.

    control   the script does its harm unconfined, or the test is void
    alive     the confined script printed a sentinel before it tried, or the test is void
    effect    judged on the host by the same question as the control, never by what the script says

A void test raises RuntimeError, not AssertionError: the strict expected failure of the leaky backend
must not hide it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from corral.host.real import RealHost
from corral.linux.listening import can_listen
from corral.model.container import Container
from corral.model.feature import Feature
from corral.model.plan import Command, StdioMode, TrialLayers
from corral.model.policy import NetMode
from corral.model.probe import LISTENS, PROXIED
from corral.pipeline.networked_launch import Opening
from corral.pipeline.planner import Explanation
from corral.planning.build import build, nested_repositories
from corral.planning.resolved_policy import resolve_policy
from corral.policy.compose import build_policy
from corral.policy.preset import hidden_in_homes
from corral.runtime.run import Run
from support.control_once import Control
from support.kept_runs import keep
from support.leaky import LeakyBackend, run_leaking
from support.stored_runs import run_stored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pytest

    from corral.model.backend import Backend
    from corral.model.probe import Probe
    from corral.model.result import Result

SENTINEL = b"alive\n"
CONTROL_SECONDS = 30

#: An interpreter without site-packages: quick to start, and of a version we know.
PYTHON = os.path.realpath(sys.executable)
#: What must be readable for it, where it is not among the tools of the system.
INTERPRETER = () if sys.base_prefix == "/usr" else (f"filesystem:read:{os.path.realpath(sys.base_prefix)}",)


NO_CONTAINER = Container()


@dataclass(frozen=True)
class Case:
    """One backend, and the feature that it has to prove."""

    backend: Backend
    probe: Probe
    feature: Feature
    container: Container = NO_CONTAINER
    host: RealHost = field(default_factory=RealHost)
    is_kept: bool = False  # the command runs in a session that others have used
    is_stored: bool = False  # the command runs by a stored plan, without Python

    @property
    def is_leaky(self) -> bool:
        return isinstance(self.backend, LeakyBackend)


@dataclass(frozen=True)
class Stage:
    """The directories of one test. The caller's HOME and TMPDIR lead to two of them."""

    work: Path  # the workspace
    outside: Path  # granted by nobody
    home: Path
    temporary: Path
    quarantine: Path


def make_stage(place: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Fresh directories; the variables lead there for as long as the test lasts."""
    names = ("work", "outside", "home", "temporary")
    for name in names:
        (place / name).mkdir()
    made = Stage(*(place / name for name in names), quarantine=place / "quarantine")
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("TMPDIR", str(made.temporary))
    monkeypatch.setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    return made


@dataclass(frozen=True)
class Script:
    argv: tuple[str, ...]


@dataclass(frozen=True)
class Attempt:
    """`worked`: the effect is there on the host, though the policy forbids it."""

    worked: bool
    result: Result


def shell(text: str) -> Script:
    """A script for /bin/sh that says that it is alive first."""
    return Script(("/bin/sh", "-c", f"echo alive\n{text}"))


def python(text: str) -> Script:
    """A script for Python that says that it is alive first."""
    return Script((PYTHON, "-I", "-S", "-c", f"print('alive', flush=True)\n{text}"))


def attempt(
    case: Case,
    stage: Stage,
    script: Script,
    *,
    effect: Callable[[bytes], bool],
    reset: Callable[[], object] = lambda: None,
    capabilities: Iterable[str] = (),
    control: Script | None = None,
    stdio: StdioMode = StdioMode.CAPTURE,
) -> Attempt:
    """Run a script unconfined and then confined. `effect` gets the output and looks at the host.

    `control` stands in for the script on the first leg, where the same harm would take too long.
    """
    first = Control(case.backend.name)
    if first.is_needed:
        _check_control(stage, control or script, effect, stdio)
        first.worked()
        reset()
    if effect(b""):
        raise RuntimeError("the effect of the control run was not undone")
    result = confine(case, stage, script.argv, capabilities=capabilities, stdio=stdio)
    if stdio is StdioMode.CAPTURE and not result.stdout_bytes.startswith(SENTINEL):
        raise RuntimeError(f"the sandbox never ran the script: {result.describe()}: {result.stderr}")
    return Attempt(effect(result.stdout_bytes), result)


def _check_control(stage: Stage, script: Script, effect: Callable[[bytes], bool], stdio: StdioMode) -> None:
    pipe = subprocess.PIPE if stdio is StdioMode.CAPTURE else None
    done = subprocess.run(
        script.argv,
        cwd=stage.work,
        stdout=pipe,
        stderr=pipe,
        timeout=CONTROL_SECONDS,
        close_fds=False,  # descriptors that leak must leak here as well
        check=False,
    )
    if not effect(done.stdout or b""):
        raise RuntimeError(f"the control had no effect (status {done.returncode}): {done.stderr!r}")


def _layers(stage: Stage) -> TrialLayers:
    """A layer over the workspace, where nothing is granted."""
    upper, work = stage.outside / "upper", stage.outside / "work"
    for directory in (upper, work):
        directory.mkdir()
    return TrialLayers(str(stage.work), str(upper), str(work))


def confine(
    case: Case,
    stage: Stage,
    argv: tuple[str, ...],
    *,
    capabilities: Iterable[str] = (),
    preset: str = "moderate",
    stdio: StdioMode = StdioMode.CAPTURE,
) -> Result:
    """Run a command on one backend, waiving exactly what that backend does not claim."""
    host = case.host
    policy = build_policy(preset, (*INTERPRETER, *capabilities))
    resolved = resolve_policy(policy, str(stage.work), host, hidden_in_homes())
    command = Command(argv, str(stage.work), stdio=stdio)
    if case.feature is Feature.FS_TRIAL:
        command = command.replace(trial=_layers(stage))
    elif case.feature not in resolved.requires:
        raise RuntimeError(f"the plan does not require {case.feature.value}: there is nothing to prove")
    if case.feature not in case.probe.enforces:
        raise RuntimeError(f"{case.backend.name} does not claim {case.feature.value}")
    if case.is_stored:
        words = ("-p", preset, *(f"--cap={text}" for text in (*INTERPRETER, *capabilities)))
        return run_stored(case, stage, policy, words, argv, stdio)
    if case.is_kept:
        return keep(case, policy, command.cwd, case.container).prepare(command).run()
    plan = build(
        policy,
        command,
        resolved,
        host,
        run_id=os.urandom(8).hex(),
        nested=nested_repositories(resolved, host),
        waived=resolved.requires - case.probe.enforces,
        container=case.container,
    )
    opening = Opening(None)
    if case.probe.detail(PROXIED) == "yes" and resolved.net.mode is NetMode.LIMITED:
        plan = plan.replace(proxy=opening.proxy(plan, case.probe))
    if case.probe.detail(LISTENS) == "yes":
        plan = plan.replace(reports=can_listen(resolved.deny_syscalls))
    launch = case.backend.lower(plan, case.probe)
    if case.is_leaky:
        return run_leaking(plan, launch, str(stage.quarantine))
    networked = opening.finish(Explanation(plan, case.probe, launch))
    quarantine = str(stage.quarantine)
    return Run(networked.plan, networked.launch, quarantine=quarantine, network=networked.network).run()
