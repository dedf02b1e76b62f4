"""Row and Line: what `corral top` shows, made safe to be shown. No terminal is needed for it."""

from __future__ import annotations

import time

from corral.model.network.traffic import FAILURES, SENTENCES, NetReason
from corral.model.printable import printable
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SESSION, RUN, COMMAND = "session", "run", "command"
STARTING, RUNNING, ENDED, STOPPED, FAILED = "starting", "running", "ended", "stopped", "failed"
#: The colours of the states; no colour for what has ended well.
COLOURS = {STARTING: "yellow", RUNNING: "green", FAILED: "red", STOPPED: "red"}
_LONGEST = 400
_SOURCE = 20


class Row(Record):
    """A session, a command that runs in it, or a run."""

    key: str
    kind: str
    name: str  # of a session; else the command
    state: str
    backend: str = ""
    agent: str = ""
    cpu_percent: float | None = None
    memory_bytes: int | None = None
    seconds: float = 0.0
    workspace: str = ""
    policy: str = ""
    net: str = ""
    pid: int = 0
    reason: str = ""  # why it ended so
    session: str = ""  # that a command runs in

    def to_json(self) -> dict[str, Any]:
        """All fields, in JSON's own types."""
        return {name: getattr(self, name) for name in self._fields}


class Line(Record):
    """Something that has happened, at a time."""

    at: float
    source: str  # the name of its row
    is_good: bool
    text: str
    host: str = ""  # that was refused
    is_event: bool = False

    def render(self) -> str:
        """One line for a person."""
        moment = time.strftime("%H:%M:%S", time.localtime(self.at))
        source = self.source if len(self.source) <= _SOURCE else f"{self.source[: _SOURCE - 1]}…"
        return f"{moment} {source}: {self.text}"


def clean(text: str) -> str:
    """TRUST: a command chose it. It has no control character, and is no longer than a few lines."""
    return printable(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")


def line_of(source: str, facts: Mapping[str, str]) -> Line | None:
    """An event or a network decision as it was told; None for what is neither."""
    try:
        at = float(facts.get("at", ""))
    except ValueError:
        return None
    if "event" in facts:
        guess = " (guessed)" if facts.get("evidence") == "inferred" else ""
        hint = f"; to permit it: {facts['hint']}" if facts.get("hint") else ""
        what = f"{facts['event']} {facts.get('feature', '')} {facts.get('subject', '')}"
        text = clean(f"{what}: {facts.get('reason', '')}{guess}{hint}")
        return Line(at, clean(source), False, text, _host_in(facts), is_event=True)
    if "network" in facts:
        is_good = facts.get("allowed") == "yes"
        host, port = facts.get("host", ""), facts.get("port", "")
        place = f"{host}:{port}" if port not in {"", "0"} else host
        why = _sentence(facts.get("reason", ""))
        failed = facts.get("reason") in FAILURES  # it was permitted, and led nowhere
        verdict = "permitted" if is_good else "failed" if failed else "refused"
        text = clean(f"network {facts['network']} {place} {verdict}: {why}")
        return Line(at, clean(source), is_good, text, "" if is_good or failed else clean(place))
    return None


def _sentence(reason: str) -> str:
    try:
        return SENTENCES[NetReason(reason)]
    except (KeyError, ValueError):
        return reason


def _host_in(facts: Mapping[str, str]) -> str:
    is_named = facts.get("evidence") != "inferred"  # a guess knows of no host
    return clean(facts.get("subject", "")) if is_named and facts.get("feature", "").startswith("net.") else ""
