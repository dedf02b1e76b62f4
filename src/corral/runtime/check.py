"""The last gate: refuse a launch that leaves a required feature without a mechanism."""

from __future__ import annotations

from corral.model.errors import BugError, SetupError
from corral.model.feature import RUNNER_FEATURES
from corral.model.policy import FsAccess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.launch import Launch
    from corral.model.plan import Plan


def check(plan: Plan, launch: Launch) -> None:
    """Raise BugError if the backend forgot something. A mechanism is a claim; the tests are the proof.

    Raises SetupError if the program that makes the sandbox could be of a command's making.
    """
    _check_program(plan, launch)
    _check_scratch(plan, launch)
    _check_size(plan, launch)
    if launch.spec is None:
        from corral.runtime.launcherless import check_platform

        check_platform()
    named = {feature for feature, how in launch.enforced.items() if how}
    forgotten = plan.requires - named - RUNNER_FEATURES - plan.waived
    if forgotten:
        raise BugError(
            f"backend {launch.backend!r} lowered a plan without enforcing it",
            why=f"no mechanism named for {', '.join(sorted(feature.value for feature in forgotten))}",
        )


def _check_size(plan: Plan, launch: Launch) -> None:
    if launch.spec is None:
        return
    from corral.linux.spec import MAX_BYTES

    if len(launch.spec) > MAX_BYTES:
        raise SetupError(
            "too-much",
            "there are more protected paths than one sandbox can hold",
            why=f"{len(plan.shields)} protected paths, in {len(plan.worktrees)} repositories and directories",
            fix="work in a directory with fewer repositories, or waive fs.protect",
        )


def _check_scratch(plan: Plan, launch: Launch) -> None:
    # TRUST: what corral makes there for a run, and removes after it, must not be within a command's reach.
    for grant in plan.resolved.grants:
        root = grant.target.path.rstrip("/")
        if launch.scratch and grant.access is FsAccess.WRITE and launch.scratch.startswith(f"{root}/"):
            raise SetupError(
                "scratch",
                "the run's private directory would be where commands may write",
                why=f"{launch.scratch} is in {grant.target.requested}",
                fix="point TMPDIR to a directory outside of the workspace and of what is granted for writing",
            )


def _check_program(plan: Plan, launch: Launch) -> None:
    # TRUST: what runs on the host must not lie where commands write.
    if launch.outer is None:
        return
    for grant in plan.resolved.grants:
        root = grant.target.path
        if grant.access is FsAccess.WRITE and launch.argv[0].startswith(f"{root.rstrip('/')}/"):
            raise SetupError(
                "outer",
                f"{launch.argv[0]} must not make the sandbox",
                why=f"it lies in {root}, where commands may write",
                fix="install it outside of the workspace, or take that directory off the PATH",
            )
