"""Overview: looks at all sessions and runs of the user. It blocks, so it is called in a worker."""

from __future__ import annotations

import threading
import time
from collections import deque

from corral.cli.top.row import (
    COMMAND,
    ENDED,
    FAILED,
    RUN,
    RUNNING,
    SESSION,
    STARTING,
    STOPPED,
    Row,
    clean,
    line_of,
)
from corral.limits.tree import look_at_tree
from corral.live_runs import seen_run
from corral.live_runs.seen_run import RunDirectory
from corral.model.errors import CorralError
from corral.sessions.named import record
from corral.sessions.named.client import ClientConnection
from corral.sessions.named.record import read_entry
from corral.sessions.named.session_directory import open_session_directories

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from corral.cli.top.row import Line
    from corral.live_runs.seen_run import SeenRun
    from corral.sessions.named.record import SessionRecord
    from corral.sessions.named.session_directory import SessionDirectory

#: What has ended stays for so long.
KEPT_SECONDS = 60.0
_MOST_ENDED = 50
_MOST_LINES = 500
#: Whoever takes longer to answer is shown as he was.
_ANSWER_SECONDS = 1.0
#: What engines run is no descendant of their client's.
_ELSEWHERE = frozenset({"docker", "podman", "lima"})
_STATES = {
    record.STARTING: STARTING,
    record.RUNNING: RUNNING,
    record.FAILED: FAILED,
    record.STOPPED: STOPPED,
}


