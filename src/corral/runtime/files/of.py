"""The files of a kept sandbox: by its own root where it has one, else by what its policy grants."""

from __future__ import annotations

import os
import weakref

from corral.model.plan import Grant, PathKind, ResolvedPath
from corral.model.policy import FsAccess
from corral.runtime.files.granted import GrantedFiles
from corral.runtime.files.root import RootFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.runtime.files.base import Files
    from corral.runtime.kept import Kept


def files_of(kept: Kept, cwd: str) -> Files:
    """What a caller may read and write there, on behalf of its commands."""
    plan = kept.plan
    watched = frozenset((watch.device, watch.inode, watch.name) for watch in plan.watches)

    def is_protected(parent: os.stat_result, name: str) -> bool:
        return (parent.st_dev, parent.st_ino, name) in watched

    if kept.inside.has_own_root:
        # TRUST: a descriptor of its own, for as long as anybody uses it: the sandbox may be closed meanwhile,
        # and the number be another file's.
        root = kept.dup_root()
        files = RootFiles(root, is_protected, cwd=cwd)
        weakref.finalize(files, os.close, root)
        return files
    ground = plan.ground
    grants = (*ground.grants, *_scratch(kept.launch.scratch))
    return GrantedFiles(grants, ground.denied, is_protected, links=ground.links, cwd=cwd)


def _scratch(path: str) -> tuple[Grant, ...]:
    """The private directory of a sandbox without mounts, which commands may write to."""
    if not path:
        return ()
    status = os.stat(path)
    target = ResolvedPath(path, path, PathKind.DIRECTORY, status.st_dev, status.st_ino)
    return (Grant(target, FsAccess.WRITE),)
