"""What a plan holds where the workspace has a layer over it that takes all that is written. Pure."""

from __future__ import annotations

from corral.model.errors import PolicyError
from corral.model.policy import FsAccess
from corral.planning.resolve import is_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from corral.model.plan import Grant, ResolvedPolicy
    from corral.planning.build import Held


def layered_root(resolved: ResolvedPolicy) -> Grant:
    """The writable path that holds the workspace: what a trial is about. Raises PolicyError."""
    holding = [
        grant
        for grant in resolved.grants
        if grant.access is FsAccess.WRITE and is_beneath(resolved.workspace, grant.target.path)
    ]
    if not holding:
        raise PolicyError(
            "trial-read-only",
            "there is nothing to try: the command may not write in the workspace",
            why=f"the policy grants {resolved.workspace} for reading alone, or not at all",
            fix="use `corral run`, or another profile",
        )
    return min(holding, key=lambda grant: len(grant.target.path))


def written_directly(resolved: ResolvedPolicy, root: str) -> tuple[str, ...]:
    """What the policy lets a command write besides: no layer lies over it."""
    return tuple(
        grant.target.path
        for grant in resolved.grants
        if grant.access is FsAccess.WRITE and not is_beneath(grant.target.path, root)
    )


def protected_paths(held: Held, root: str) -> tuple[str, ...]:
    """What is protected in a writable path, whether or not it is there, relative to it."""
    paths = [shield.target.path for shield in held.shields]
    paths += [f"{watch.directory}/{watch.name}" for watch in held.watches]
    return tuple(sorted({path[len(root) + 1 :] for path in paths if path.startswith(f"{root}/")}))


def worktrees_in(held: Held, root: str) -> tuple[str, ...]:
    """Where repositories may be in a writable path, relative to it."""
    return tuple(path[len(root) :].lstrip("/") for path in held.worktrees if is_beneath(path, root))


def hold_layered(held: Held, root: str) -> Held:
    """What has to be held of a run whose writes beneath `root` go elsewhere.

    Shields, masks and pins stay. What is watched or looked at afterwards on the host does not change there:
    it is judged when somebody wants to take it over. Git's settings are the command's to change in its
    layer.
    """
    copied = {copy.target.path for copy in held.copies if is_beneath(copy.target.path, root)}
    return held.replace(
        shields=tuple(shield for shield in held.shields if shield.target.path not in copied),
        watches=tuple(watch for watch in held.watches if not is_beneath(watch.directory, root)),
        worktrees=_outside(held.worktrees, root),
        copies=tuple(copy for copy in held.copies if copy.target.path not in copied),
        searches=tuple(search for search in held.searches if not is_beneath(search.path, root)),
    )


def _outside(paths: Iterable[str], root: str) -> tuple[str, ...]:
    return tuple(path for path in paths if not is_beneath(path, root))