class _Spent:
    """How much processor time something takes, from one look to the next."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, float]] = {}

    def percent(self, key: str, cpu_seconds: float | None) -> float | None:
        now = time.monotonic()
        before = self._before.get(key)
        if cpu_seconds is None:
            return None
        self._before[key] = (now, cpu_seconds)
        if before is None or now <= before[0]:
            return None
        return max(0.0, (cpu_seconds - before[1]) / (now - before[0]) * 100)

    def keep(self, keys: set[str]) -> None:
        """Forget the others."""
        self._before = {key: value for key, value in self._before.items() if key in keys}


class Asked:
    """What a session has answered, by a thread of its own: one that hangs keeps nobody waiting."""

    def __init__(self, place: SessionDirectory, entry: SessionRecord) -> None:
        self._place, self._entry = place.copy(), entry
        self.answer: dict[str, Any] = {}
        self.events: list[dict[str, str]] = []
        self._next = 0
        self._thread: threading.Thread | None = None

    def ask(self) -> None:
        """Begin to ask, unless the last question is open."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._ask, name="corral-ask", daemon=True)
            self._thread.start()

    def wait(self, deadline: float) -> None:
        if self._thread is not None:
            self._thread.join(max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        """Forget it. What is still open ends by itself, with an answer or the time for one."""
        if self._thread is not None:
            self._thread.join(_ANSWER_SECONDS)
        self._place.close()

    def take_events(self) -> list[dict[str, str]]:
        """What is new."""
        events, self.events = self.events, []
        return events

    def _ask(self) -> None:
        try:
            with ClientConnection(self._place, self._entry) as connection:
                heard = connection.ask_quickly("status", since=self._next)
        except CorralError:
            heard = None
        if heard is not None:
            self._next = heard.get("next", 0)  # an older corral tells of no events
            self.events = [*self.events, *heard.get("events", ())]
            self.answer = heard


class Overview:
    """Remembers what was seen, so that it can say what is new."""

    def __init__(self) -> None:
        self._runs = RunDirectory()
        self._asked: dict[tuple[str, str], Asked] = {}
        self._spent = _Spent()
        self._ended: deque[tuple[float, Row]] = deque(maxlen=_MOST_ENDED)
        self._by_key: dict[str, SeenRun] = {}
        self._lines: deque[Line] = deque(maxlen=_MOST_LINES)

    def look(self) -> tuple[list[Row], list[Line]]:
        """All there is now, and what has happened since the last time."""
        self._lines.clear()
        rows = [*self._sessions(), *self._running()]
        now = time.monotonic()
        while self._ended and now - self._ended[0][0] > KEPT_SECONDS:
            self._ended.popleft()
        self._spent.keep({row.key for row in rows})
        return [*rows, *(row for _, row in self._ended)], _without_repeats(self._lines)

    def find_run(self, key: str) -> SeenRun | None:
        """A run that is under way."""
        return self._by_key.get(key)

    def _sessions(self) -> Iterator[Row]:
        found: list[SessionRecord] = []
        asked: dict[tuple[str, str], Asked] = {}
        for place in open_session_directories():
            entries = [read_entry(place, name) for name in place.names()]
            for entry in filter(None, entries):
                found.append(entry)
                key = (entry.name, entry.token)
                if entry.is_living and entry.token:
                    asked[key] = self._asked.get(key) or Asked(place, entry)
                    asked[key].ask()
            place.close()
        gone = [one for key, one in self._asked.items() if key not in asked]
        self._asked = asked
        for one in gone:
            one.close()
        deadline = time.monotonic() + _ANSWER_SECONDS
        for one in asked.values():
            one.wait(deadline)
        for entry in found:
            yield from self._session(entry, asked.get((entry.name, entry.token)))

    def _session(self, entry: SessionRecord, asked: Asked | None) -> Iterator[Row]:
        now = time.time()
        if not entry.is_living and now - max(entry.ended, entry.began) > KEPT_SECONDS:
            return
        answer = asked.answer if asked is not None else {}
        usage = answer.get("usage") or {}
        key = f"{SESSION} {entry.name}"
        yield Row(
            key,
            SESSION,
            clean(entry.name),
            _STATES.get(entry.state, FAILED),
            clean(entry.backend),
            clean(entry.agent),
            self._spent.percent(key, usage.get("cpu_seconds")),
            usage.get("memory_bytes"),
            max(0.0, (now if entry.is_living else entry.ended or now) - entry.began),
            clean(entry.workspace),
            clean(entry.policy),
            pid=entry.pid,
            reason=clean(entry.reason),
        )
        names = {}
        for running in answer.get("running", ()):
            names[running["id"]] = clean(str(running["command"]))
            name, seconds = names[running["id"]], float(running["seconds"])
            inner = f"{COMMAND} {entry.name} {running['id']}"
            yield Row(inner, COMMAND, name, RUNNING, seconds=seconds, session=entry.name)
        for facts in asked.take_events() if asked is not None else ():
            self._note(entry.name, {name: str(value) for name, value in facts.items()})

    def _running(self) -> Iterator[Row]:
        self._by_key = {}
        for run in self._runs.look():
            for facts in run.read_new():
                self._note(_command(run.facts.argv), facts)
            row = self._row(run)
            if row.state in {STARTING, RUNNING}:
                self._by_key[row.key] = run
                yield row
            elif not any(known.key == row.key for _, known in self._ended):
                self._ended.append((time.monotonic(), row))
                run.close()

    def _row(self, run: SeenRun) -> Row:
        facts, key = run.facts, f"{RUN} {run.facts.identity}"
        state = {seen_run.STARTING: STARTING, seen_run.RUNNING: RUNNING}.get(run.state)
        is_here = state is not None and facts.backend not in _ELSEWHERE and run.is_in_own_namespace
        counted = look_at_tree(facts.pid) if is_here else None
        spent = None if counted is None else (counted.user_seconds or 0.0) + (counted.system_seconds or 0.0)
        return Row(
            key,
            RUN,
            clean(_command(facts.argv)),
            state or (ENDED if run.status == 0 else FAILED),
            clean(facts.backend),
            clean(facts.agent),
            self._spent.percent(key, spent),
            counted.memory_bytes if counted is not None else None,
            max(0.0, time.time() - facts.began),
            clean(facts.workspace),
            clean(facts.policy),
            clean(facts.net),
            facts.pid,
            clean(run.text),
        )

    def _note(self, source: str, facts: dict[str, str]) -> None:
        line = line_of(source, facts)
        if line is not None:
            self._lines.append(line)


def _without_repeats(lines: Iterable[Line]) -> list[Line]:
    """In their order. A refusal by the gateway is an event as well, which says more: with its hint."""
    told = {(line.source, line.host) for line in lines if line.is_event}
    left = (line for line in lines if line.is_event or line.is_good or (line.source, line.host) not in told)
    return sorted(left, key=lambda line: line.at)


def _command(argv: tuple[str, ...]) -> str:
    """What a person typed: of `/bin/sh -c LINE` the line."""
    is_line = len(argv) == 3 and argv[1] == "-c" and argv[0].endswith("sh")
    return argv[2] if is_line else " ".join(argv)
