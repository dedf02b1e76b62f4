"""Go on with a run that the entry program has begun, as if it had been Python's from its start."""

from __future__ import annotations

import contextlib
import functools
import os
import signal

from corral.cli.options import parse_quickly
from corral.cli.request import build_command, build_request
from corral.cli.run import EventLines, pass_signals_on, report_error, say, tell_result
from corral.compiled_plans.stored import read_run
from corral.host.real import open_runs_directory
from corral.live_runs.live_run import LiveRun
from corral.model.errors import CorralError
from corral.model.plan import Command, StdioMode
from corral.network.observer import RefusalObserver
from corral.pipeline.arguments import arguments_of
from corral.pipeline.planned_run import quarantine_for
from corral.runtime.launcher.continued import BegunRun, ContinuedRun
from corral.runtime.starter import Process
from corral.streams.continued import ContinuedStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from corral.model.event import Event


def continue_run(descriptor: int) -> int:
    """Watch over it to its end, say what there is to say, and return the exit status."""
    state = _State(descriptor)
    options, words = state.request()
    command = build_command(options, words)
    lines = EventLines()
    try:
        run = _adopt(state, command)
        run.say = say
        pass_signals_on(run)
        live = _see(run, options)
        run.listen(functools.partial(_tell, live, lines))
        signal.pthread_sigmask(signal.SIG_SETMASK, state.numbers("blocked"))
        with contextlib.closing(live):
            result = run.run()
            live.end(result.exit_status, result.describe())
    except CorralError as error:
        return report_error(error, as_json=False)
    tell_result(command, result, options, lines)
    if result.ok and not result.events:  # a repository has changed: the plan is out of date
        from corral.cli.stored import store

        store(options, state.words()[1:], build_request(options, command), run.planned)
    return result.exit_status


def _see(run: ContinuedRun, options: Mapping[str, Any]) -> LiveRun:
    """From now on others see it here, and what it is refused (`corral top`)."""
    plan, launch = run.planned
    live = LiveRun(open_runs_directory())
    live.begin(
        *(plan.run_id, plan.command.argv),
        backend=launch.backend,
        policy=plan.policy.name,
        workspace=plan.resolved.workspace,
        agent=options["agent"] or "",
        net=plan.policy.net.mode.value,
    )
    live.note_started()
    return live


def _tell(live: LiveRun, lines: EventLines, event: Event) -> None:
    live.note_event(event)
    lines(event)


def _adopt(state: _State, command: str | tuple[str, ...]) -> ContinuedRun:
    plan, launch = read_run(state.number("stored"))
    words = Command(arguments_of(command), plan.command.cwd, None, StdioMode.INHERIT)
    plan = plan.replace(run_id=state.text("run"), command=words)
    process = Process(state.number("pid"), state.number("status"), state.number("lifeline"))
    begun = BegunRun(
        process,
        state.data("said"),
        state.numbers("given"),
        state.number("areas"),
        state.streams(),
        (os.fsdecode(state.data("marked")), state.number("mark")),
        state.number("copies"),
        state.every("original"),
        next(iter(state.numbers("room")), None),
    )
    observer = RefusalObserver() if plan.observes else None
    return ContinuedRun(plan, launch, begun, quarantine=quarantine_for(plan.run_id), observer=observer)


class _State:
    """What `entry/continue.c` writes: lines of a word and a value."""

    def __init__(self, descriptor: int) -> None:
        self._values: dict[str, list[str]] = {}
        with open(descriptor, encoding="ascii") as file:
            for line in file:
                name, _, value = line.rstrip("\n").partition(" ")
                self._values.setdefault(name, []).append(value)
        for name in (
            "stored",
            "status",
            "lifeline",
            "areas",
            "copies",
            "mark",
            "given",
            "source0",
            "source1",
        ):
            for number in self.numbers(name):
                os.set_inheritable(number, False)

    def text(self, name: str) -> str:
        return self._values.get(name, [""])[0]

    def data(self, name: str) -> bytes:
        return bytes.fromhex(self.text(name))

    def every(self, name: str) -> tuple[bytes, ...]:
        return tuple(map(bytes.fromhex, self._values.get(name, ())))

    def numbers(self, name: str) -> tuple[int, ...]:
        return tuple(map(int, self._values.get(name, ())))

    def number(self, name: str) -> int:
        return next(iter(self.numbers(name)), -1)

    def streams(self) -> tuple[ContinuedStream, ...]:
        if "pending0" not in self._values:
            return ()
        return tuple(
            ContinuedStream(
                self.number(f"source{number}"),
                self.data(f"pending{number}"),
                self.data(f"tail{number}"),
                self.number(f"error{number}"),
            )
            for number in (0, 1)
        )

    def words(self) -> list[str]:
        """All that was typed after `corral`."""
        return [os.fsdecode(word) for word in self.every("word")]

    def request(self) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The options and the words of the command, which the entry program has read in the same way."""
        parsed = parse_quickly(self.words()[1:])
        assert parsed is not None
        return parsed
