"""Records: what the audit log has of a run. Never values of variables, queries, arguments or output."""

from __future__ import annotations

import os
import time

from corral.audit.log import now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from corral.model.errors import CorralError
    from corral.model.plan import Plan
    from corral.model.policy import Policy
    from corral.model.result import Result

    Record = Mapping[str, object]

#: The kinds of records, in the order in which a run has them.
EVENTS = ("opened", "planned", "waiver", "started", "decision", "violation", "ended", "setup-failed", "torn")
_MOST_CHARACTERS = 500
_MOST_EVENTS = 256
_KERNEL = os.uname().release
#: The last policy, and its hash: most runs of a process have the same.
_digest: list[tuple[Policy, str]] = []


class Who:
    """What all records of one caller have in common."""

    def __init__(self, agent: str = "", session: str = "") -> None:
        self.agent, self.session = agent, session

    def head(self, event: str, run: str, at: float | None = None) -> dict[str, object]:
        """How a record begins."""
        found: dict[str, object] = {"event": event, "time": now(at), "run": run, "uid": os.geteuid()}
        if self.agent:
            found["agent"] = self.agent
        if self.session:
            found["session"] = self.session
        return found


def planned(plan: Plan, backend: str, who: Who) -> Iterator[Record]:
    """Before a command starts: what is enforced, by whom, and what was given up."""
    words = plan.command.argv[0].split() if plan.command.argv else []  # a shell line may be given as a name
    program = os.path.basename(words[0]) if words else ""
    yield {
        **who.head("planned", plan.run_id),
        "program": cut(program),
        "arguments": len(plan.command.argv) - 1,
        "workspace": cut(plan.resolved.workspace),
        "policy": plan.policy.name,
        "policy_hash": digest_of(plan.policy),
        "backend": backend,
        "kernel": _KERNEL,
        "features": sorted(feature.value for feature in plan.requires - plan.waived),
    }
    for feature in sorted(plan.waived, key=lambda each: each.value):
        yield {**who.head("waiver", plan.run_id), "feature": feature.value}


def ended(result: Result, who: Who) -> Iterator[Record]:
    """After a command: that it started, what was refused, how it ended and what it cost."""
    run = result.run_id
    yield who.head("started", run, time.time() - result.duration_seconds)
    broken = {(each.feature, each.subject) for each in result.violations}
    for event in result.events[:_MOST_EVENTS]:
        kind = "violation" if (event.feature, event.subject) in broken else "decision"
        yield {
            **who.head(kind, run),
            "kind": event.kind.value,
            "feature": event.feature.value,
            "subject": without_query(event.subject),
            "evidence": event.evidence.value,
            "count": event.count,
        }
    usage = result.usage
    yield {
        **who.head("ended", run),
        "outcome": result.outcome.value,
        "exit_status": result.exit_status,
        "backend": result.enforcement.backend,
        "policy_hash": digest_of(result.policy),
        "fallback": bool(result.enforcement.fallback),
        "unheld": sorted(feature.value for feature, _ in result.enforcement.unheld),
        "violations": len(result.violations),
        "seconds": round(result.duration_seconds, 6),
        "cpu_seconds": round(usage.cpu_seconds, 6),
        "peak_memory_bytes": usage.peak_memory_bytes,
        "read_bytes": usage.read_bytes,
        "written_bytes": usage.written_bytes,
    }


def failed(run: str, problem: BaseException, who: Who) -> Record:
    """A command did not run, or corral lost it."""
    error: CorralError | None = problem if hasattr(problem, "code") else None  # type: ignore[assignment]
    code = error.code if error is not None else type(problem).__name__
    ran = bool(error is not None and error.ran)
    return {**who.head("setup-failed", run), "code": code, "class": type(problem).__name__, "ran": ran}


def digest_of(policy: Policy) -> str:
    """The hash of a policy, found out once."""
    if not _digest or _digest[0][0] is not policy:
        _digest[:] = [(policy, policy.digest())]
    return _digest[0][1]


def without_query(text: str) -> str:
    """A subject without what stands behind a `?` in a URL, nor a password before its host."""
    if "://" in text:
        scheme, _, rest = text.partition("://")
        host, slash, path = rest.partition("/")
        text = f"{scheme}://{host.rpartition('@')[2]}{slash}{path.partition('?')[0].partition('#')[0]}"
    return cut(text)


def cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
