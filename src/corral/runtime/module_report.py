"""What the process that runs a module says besides the launcher's words: refusals, and why nothing ran."""

from __future__ import annotations

import json

from corral.model.errors import CorralError, PolicyError, SetupError, path_changed
from corral.model.feature import Feature
from corral.model.violation import Evidence, Violation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from corral.runtime.reporter import Reporter
    from corral.runtime.status import Status


def hear_module(status: Status, heard: int, reporter: Reporter) -> int:
    """Tell what came since the first `heard` of them; returns how many there are now."""
    for violation in read_violations(status.violations[heard:]):
        reporter.hear(violation)
    return len(status.violations)


def read_violations(lines: Iterable[str]) -> tuple[Violation, ...]:
    """Violations as they were told. What cannot be read is left out: an engine that was broken may lie."""
    found = []
    for line in lines:
        try:
            feature, subject, detail, hint, *evidence = map(str, json.loads(line))
            how = Evidence(evidence[0]) if evidence else Evidence.OBSERVED
            found.append(Violation(Feature(feature), subject, how, detail, hint, is_prevented=True))
        except (ValueError, TypeError):
            continue
    return tuple(found)


def explain_module(told: str) -> CorralError:
    """The error that kept a module from running."""
    try:
        code, what, why, fix, status = json.loads(told)
    except (ValueError, TypeError):
        code, what, why, fix, status = "module", "the module was not run", told[:300], "run it again", 125
    if code == "path-changed":
        return path_changed(str(why))
    if status == PolicyError.exit_status:
        return PolicyError(str(code), str(what), why=str(why), fix=str(fix))
    return SetupError(str(code), str(what), why=str(why), fix=str(fix))
