"""Apply a check: warn, ask or refuse, as the configuration says."""

from __future__ import annotations

from corral.model.errors import PolicyError
from corral.shell_check.check import check
from corral.shell_check.mode import ASK, MODES, OFF, WARN
from corral.shell_check.verdict import CheckVerdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from corral.shell_check.verdict import CheckResult

_MOST_REASONS = 3


def apply_check(
    mode: str,
    command: str | Sequence[str],
    *,
    rules: Iterable[str] = (),
    say: Callable[[str], object],
    ask: Callable[[CheckResult], bool] | None = None,
) -> CheckResult | None:
    """Check a command; `ask` is asked whether it may run all the same. Raises PolicyError if it may not.

    INVARIANT: nothing of the sandbox depends on the answer. A command that passes is confined like any other.
    """
    if mode not in MODES:
        raise PolicyError(
            "check-mode",
            f"{mode!r} is not a mode of the check",
            why=f"there are {', '.join(MODES)}",
            fix="name one",
        )
    if mode == OFF:
        return None
    result = check(command, rules=rules)
    if result.verdict is CheckVerdict.ALLOW:
        return result
    if mode == WARN:
        for found in result.reasons:
            say(f"check: {found.describe()}")
        return result
    if mode == ASK and result.verdict is CheckVerdict.ASK and ask is not None and ask(result):
        return result
    raise refusal(result, mode)


def refusal(result: CheckResult, mode: str) -> PolicyError:
    """Why a command does not run, in the words of the rules."""
    first = result.reasons[:_MOST_REASONS]
    more = len(result.reasons) - len(first)
    why = "; ".join(found.describe() for found in first) + (f"; and {more} more" if more > 0 else "")
    asked = ", and it cannot ask" if mode == ASK and result.verdict is CheckVerdict.ASK else ""
    return PolicyError(
        "check-refused",
        f"the check of its text says {result.verdict.value}{asked}",
        why=why,
        fix="say it in another way; or the user allows it by a rule in a file of check.rules",
    )
