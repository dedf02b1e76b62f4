"""What a kept sandbox has cost until now: by its control group, or by looking at its processes."""

from __future__ import annotations

import time

from corral.limits.tree import look_at_tree
from corral.model.result import UsageSample

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.runtime.launcher.server import SandboxServer


def sample_usage(kept: SandboxServer, began: float) -> UsageSample:
    """All that runs in it together, since the session began."""
    seconds = time.time() - began
    if kept.group is not None:
        counted = kept.group.usage()
        return UsageSample(seconds, kept.group.cpu_seconds(), counted.memory_bytes, counted.pids)
    counted = look_at_tree(kept.inner)
    spent = (counted.user_seconds or 0.0) + (counted.system_seconds or 0.0)
    return UsageSample(seconds, spent, counted.memory_bytes, counted.pids)
