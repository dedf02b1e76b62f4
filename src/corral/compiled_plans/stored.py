"""Stored plans: what a run was, for the entry program (`entry/`) to do the same again without Python.

    header   8 bytes magic, u32 length of the records, u32 of the plan, u32 number of records, 32 bytes key
    records  u32 type, u32 payload length, payload: what the entry program has to know besides
    plan     as `corral compile` writes it
    run      the plan and the launch, for the Python part, should it have to go on with such a run

`entry/entry.h` has the same numbers. TRUST: the file is believed for the place where it lies.
"""

from __future__ import annotations

import marshal
import os
import struct
from enum import IntEnum

import corral
from corral.compiled_plans.compiler import (
    MEMBERSHIP,
    compiled_plan,
    preset_directory,
    with_groups,
)
from corral.compiled_plans.plain_values import from_plain, to_plain
from corral.compiled_plans.traced_host import TracedHost
from corral.git_check.check import begin_for_others
from corral.git_check.scope import scope_of
from corral.host.real import RUNS, control_directories
from corral.limits.files import read
from corral.linux.compiled import CompiledPlan, encode_plan
from corral.linux.encode import append_guard
from corral.model.plan import StdioMode
from corral.model.policy import NetMode, Response
from corral.pipeline.networked_launch import Opening
from corral.pipeline.planned_run import quarantine_for
from corral.protected_names.launcher_guard import name_guard
from corral.protected_names.session_guard import memory_of
from corral.runtime.check import check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from corral.compiled_plans.traced_host import Trace
    from corral.model.backend import Host
    from corral.model.launch import Launch
    from corral.model.plan import Plan
    from corral.sandbox import Sandbox

MAGIC = b"CORENTR\x01"
HEADER = struct.Struct("<8sIII32s")
_RECORD = struct.Struct("<II")
_U32 = struct.Struct("<I")
#: Where nothing is expected to stay: see runtime/discarded.py.
_TEMPORARY = frozenset({"/tmp", "/var/tmp", "/dev/shm"})
#: Controllers that tell what a command was refused.
_TELLING = frozenset({"memory", "pids"})
#: As in entry/run.h.
_MOST_WORKTREES, _MOST_COPIES = 4096, 256


class StoredRecord(IntEnum):
    CWD = 1  # string
    WORKSPACE = 2  # string
    HOME = 3  # string
    VARIABLE = 4  # string NAME=VALUE
    AREA = 5  # u32 whether all that is left there is told, string path
    OWN = 6  # u32 size, bytes, string path
    ROOT = 7  # string
    WORKTREE = 8  # u32 size, bytes of its HEAD, string
    COPY = 9  # u64 device, u64 inode, string path, string root, string inside
    COPIES = 10  # string
    MARK = 11  # u32 size, bytes, string directory
    LIVE = 12  # string directory
    FACT = 13  # string name, string value


def compile_run(
    sandbox: Sandbox, trace: Trace, ran: tuple[Plan, Launch], key: bytes, facts: Mapping[str, str]
) -> bytes | None:
    """The file for a run like one that has just ended; None where only Python can do it.

    Facts are what the user's other processes are told of such a run.

    Raises CorralError, if it cannot be planned with what the launcher itself can do.
    """
    for name in (preset_directory(), *map(os.path.abspath, (corral.__file__,))):
        trace.note_content(name)
    hosts: list[Host] = []

    def wrap(host: Host) -> Host:
        hosts.append(TracedHost(host, trace, is_stored=True))
        return hosts[0]

    traced = sandbox.through(wrap, ("native",))
    command = traced.read_command(("true",), stdin=None, stdio=StdioMode.INHERIT)
    explanation = traced.planner.explain(command, Opening(None, observes=True))
    plan, launch = explanation.plan, explanation.launch
    if not _is_like(plan, launch, *ran) or not _can_be_stored(plan, launch):
        return None
    check(plan, launch)
    # What a probe depends on as well: which launcher it is, and in which groups.
    trace.note_content(launch.argv[0])
    trace.note_text(MEMBERSHIP, read(MEMBERSHIP))
    if plan.resolved.denied_mounts:  # compiled plans do without: docs/compiled-plans.md
        trace.note_mounts(plan.resolved.denied_mounts)
    for path in hosts[0].corral_files():
        hosts[0].lstat(path)
    launch = _guarded(plan, launch)
    repositories = _repositories(plan, launch)
    if repositories is None:
        return None
    seen = _seen(facts)
    return _encode(key, plan, launch, _compiled(plan, launch, trace), [*repositories, *seen])


def _seen(facts: Mapping[str, str]) -> Iterator[tuple[StoredRecord, bytes]]:
    """Where runs are seen, if anywhere, and what is told of this one: live_runs/README.md."""
    places = control_directories()
    if places:
        yield StoredRecord.LIVE, _string(os.path.join(places[0], RUNS))
        for name, value in facts.items():
            yield StoredRecord.FACT, _string(name) + _string(value)


def _is_like(plan: Plan, launch: Launch, other: Plan, used: Launch) -> bool:
    """Whether the same holds of both: limits may be held by other means in a run of Python's."""
    held = (launch.backend, launch.enforced, plan.waived, plan.unheld, plan.hears, plan.observes)
    return held == (used.backend, used.enforced, other.waived, other.unheld, other.hears, other.observes)


