"""Awaited: the launcher makes the sandbox while corral looks at the workspace, and then waits for its word.

Both take about as long, and there are two processors. INVARIANT: no command starts before the word is said.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.launch import Launch
    from corral.model.plan import Plan

#: On the lifeline, on which anything else ends the launch (`launcher/start.c`).
START_WORD = b"g"


def is_awaited(plan: Plan, launch: Launch) -> bool:
    """Whether there is something to look at, and the launcher is the one on the host, which can wait."""
    return launch.guards_names and launch.spec is not None and is_looked_at(plan)


def is_looked_at(plan: Plan) -> bool:
    return bool(plan.watches or plan.worktrees or plan.searches)


def complete(plan: Plan, launch: Launch, quarantine: str, *, guards: bool) -> Launch:
    """A launch with what is of one run: names that the launcher guards, and that it waits."""
    if launch.spec is None:
        return launch
    spec = launch.spec
    if guards:
        from corral.linux.encode import append_guard
        from corral.protected_names.launcher_guard import name_guard

        spec = append_guard(spec, name_guard(plan, quarantine))
    if is_awaited(plan, launch):
        from corral.linux.encode import append_await

        spec = append_await(spec)
    return launch if spec is launch.spec else launch.replace(spec=spec)
