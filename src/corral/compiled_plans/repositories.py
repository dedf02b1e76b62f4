"""Repositories of a compiled plan: nobody checks them afterwards, so none can be changed, and none made.

Every git directory inside what is writable is held read-only as a whole. The launcher looks on each run if
there has been replaced, and removes what a command has made (`launcher/search.c`).
"""

from __future__ import annotations

import os
import stat

from corral.model.errors import SetupError
from corral.model.plan import PathKind, ResolvedPath, Shield
from corral.model.policy import FsAccess
from corral.planning.resolve import is_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.linux.spec import Guarded
    from corral.model.plan import Plan

_GIT = ".git"
#: What git takes for a repository; `commondir` says where the rest of it is.
_BARE = (frozenset({"head", "objects", "refs"}), frozenset({"head", "commondir"}))
#: As in launcher/search.c.
_MOST_DEPTH = 200


def hold_repositories(plan: Plan) -> tuple[Plan, tuple[Guarded, ...]]:
    """The plan with its git directories held, and where the launcher is to look for others.

    Raises SetupError where that cannot be seen to.
    """
    from corral.linux.spec import Guarded

    roots = _searched(plan)
    found = [path for root in roots for path in _find(root)]
    known = {shield.target.path for shield in plan.shields}
    pinned = {pin.path for pin in plan.pins}
    shields = tuple(Shield(_resolved(path)) for path in found if path not in known)
    pins = tuple(_resolved(path) for path in _above(found, roots) if path not in pinned)
    watches = tuple(
        watch.replace(is_repository=False)
        for watch in plan.watches
        if not any(is_beneath(watch.directory, path) for path in found)
    )
    held = plan.replace(
        shields=(*plan.shields, *shields), pins=(*plan.pins, *pins), watches=watches, worktrees=(), copies=()
    )
    searched = tuple(Guarded(root, status.st_dev, status.st_ino) for root, status in roots.items())
    return held, searched


def _searched(plan: Plan) -> dict[str, os.stat_result]:
    """Directories that are writable, each that lies in no other."""
    writable = {
        grant.target.path
        for grant in plan.resolved.grants
        if grant.access is FsAccess.WRITE and grant.target.kind is PathKind.DIRECTORY
    }
    tops = (
        path
        for path in sorted(writable)
        if not any(other != path and is_beneath(path, other) for other in writable)
    )
    return {path: os.stat(path, follow_symlinks=False) for path in tops}


def _find(root: str) -> Iterator[str]:
    """Git directories, `.git` files included, at any depth."""
    pending = [(root, 0)]
    while pending:
        path, depth = pending.pop()
        if depth > _MOST_DEPTH:
            raise _unsearched(path, "it lies too deep")
        try:
            entries = [*os.scandir(path)]
        except PermissionError as problem:
            if os.lstat(path).st_uid == os.geteuid():
                raise _unsearched(path, str(problem)) from problem
            continue  # no command can enter it either
        names = {entry.name.lower() for entry in entries}
        if any(names >= bare for bare in _BARE):
            if path == root:
                raise _unsearched(path, "it is a git directory itself")
            yield path
            continue
        for entry in entries:
            if entry.name.lower() == _GIT:
                if entry.is_symlink():
                    raise _unsearched(entry.path, "it is a link, which cannot be held")
                yield entry.path
            elif entry.is_dir(follow_symlinks=False):
                pending.append((entry.path, depth + 1))


def _above(found: list[str], roots: dict[str, os.stat_result]) -> Iterator[str]:
    """What lies between a root and a git directory: renamed, it would take that along."""
    seen: set[str] = set()
    for path in found:
        above = os.path.dirname(path)
        while above not in roots and above not in seen:
            seen.add(above)
            above = os.path.dirname(above)
    yield from sorted(seen)


def _resolved(path: str) -> ResolvedPath:
    status = os.lstat(path)
    kind = PathKind.DIRECTORY if stat.S_ISDIR(status.st_mode) else PathKind.FILE
    return ResolvedPath(path, path, kind, status.st_dev, status.st_ino)


def _unsearched(path: str, why: str) -> SetupError:
    return SetupError(
        "not-searchable",
        f"the policy cannot be compiled: git directories cannot be searched for in {path}",
        why=why,
        fix="use `corral run`, or give it up, on record, with --waive fs.protect",
    )
