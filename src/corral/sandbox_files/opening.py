"""The files of a kept sandbox: by its own root where it has one, else by what its policy grants."""

from __future__ import annotations

import os
import weakref

from corral.model.plan import Grant, PathKind, ResolvedPath
from corral.model.policy import FsAccess
from corral.model.rules.pattern import descend, relative_parts
from corral.sandbox_files.granted import GrantedFiles
from corral.sandbox_files.root import RootFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.plan import Plan
    from corral.runtime.launcher.server import SandboxServer
    from corral.sandbox_files.base import Files
    from corral.sandbox_files.held_file import HeldFile


def files_of(kept: SandboxServer, cwd: str) -> Files:
    """What a caller may read and write there, on behalf of its commands."""
    plan = kept.plan
    watched = frozenset((watch.device, watch.inode, watch.name) for watch in plan.watches)

    def is_protected(parent: HeldFile, name: str) -> bool:
        status = parent.status
        return (status.st_dev, status.st_ino, name) in watched or _fulfils(plan, parent.descriptor, name)

    if kept.inside.has_own_root:
        # TRUST: a descriptor of its own, for as long as anybody uses it: the sandbox may be closed meanwhile,
        # and the number be another file's.
        root = kept.dup_root()
        files = RootFiles(root, is_protected, cwd=cwd, hidden=_hidden(kept))
        weakref.finalize(files, os.close, root)
        return files
    resolved = plan.resolved
    grants = (*resolved.grants, *_scratch(kept.launch.scratch))
    return GrantedFiles(grants, resolved.denied, is_protected, links=resolved.links, cwd=cwd)


def _hidden(kept: SandboxServer) -> frozenset[str]:
    """Paths of what is denied and covered, as they are called inside."""
    found = []
    for target in kept.plan.resolved.denied:
        path = target.path
        for outside, inside in kept.inside.places:
            if f"{path}/".startswith(f"{outside}/"):
                path = inside + path[len(outside) :]
                break
        if target.kind is not PathKind.MISSING:
            found.append(path)
    return frozenset(found)


def _fulfils(plan: Plan, directory: int, name: str) -> bool:
    """Whether a name would be one that a pattern keeps from being made, where the directory lies now."""
    if not plan.searches:
        return False
    place = os.readlink(f"/proc/self/fd/{directory}")
    inside = plan.container.workspace
    if inside and f"{place}/".startswith(f"{inside}/"):
        place = plan.resolved.workspace + place[len(inside) :]
    return any(
        f"{place}/".startswith(f"{search.path}/")
        and descend(search.globs, (*relative_parts(place, search.path), name), is_directory=True)[0] > 0
        for search in plan.searches
    )


def _scratch(path: str) -> tuple[Grant, ...]:
    """The private directory of a sandbox without mounts, which commands may write to."""
    if not path:
        return ()
    status = os.stat(path)
    target = ResolvedPath(path, path, PathKind.DIRECTORY, status.st_dev, status.st_ino)
    return (Grant(target, FsAccess.WRITE),)
