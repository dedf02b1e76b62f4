"""Find, prove and make: which enforcers hold what on this host, and the group for a request."""

from __future__ import annotations

import contextlib
import os
from functools import partial

from corral.limits.cgroup1 import Group1, kill_listed
from corral.limits.cgroup2 import Group2, kill_directory
from corral.limits.group import KEPT, Group, OwnGroup, group_failed, is_leftover, label, remove_directories
from corral.limits.hierarchy import Hierarchy, explain_absence, find_hierarchy
from corral.model.enforcer import CGROUP1, CGROUP2, ENGINE, SYSTEMD, Enforcer
from corral.model.errors import SetupError, UnenforceableError
from corral.model.feature import Feature
from corral.model.launch import GroupRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_KINDS: dict[str, type[OwnGroup]] = {CGROUP1: Group1, CGROUP2: Group2}
#: Which controllers a limit needs, in each version. Processor time is counted in version 2 without one.
_NEEDS = {
    CGROUP1: {
        Feature.LIMIT_MEMORY: "memory",
        Feature.LIMIT_CPU: "cpu",
        Feature.LIMIT_CPU_TIME: "cpuacct",
        Feature.LIMIT_PIDS: "pids",
    },
    CGROUP2: {
        Feature.LIMIT_MEMORY: "memory",
        Feature.LIMIT_CPU: "cpu",
        Feature.LIMIT_CPU_TIME: "",
        Feature.LIMIT_PIDS: "pids",
    },
}
_swept: set[str] = set()


def cgroup_enforcer(try_group: Callable[[Group], str]) -> Enforcer:
    """What control groups hold here, proved on a group with every limit; `try_group` enters it."""
    hierarchy = find_hierarchy()
    if hierarchy is None:
        reason, fix = explain_absence()
        return Enforcer(CGROUP2, frozenset(), reason, fix)
    holds = frozenset(
        feature
        for feature, controller in _NEEDS[hierarchy.enforcer].items()
        if not controller or controller in hierarchy.parents
    )
    request = trial_request(hierarchy.enforcer, holds)
    fix = "run `corral doctor --json` and report it if this kernel should be able to do this"
    try:
        group = make_group(request, f"trial{os.urandom(4).hex()}")  # other threads try as well
    except SetupError as problem:
        return Enforcer(hierarchy.enforcer, frozenset(), problem.why, fix)
    try:
        failure = try_group(group)
    finally:
        group.remove()
    if failure:
        return Enforcer(hierarchy.enforcer, frozenset(), f"a process could not enter a group: {failure}", fix)
    missing = ", ".join(feature.value for feature in _NEEDS[hierarchy.enforcer] if feature not in holds)
    return Enforcer(hierarchy.enforcer, holds, f"no controller for {missing}" if missing else "")


def trial_request(enforcer: str, holds: frozenset[Feature]) -> GroupRequest:
    """All limits that are held, with small values that every kernel takes."""
    return GroupRequest(
        enforcer,
        1 << 28 if Feature.LIMIT_MEMORY in holds else None,
        0.5 if Feature.LIMIT_CPU in holds else None,
        16 if Feature.LIMIT_PIDS in holds else None,
        10.0 if Feature.LIMIT_CPU_TIME in holds else None,
        ends_by_group=True,
    )


def check_ceiling(request: GroupRequest | None, within: Hierarchy | None, backend: str) -> None:
    """Raise UnenforceableError where a ceiling is set and the group of a launch would not lie beneath it."""
    if within is not None and (request is None or request.enforcer == ENGINE):
        raise UnenforceableError(
            "unenforceable",
            f"the backend {backend} cannot keep a run within a ceiling",
            why="its runs have no control group of corral's",
            fix="use another backend, or no ceiling",
            lacking=frozenset({Feature.LIMIT_MEMORY, Feature.LIMIT_CPU, Feature.LIMIT_PIDS}),
        )


def make_wanted_group(
    request: GroupRequest | None, run_id: str, within: Hierarchy | None, backend: str
) -> Group | None:
    """The group of a single run; None where it has none, or it would have counted only and cannot be made."""
    check_ceiling(request, within, backend)
    if request is None:
        return None
    try:
        return make_group(request, run_id, within)
    except SetupError:
        if request.is_needed or within is not None:
            raise
        return None


def make_group(request: GroupRequest, run_id: str, within: Hierarchy | None = None) -> Group:
    """The group for a run. Raises SetupError; then nothing is left."""
    if request.enforcer == ENGINE:
        from corral.limits.engine_group import EngineGroup

        return EngineGroup(request)
    if request.enforcer == SYSTEMD and within is None:
        return _make_scope(request, run_id)
    return make_own_group(request, run_id, within)


def make_own_group(request: GroupRequest, run_id: str, within: Hierarchy | None = None) -> OwnGroup:
    """A group that is ours to change, beneath our own place or another. Raises SetupError as `make_group`."""
    hierarchy = within or find_hierarchy()
    try:
        if hierarchy is None or hierarchy.enforcer != request.enforcer:
            raise OSError("the control groups are not what they were when the host was probed")
        if within is None:
            for parent in dict.fromkeys(hierarchy.parents.values()):
                remove_leftovers(parent)
        return _KINDS[hierarchy.enforcer](hierarchy, request, label() + run_id)
    except OSError as problem:
        raise group_failed(problem) from problem


def _make_scope(request: GroupRequest, run_id: str) -> Group:
    from corral.limits.scope import Scope
    from corral.limits.systemd import remove_leftovers as remove_scopes

    if SYSTEMD not in _swept:
        _swept.add(SYSTEMD)
        with contextlib.suppress(OSError):
            remove_scopes()
    return Scope(request, run_id)


def remove_leftovers(parent: str, *, again: bool = False) -> None:
    """Remove the groups of corral processes that died, with whoever is still in them; once in a process."""
    if parent in _swept and not again:
        return
    _swept.add(parent)
    try:
        names = [name for name in os.listdir(parent) if is_leftover(name)]
    except OSError:
        return
    for name in names:
        directory = os.path.join(parent, name)
        if name.rpartition("-")[2].startswith(KEPT):
            remove_directories((directory,), lambda: None, patience=0.0)
        else:
            remove_tree(directory)


def remove_tree(directory: str) -> None:
    """A group and those beneath it, from the deepest upwards; whoever lives there is ended."""
    for path, _, _ in os.walk(directory, topdown=False):
        remove_directories((path,), partial(_kill_in, path))


def _kill_in(directory: str) -> None:
    if os.path.exists(f"{directory}/tasks"):
        kill_listed((directory,), directory if os.path.exists(f"{directory}/freezer.state") else "")
    else:
        kill_directory(directory)
