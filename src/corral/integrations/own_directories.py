"""Files that are written where the sandbox has a directory of its own: the host never has them.

Commands put their temporary files there, and that is right. A model that writes `../notes` means a file of
the user's, and has to be told that there is none.
"""

from __future__ import annotations

import os

from corral.model.decision import Reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.sandbox import Sandbox

ENDS_WITH_IT = "a directory of the sandbox's own, which ends with it: the user does not have this file"


def is_own(sandbox: Sandbox, path: str) -> bool:
    """Whether what is written to a path stays in the sandbox, by the policy. Raises CorralError."""
    workspace = os.path.normpath(sandbox.workspace)
    absolute = os.path.normpath(os.path.join(workspace, path))
    if _is_beneath(absolute, workspace) and not _has_link(workspace, absolute):
        return False  # nearly always, and it costs no plan
    return sandbox.decide_path(absolute, writes=True).reason is Reason.PRIVATE


def leads_out(sandbox: Sandbox, path: str) -> bool:
    """Whether a relative path goes out of the workspace, to where the sandbox has its own directory."""
    workspace = os.path.normpath(sandbox.workspace)
    absolute = os.path.normpath(os.path.join(workspace, path))
    if os.path.isabs(path) or _is_beneath(absolute, workspace):
        return False
    return is_own(sandbox, path)


def _is_beneath(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory.rstrip('/')}/")


def _has_link(workspace: str, path: str) -> bool:
    at = workspace
    for name in os.path.relpath(path, workspace).split("/"):
        at = os.path.join(at, name)
        if os.path.islink(at):
            return True
    return False
