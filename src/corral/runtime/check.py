"""The last gate: refuse a launch that leaves a required feature without a mechanism."""

from __future__ import annotations

from corral.model.errors import BugError
from corral.model.feature import RUNNER_FEATURES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.launch import Launch
    from corral.model.plan import Plan


def check(plan: Plan, launch: Launch) -> None:
    """Raise BugError if the backend forgot something. A mechanism is a claim; the tests are the proof."""
    named = {feature for feature, how in launch.enforced.items() if how}
    forgotten = plan.requires - named - RUNNER_FEATURES - plan.waived
    if forgotten:
        raise BugError(
            f"backend {launch.backend!r} lowered a plan without enforcing it",
            why=f"no mechanism named for {', '.join(sorted(feature.value for feature in forgotten))}",
        )
