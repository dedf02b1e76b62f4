"""Collect what the command tried that it may not: from the mechanisms, and as a guess from its words."""

from __future__ import annotations

import os

from corral.model.capability import LIMIT_FIELDS, format_limit
from corral.model.feature import Feature
from corral.model.policy import FsAccess, NetMode
from corral.model.result import Outcome
from corral.model.violation import Evidence, Violation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.plan import Plan

_LIMIT_OUTCOMES = {
    Outcome.TIMED_OUT: (Feature.LIMIT_WALL, "the time was over"),
    Outcome.OUT_OF_MEMORY: (Feature.LIMIT_MEMORY, "the kernel ended a process"),
    Outcome.PIDS_LIMIT: (Feature.LIMIT_PIDS, "a new process was refused"),
    Outcome.CPU_LIMIT: (Feature.LIMIT_CPU_TIME, "its processor time was used up"),
    Outcome.DISK_LIMIT: (Feature.LIMIT_DISK, "the private areas were full when it ended"),
    Outcome.OUTPUT_LIMIT: (Feature.LIMIT_OUTPUT, "more was printed than permitted"),
}
#: Where the launcher has looked for itself.
_BY_LAUNCHER = {
    Outcome.OUT_OF_MEMORY: "it had more memory than permitted, and the launcher ended it",
    Outcome.PIDS_LIMIT: "it had more processes than permitted, and the launcher ended it",
}
_SIGXFSZ = 25
#: The clause that sets each limit.
_CLAUSES = {
    Feature.LIMIT_WALL: ("time", "limit"),
    Feature.LIMIT_MEMORY: ("memory", "limit"),
    Feature.LIMIT_PIDS: ("pids", "limit"),
    Feature.LIMIT_OUTPUT: ("output", "limit"),
    Feature.LIMIT_CPU_TIME: ("cpu", "time"),
    Feature.LIMIT_DISK: ("disk", "limit"),
    Feature.LIMIT_FILE_SIZE: ("file", "limit"),
}
_MAX_INFERRED = 5
_TAIL_BYTES = 16_384
_DENIALS = ("permission denied", "read-only file system", "operation not permitted")
#: Of these, the ones that are about reading.
_READING = ("cannot read", "can't read", "could not read", "failed to read", "unable to read", "for reading")
_NO_PROCESS = ("cannot fork", "can't fork", "fork: operation not permitted", "vfork: operation not permitted")
_NO_TRACING = ("ptrace: operation not permitted", "ptrace(ptrace_traceme, ...): operation not permitted")
_NO_ENGINE = ("cannot connect to the docker daemon", "failed to connect to the docker api")
_NO_BROWSER = ("no usable sandbox!", "running as root without --no-sandbox is not supported")
_NO_NETWORK = (
    "network is unreachable",
    "could not resolve host",
    "temporary failure in name resolution",
    "name or service not known",
    "getaddrinfo eai_again",
)


def collect(
    plan: Plan,
    outcome: Outcome,
    guarded: tuple[Violation, ...],
    stderr: bytes,
    *,
    signal: int | None = None,
    lost: bool = False,
    by_launcher: bool = False,
) -> tuple[Violation, ...]:
    """Everything that is known, observed first."""
    found = list(guarded)
    if outcome in _LIMIT_OUTCOMES:
        feature, detail = _LIMIT_OUTCOMES[outcome]
        if by_launcher:
            detail = _BY_LAUNCHER.get(outcome, detail)
        found.append(Violation(feature, "the command", Evidence.OBSERVED, detail, _twice(plan, feature)))
    if lost and outcome is not Outcome.OUT_OF_MEMORY:  # then the kernel chose PID 1, and all ended with it
        detail = "a process of the run could not be ended"
        found.append(Violation(Feature.PROC_CONTAINED, "the command", Evidence.OBSERVED, detail))
    if signal == _SIGXFSZ:
        hint = _twice(plan, Feature.LIMIT_FILE_SIZE)
        detail = "it was ended by SIGXFSZ"
        found.append(Violation(Feature.LIMIT_FILE_SIZE, "the command", Evidence.OBSERVED, detail, hint))
    if outcome is Outcome.BLOCKED and signal == 31:
        detail = "it was ended by SIGSYS, as for the system-call interface of another architecture"
        found.append(Violation(Feature.SYSCALLS, "the command", Evidence.OBSERVED, detail))
    if outcome is not Outcome.EXITED or stderr:
        found.extend(_infer(plan, stderr[-_TAIL_BYTES:].decode("utf-8", "replace")))
    return tuple(found)


def _twice(plan: Plan, feature: Feature) -> str:
    """The capability that would permit twice as much."""
    clause = _CLAUSES.get(feature)
    value = getattr(plan.ground.limits, LIMIT_FIELDS[clause]) if clause is not None else None
    return "" if clause is None or value is None else ":".join((*clause, format_limit(clause, 2 * value)))


def _infer(plan: Plan, text: str) -> Iterator[Violation]:
    seen: set[str] = set()
    lacking = list(_lacking(plan))
    for line in text.splitlines():
        lowered = line.lower()
        if len(seen) >= _MAX_INFERRED:
            return
        found = [lack for lack in lacking if any(words in lowered for words in lack[0])]
        if found:
            _, feature, subject, hint = found[0]
            if subject not in seen:
                seen.add(subject)
                yield Violation(feature, subject, Evidence.INFERRED, line.strip()[:200], hint)
        elif any(words in lowered for words in _DENIALS):
            path = _path_in(line)
            if path and path not in seen and not _is_writable(plan, path):
                seen.add(path)
                reads = any(words in lowered for words in _READING)
                feature, verb = (Feature.FS_READ, "read") if reads else (Feature.FS_WRITE, "write")
                detail = line.strip()[:200]
                yield Violation(feature, path, Evidence.INFERRED, detail, f"filesystem:{verb}:{path}")


def _lacking(plan: Plan) -> Iterator[tuple[tuple[str, ...], Feature, str, str]]:
    """Words that tell of something which the plan does not grant at all; what it is, and what grants it."""
    ground = plan.ground
    if ground.net.mode is NetMode.NONE:
        yield _NO_NETWORK, Feature.NET_NONE, "network", "network:full"
    if not ground.spawn:
        yield _NO_PROCESS, Feature.PROC_SINGLE, "process", "process:spawn"
    yield _NO_ENGINE, Feature.FS_READ, "docker", ""
    yield _NO_BROWSER, Feature.PRIVILEGES, "the browser's own sandbox", ""
    if not ground.debug:
        yield _NO_TRACING, Feature.SYSCALLS, "ptrace", "process:debug"


def _path_in(line: str) -> str:
    """The first absolute path that a message names."""
    for word in line.replace("'", " ").replace('"', " ").replace("`", " ").replace("‘", " ").split():
        candidate = word.rstrip(":,;.)’")
        if candidate.startswith("/") and len(candidate) > 1:
            return os.path.normpath(candidate)
    return ""


def _is_writable(plan: Plan, path: str) -> bool:
    return any(
        grant.access is FsAccess.WRITE
        and (path == grant.target.path or path.startswith(grant.target.path + "/"))
        for grant in plan.ground.grants
    )
