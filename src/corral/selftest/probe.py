"""EscapeProbe: one way out of a sandbox that somebody has tried, with the means to try it again."""

from __future__ import annotations

from enum import StrEnum

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.model.feature import Feature
    from corral.selftest.stage import Stage

    Setup = Callable[[Stage], None]
    #: Says in words what the attack achieved on the host; an empty text if nothing.
    Judge = Callable[[Stage, str], str]


class ProbeOutcome(StrEnum):
    HELD = "held"
    ESCAPED = "ESCAPED"
    NOT_APPLICABLE = "not-applicable"  # it does not work on this host even without a sandbox
    BROKEN = "broken"  # the confined attack never ran, so nothing is known
    NOT_CLAIMED = "not-claimed"  # the backend does not promise to stop it; never counted as held


class Language(StrEnum):
    SHELL = "sh"
    PYTHON = "python3"


class EscapeProbe(Record):
    name: str
    title: str  # the attack, as a person would say it
    feature: Feature  # the promise that it breaks if it succeeds
    source: str  # where it was published (docs/escapes.md explains the letters); "corral" for our own
    script: str
    judge: Judge
    setup: Setup | None = None
    language: Language = Language.SHELL
    earlier: str = ""  # a script of an earlier run in the same workspace: attacks in two steps
    capabilities: tuple[str, ...] = ()  # added to the profile `moderate`
    needs_terminal: bool = False
    stdin: str = ""  # a file of the stage that the caller gives as stdin
    runner_holds: str = ""  # why the backend `none` stops it as well, where it does
    refusal: str = ""  # the error code by which corral may refuse to run it at all: that holds as well
    #: (backend, where its documents say that it does not stop this): success is then not-claimed, there only.
    limits: tuple[tuple[str, str], ...] = ()


def where_mounted(text: str) -> tuple[tuple[str, str], ...]:
    """A limit of all backends that show granted directories by mounts."""
    return tuple((name, text) for name in ("native", "bubblewrap", "firejail", "podman", "docker"))


def python_probe(  # noqa: PLR0917 (the fields of a probe, in their order)
    name: str,
    title: str,
    feature: Feature,
    source: str,
    script: str,
    judge: Judge,
    setup: Setup | None = None,
    runner_holds: str = "",
) -> EscapeProbe:
    """A probe whose attack is written in Python."""
    return EscapeProbe(
        name, title, feature, source, script, judge, setup, Language.PYTHON, runner_holds=runner_holds
    )


class ProbeReport(Record):
    """What one probe found out."""

    name: str
    title: str
    feature: Feature
    source: str
    outcome: ProbeOutcome
    reason: str
    seconds: float


class NotHereError(Exception):
    """Raised by a setup: this host lacks what the attack is about."""
