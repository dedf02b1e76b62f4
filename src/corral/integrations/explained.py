"""Why a command failed, for the model that wrote it: its output, read by somebody who knows the policy.

TRUST: a command chooses its output. So this tells what the policy shows and permits, never what the host has.
"""

from __future__ import annotations

import posixpath

from corral.backends.registry import UNCONFINED
from corral.model.event import event_of
from corral.model.feature import Feature
from corral.model.violation import Evidence, Violation
from corral.runtime.inference import candidates, explain_path, infer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.event import Event
    from corral.model.plan import Plan
    from corral.model.result import Result
    from corral.sandbox import Sandbox

#: How programs say that a path leads nowhere.
_MISSING = ("no such file or directory", "cannot access", "not found:")
_MOST_LINES, _LONGEST_LINE, _MOST_EVENTS = 50, 4096, 5
_TAIL_BYTES = 16_384
_PRIVATE = (
    "the sandbox has a private directory here, which begins empty, and the host's own is not shown:"
    " do without it, or ask the user to grant it by its name"
)


def explain_failure(sandbox: Sandbox, result: Result) -> Result:
    """The result with what its output tells besides: refusals on stdout, and paths that are not shown."""
    if result.ok or result.enforcement.backend == UNCONFINED:
        return result
    printed = result.stdout_bytes[-_TAIL_BYTES:] + b"\n" + result.stderr_bytes[-_TAIL_BYTES:]
    known = {event.subject for event in result.events}
    found = explain_text(sandbox, printed.decode("utf-8", "replace"), known)
    return result.replace(events=(*result.events, *found)) if found else result


def explain_text(sandbox: Sandbox, text: str, known: set[str] | None = None) -> list[Event]:
    """What errors in a text have to do with the policy, but for subjects that are known."""
    plan = sandbox.planner.plan(sandbox.read_command(("true",)))
    seen = set(known or ())
    found: list[Event] = []
    for violation in (*infer(plan, text), *_hidden(plan, text)):
        if violation.subject not in seen and len(found) < _MOST_EVENTS:
            seen.add(violation.subject)
            found.append(event_of(violation))
    return found


def is_worth_telling(result: Result) -> bool:
    """Whether there is something to explain: after a failure, or where corral itself refused something."""
    return any(not result.ok or event.evidence is Evidence.OBSERVED for event in result.events)


def _hidden(plan: Plan, text: str) -> Iterator[Violation]:
    for line in text.splitlines()[-_MOST_LINES:]:
        lowered = line[:_LONGEST_LINE].lower()
        place = min((lowered.find(words) for words in _MISSING if words in lowered), default=-1)
        if place < 0:
            continue
        for name in candidates(line[:_LONGEST_LINE], place):
            if name.startswith("/") and name.isprintable():
                violation = _not_shown(plan, posixpath.normpath(name))
                if violation is not None:
                    yield violation


def _not_shown(plan: Plan, path: str) -> Violation | None:
    violation = explain_path(plan, path, writes=False)
    if violation is not None:
        return violation
    area = max((area for area in plan.resolved.private if _is_in(path, area)), key=len, default="")
    granted = (grant.target.path for grant in plan.resolved.grants if _is_in(path, grant.target.path))
    if not area or any(len(top) > len(area) for top in granted):
        return None  # it is shown, and there is no such file
    return Violation(Feature.FS_PRIVATE, path, Evidence.INFERRED, _PRIVATE)


def _is_in(path: str, top: str) -> bool:
    return path == top or path.startswith(f"{top.rstrip('/')}/")
