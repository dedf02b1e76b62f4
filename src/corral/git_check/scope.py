"""What a check of git directories is about, as plain values: of a plan, or of a run that did not end well."""

from __future__ import annotations

import os

from corral.model.last_made import LastMade
from corral.model.plan import PathKind
from corral.model.policy import FsAccess
from corral.model.record import Record
from corral.untrusted_files.steps import ancestors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.plan import Plan
_SCOPES = LastMade()


class CheckScope(Record):
    roots: tuple[str, ...]  # beneath which commands write
    tops: tuple[str, ...]  # where there is no repository, and a command may make one
    planned: tuple[str, ...]  # worktrees, from above
    held: frozenset[str]  # git directories whose hooks and settings stay as they are
    shielded: frozenset[str]
    above: frozenset[str]  # directories that hold what is kept in its place
    hook_directories: tuple[str, ...]  # in every worktree, by the user's own settings

    def is_shielded(self, path: str) -> bool:
        """Whether no command can have changed it, whatever it looks like from here.

        INVARIANT: nothing that the plan holds in its place is moved: the mount on it would go as well.
        """
        while path and path not in self.shielded and path not in self.held:
            path = path.rpartition("/")[0]
        return path in self.shielded


def scope_of(plan: Plan) -> CheckScope:
    """As long as a plan holds the same, it is about the same."""
    held = (plan.shields, plan.pins, plan.watches, plan.worktrees, plan.hook_directories)
    return _SCOPES.get((plan.resolved, *held), lambda: _scope_of(plan))


def _scope_of(plan: Plan) -> CheckScope:
    roots = dict.fromkeys(
        grant.target.path
        for grant in plan.resolved.grants
        if grant.access is FsAccess.WRITE and grant.target.kind is PathKind.DIRECTORY
    )
    shielded = frozenset(shield.target.path for shield in plan.shields)
    return CheckScope(
        roots=tuple(roots),
        tops=tuple(dict.fromkeys(watch.directory for watch in plan.watches if watch.is_repository)),
        planned=tuple(dict.fromkeys(sorted(plan.worktrees, key=lambda path: path.count("/")))),
        held=_held_git_directories(plan, shielded),
        shielded=shielded,
        above=frozenset(ancestors((*shielded, *(pin.path for pin in plan.pins)))),
        hook_directories=tuple(plan.hook_directories),
    )


def _held_git_directories(plan: Plan, shielded: frozenset[str]) -> frozenset[str]:
    """By whatever way one comes there."""
    kept = shielded | {os.path.join(watch.directory, watch.name) for watch in plan.watches}
    directories = {os.path.dirname(path) for path in kept}
    return frozenset(path for path in directories if {f"{path}/config", f"{path}/hooks"} <= kept)
