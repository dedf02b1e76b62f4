"""Try a container engine: an image of nothing, a container as every run has one, and a command in it.

What an engine says of itself does not tell whether it can start anything. The image is made for the trial and
removed after it, so that no image of the user's is needed, and none is believed.
"""

from __future__ import annotations

from corral.backends import _launcher as common
from corral.backends.engine import messages as words
from corral.backends.engine.lowering import lower_engine
from corral.model.container import Container
from corral.model.plan import Command, Plan, ResolvedPolicy
from corral.model.policy import Limits, NetPolicy, Policy
from corral.model.probe import Probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.backend import Host
    from corral.model.launch import Launch
    from corral.model.probe import LaunchTrial

_SECONDS = 20.0
_AREA = "/tmp"
_UNIQUE = "/proc/sys/kernel/random/uuid"  # another one each time it is read


def try_engine(probe: Probe, host: Host) -> Probe:
    """The probe, if a command has run in a container of its engine; else why none did. Never raises."""
    program = probe.detail("program")
    number = host.read_text(_UNIQUE, 64).strip().replace("-", "")[:16]
    # The label makes it an image of its own: what removes it must not touch the one of another trial.
    making = ("import", "--change", f"LABEL corral.trial={number}", "/dev/null")
    made = host.run_tool((program, *making), seconds=_SECONDS)
    image = made.output.strip().rpartition("\n")[2]
    if made.status != 0 or not image.removeprefix("sha256:").isalnum():
        reason, fix = words.read_complaint(made.errors or made.output, probe.backend, "import")
        return _failed(probe, reason, fix)
    try:
        trial = host.try_outer(_launch(probe, host, image, number))
    finally:
        host.run_tool((program, "rmi", "--force", image), seconds=_SECONDS)
    return probe if trial.ok else _failed(probe, *_explain(probe.backend, trial))


def _failed(probe: Probe, reason: str, fix: str) -> Probe:
    return Probe(probe.backend, False, reason=reason, fix=fix, version=probe.version)


def _explain(engine: str, trial: LaunchTrial) -> tuple[str, str]:
    if trial.phase != "outer":
        return common.explain_trial(trial)
    fitting = (known for known in words.start_failures(engine, "") if known.needle in trial.detail)
    failure = next(fitting)  # the last one fits everything
    return f"no command could be run in it: {failure.message}: {trial.detail}", failure.fix


def _launch(probe: Probe, host: Host, image: str, number: str) -> Launch:
    """As a run would be, without files of the host. The command is the launcher, which the image gets."""
    resolved = ResolvedPolicy(
        grants=(),
        links=(),
        denied=(),
        private=(_AREA,),
        private_files=(),
        net=NetPolicy(),
        limits=Limits(),
        deny_syscalls=frozenset(),
        spawn=False,
        debug=False,
        published=(),
        workspace=_AREA,
        home=host.home,
        uid=host.uid,
        gid=host.gid,
        scratch=host.temporary_directory(),
        requires=frozenset(),
    )
    run_id = f"trial-{number}"
    plan = Plan(
        run_id=run_id,
        command=Command((f"/.corral-{run_id}/launch", "--version"), _AREA),
        resolved=resolved,
        shields=(),
        pins=(),
        watches=(),
        env=(),
        waived=frozenset(),
        policy=Policy(),
        container=Container(image=image, workspace=""),
    )
    return lower_engine(probe.backend, plan, probe)