def _can_be_stored(plan: Plan, launch: Launch) -> bool:
    """Whether entry program and launcher do all that a run takes, and Python would say nothing each time."""
    resolved = plan.resolved
    is_apart = launch.backend == "native" and (launch.gateway is None or plan.observes)
    only_python = (
        *(launch.outer, launch.scratch, plan.searches, plan.host_searches, plan.notes, resolved.published),
        plan.unheld,  # by now it may be held
        *(resolved.net.mode is NetMode.LIMITED, plan.policy.response is not Response.DENY),
    )
    if not is_apart or any(only_python) or (plan.watches and not launch.guards_names):
        return False
    numbers = [mount.copy.number for mount in launch.copies]
    return not plan.hook_directories and numbers == [*range(min(len(numbers), _MOST_COPIES))]


def _repositories(plan: Plan, launch: Launch) -> list[tuple[StoredRecord, bytes]] | None:
    """What the entry program has to know of repositories; None if there is more to them than it knows."""
    if not plan.worktrees:
        return [] if not launch.copies else None
    scope = scope_of(plan)
    place = memory_of(plan, quarantine_for("any"))
    begun = begin_for_others(scope)
    if not place or begun is None or len(plan.worktrees) > _MOST_WORKTREES:
        return None
    state, heads = begun
    found = [(StoredRecord.ROOT, _string(root)) for root in scope.roots]
    for worktree in scope.planned:
        git = f"{worktree}/.git"
        head = heads.pop(git, b"")
        if head and git not in scope.held:
            return None
        found.append((StoredRecord.WORKTREE, _U32.pack(len(head)) + head + _string(worktree)))
    if heads:  # a repository elsewhere
        return None
    marks = os.path.join(os.path.dirname(place), "unchecked")
    found.append((StoredRecord.MARK, _U32.pack(len(state)) + state + _string(marks)))
    if launch.copies:
        found.append((StoredRecord.COPIES, _string(plan.copies_directory)))
    for mount in launch.copies:
        target = mount.copy.target
        identity = struct.pack("<QQ", target.device, target.inode)
        places = _string(target.path) + _string(mount.copy.root) + _string(mount.inside)
        found.append((StoredRecord.COPY, identity + places))
    return found


def _guarded(plan: Plan, launch: Launch) -> Launch:
    if not plan.watches:
        return launch
    assert launch.spec is not None
    guard = name_guard(plan, os.path.dirname(quarantine_for("any")))
    return launch.replace(spec=append_guard(launch.spec, guard))


def _compiled(plan: Plan, launch: Launch, trace: Trace) -> CompiledPlan:
    return compiled_plan(plan, launch, trace, with_groups(launch, trace, telling=_TELLING))


def _encode(
    key: bytes,
    plan: Plan,
    launch: Launch,
    compiled: CompiledPlan,
    repositories: list[tuple[StoredRecord, bytes]],
) -> bytes:
    every = (*_records(plan), *repositories)
    records = [_RECORD.pack(kind, len(payload)) + payload for kind, payload in every]
    body, encoded = b"".join(records), encode_plan(compiled)
    # Of the environment there are names alone; what the launcher was told is in the plan.
    told = to_plain(plan.replace(env=())), to_plain(launch.replace(spec=b"", env=(), inside=None))
    return (
        HEADER.pack(MAGIC, len(body), len(encoded), len(records), key) + body + encoded + marshal.dumps(told)
    )


def _records(plan: Plan) -> Iterator[tuple[StoredRecord, bytes]]:
    resolved = plan.resolved
    yield StoredRecord.CWD, _string(plan.command.cwd)
    yield StoredRecord.WORKSPACE, _string(resolved.workspace)
    yield StoredRecord.HOME, _string(resolved.home)
    for entry in _set_by_python():
        yield StoredRecord.VARIABLE, entry + b"\0"
    for area in sorted(resolved.private, key=lambda path: (path.count("/"), path)):
        yield StoredRecord.AREA, _U32.pack(area not in _TEMPORARY) + _string(area)
    own = {file.path: file.content for file in resolved.private_files}
    own |= {link.path: b"" for link in resolved.links}
    own |= {grant.target.path: b"" for grant in resolved.grants}
    for path, content in own.items():
        yield StoredRecord.OWN, _U32.pack(len(content)) + content + _string(path)


def caller_environment() -> list[bytes]:
    """The variables that this process was started with, before Python has set any. Raises OSError."""
    with open("/proc/self/environ", "rb") as file:
        return [entry for entry in file.read().split(b"\0") if entry]


def _set_by_python() -> list[bytes]:
    """What Python has set in its own environment, and so for a command that may have it (LC_CTYPE)."""
    before = {entry.partition(b"=")[0] for entry in caller_environment()}
    return [name + b"=" + value for name, value in os.environb.items() if name not in before]


def _string(text: str) -> bytes:
    raw = os.fsencode(text)
    if b"\0" in raw:
        raise ValueError(f"{text!r} contains a NUL byte")
    return raw + b"\0"


def read_run(descriptor: int) -> tuple[Plan, Launch]:
    """The plan and the launch of a stored plan. Raises OSError and ValueError."""
    header = os.pread(descriptor, HEADER.size, 0)
    magic, body, plan, _, _ = HEADER.unpack(header)
    if magic != MAGIC:
        raise ValueError("not a stored plan")
    start, end = HEADER.size + body + plan, os.fstat(descriptor).st_size
    told = marshal.loads(os.pread(descriptor, end - start, start))  # noqa: S302 - corral's own file
    return from_plain(told[0]), from_plain(told[1])
