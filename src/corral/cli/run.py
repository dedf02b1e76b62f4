"""`corral run` and `corral shell`: carry out a request and give the command's own status back."""

from __future__ import annotations

import contextlib
import os
import signal
import sys

from corral.cli.options import OF_A_TRIAL
from corral.cli.seen import NotedRun
from corral.model.errors import CorralError, PolicyError
from corral.model.event import THE_COMMAND, EventKind, shown
from corral.model.plan import StdioMode
from corral.model.policy import Response
from corral.model.printable import printable
from corral.model.result import Outcome
from corral.model.violation import Evidence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import Any

    from corral.cli.request import Request
    from corral.cli.trial.tried import TriedCommand
    from corral.model.errors import UnenforceableError
    from corral.model.event import Event
    from corral.model.feature import Feature
    from corral.model.launch import Launch
    from corral.model.network.traffic import Traffic
    from corral.model.plan import Command, Plan
    from corral.model.result import Result
    from corral.pipeline.planned_run import PlannedRun
    from corral.runtime.launcher.continued import ContinuedRun
    from corral.runtime.monitor import Monitor

#: Passed on to the command as they come. The command decides; corral ends when it has ended.
_PASSED_ON = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT")
_LIMITS_SAID = {
    Outcome.TIMED_OUT: "it timed out",
    Outcome.OUT_OF_MEMORY: "it hit the memory limit",
    Outcome.PIDS_LIMIT: "it hit the process limit",
    Outcome.OUTPUT_LIMIT: "it hit the output limit",
    Outcome.CPU_LIMIT: "it used up its processor time",
    Outcome.DISK_LIMIT: "it hit the disk limit",
    Outcome.BLOCKED: "the sandbox ended it",
}

#: A command may try as many different things as it likes: what comes later is told at the end.
_MOST_LINES = 32
_WITHOUT_PROXY = (
    "the command did not use corral's proxy; with landlock, a program that ignores http_proxy has no network"
    " (with native it needs no proxy)"
)


def run_request(options: Mapping[str, Any], words: Iterable[str], *, stores: bool = False) -> int:
    """Run what was asked for; returns the exit status. `stores`: leave the plan for the entry program."""
    from corral.cli.request import build_command, build_request  # `session exec` has no use for it

    lines = EventLines()
    tried_commands: list[TriedCommand] = []
    try:
        command = build_command(options, words)
        request = build_request(options, command, may_try=True)
        options = {**options, "trial": request.is_tried or any(options[name] for name in OF_A_TRIAL)}
        if request.configuration is not None and request.configuration.check_mode != "off":
            from corral.cli.check import check_configured

            check_configured(request.configuration, command)
        announce(request, verbose=bool(options["verbose"]), as_json=bool(options["json"]))
        result = _carry_out(request, options, lines, tried_commands)
    except CorralError as error:
        return report_error(error, as_json=bool(options["json"]))
    if options["json"]:
        tried = {"trial": tried_commands[0].to_json()} if tried_commands else {}
        print_json({**result.to_json(), "configuration": _configuration_json(request), **tried})
    tell_result(command, result, options, lines)
    if stores and lines.ran is not None:
        from corral.cli.stored import store

        store(options, sys.argv[2:], request, lines.ran)
    if options["stats"]:
        from corral.cli.stats import describe_traffic, summarize

        say(summarize(result))
        for line in describe_traffic(result.network) if result.network is not None else ():
            say(line)
    if tried_commands and not options["json"]:
        return tried_commands[0].finish(asks=True) or result.exit_status
    return result.exit_status


def tell_result(
    command: str | tuple[str, ...], result: Result, options: Mapping[str, Any], lines: EventLines
) -> None:
    """Say what there is to say of a run that has ended, and keep it for `corral why --last`."""
    if result.events:
        from corral.cli.last import keep_last

        keep_last(command, result)
    if options["verbose"] or not options["json"]:
        warns = result.policy.response is Response.WARN
        for line in describe_result(result, verbose=bool(options["verbose"]), told=lines.told, warns=warns):
            say(line)
        if not result.ok:
            from corral.cli.advice import advise

            advice = advise(command, result)
            if advice:
                say(advice)


def run_shell(options: Mapping[str, Any]) -> int:
    """An interactive shell in a sandbox."""
    shell = os.environ.get("SHELL") or "/bin/sh"
    # Without a terminal it reads a script, and must come to the end of it.
    return run_request(
        {**options, "terminal": sys.stdin.isatty(), "line": None, "json": False, "debug": False}, (shell,)
    )


def report_error(error: CorralError, *, as_json: bool, about_command: bool = True) -> int:
    """Say what went wrong, in three lines or as JSON; returns the exit status."""
    if as_json:
        fields = {name: getattr(error, name) for name in ("code", "what", "why", "fix", "ran")}
        if len(error.reasons) > 1:
            fields["reasons"] = list(error.reasons)
        problems = getattr(error, "problems", ())
        if problems:
            fields["problems"] = [problem.to_json() for problem in problems]
        print_json({"v": 1, "error": fields, "exit_status": error.exit_status})
    else:
        # No part of it has a line feed of its own.
        first, *others = error.render(about_command=about_command).split("\n")
        say(first)
        sys.stderr.writelines(f"{printable(line)}\n" for line in others)
    return error.exit_status


class EventLines:
    """Says what corral refuses at the moment when it does, in a line each."""

    def __init__(self) -> None:
        self.told: set[Event] = set()
        self.end = "\n"  # of a line
        self.ran: tuple[Plan, Launch] | None = None  # what was run
        self.has_ended: Callable[[], bool] = lambda: True  # the command

    def __call__(self, event: Event) -> None:
        # What is about the command itself comes after the line that says how it ended; guesses that are made
        # at its end are said if it has failed.
        is_late = event.evidence is Evidence.INFERRED and self.has_ended()
        if not is_late and event.subject != THE_COMMAND and len(self.told) < _MOST_LINES:
            self.told.add(event)
            say(event.describe(), end=self.end)


def _carry_out(
    request: Request, options: Mapping[str, Any], lines: EventLines, tried_commands: list[TriedCommand]
) -> Result:
    stdio = StdioMode.INHERIT
    if options["json"]:
        stdio = StdioMode.CAPTURE
    elif options["terminal"] or (options["stats"] and all(map(os.isatty, (0, 1)))):
        stdio = StdioMode.TERMINAL  # with --stats, so that a line of ours does not come between the command's
    prepared = request.sandbox.read_command(request.command, stdin=None, stdio=stdio)
    if not prepared.argv:
        raise PolicyError(
            "empty-command",
            "there is no command to run",
            why="nothing follows the options",
            fix="write `corral run -- COMMAND`, or `corral run -c 'SHELL LINE'`",
        )
    if options["debug"]:
        from corral.cli.debug import refuse_together, run_debugged

        refuse_together(options)
        return run_debugged(request.sandbox, prepared, lines)
    if options["trace"]:
        prepared = prepared.replace(traces=True)
    if not options["trial"]:
        return _run_planned(request, prepared, options, lines)
    from corral.cli.trial.tried import TriedCommand
    from corral.trials.record import layer_size

    size = layer_size(options["trial_size"], options["trial_files"])
    tried_command = TriedCommand(request.sandbox, prepared, size)
    try:
        with tried_command.trial.hold():
            result = _run_planned(request, tried_command.command, options, lines)
    except CorralError as problem:
        if not problem.ran:
            tried_command.forget()
        raise
    tried_commands.append(tried_command)
    return result


def _run_planned(
    request: Request, prepared: Command, options: Mapping[str, Any], lines: EventLines
) -> Result:
    seen = NotedRun(request, prepared, options)
    try:
        sandbox = request.sandbox.hearing(seen.note_network)
        planned = seen.planned = sandbox.prepare(prepared, monitor=_monitor() if options["stats"] else None)
        if planned.refusal is not None:
            _warn_of_fallback(request, planned.refusal)
        elif planned.unheld and not request.sandbox.is_unconfined and not options["json"]:
            _tell_once(planned.unheld)
        lines.ran = planned.planned
        pass_signals_on(planned)
        if prepared.stdio is StdioMode.TERMINAL and os.isatty(0):
            lines.end = "\r\n"  # the caller's terminal is raw meanwhile
        lines.has_ended = lambda: planned.has_ended
        seen.lines = None if options["json"] else lines
        planned.listen(seen.note_event, seen.note_started)
        if planned.starts_slowly:
            seen.begin()
        result = planned.run(say)
        seen.end(result)
        return result
    finally:
        seen.close()


def pass_signals_on(run: PlannedRun | ContinuedRun) -> None:
    """From now on the command gets what we are sent."""
    for name in passed_on():
        signal.signal(getattr(signal, name), lambda number, _frame: _pass_on(run, number))
    signal.signal(signal.SIGTSTP, lambda *_: stop_and_go(run.send))


def _pass_on(planned: PlannedRun | ContinuedRun, number: int) -> None:
    planned.send(number)
    if planned.is_checking and number in {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}:
        say("the command has ended; corral checks what it left, and ends when that is done")


def passed_on() -> tuple[str, ...]:
    """The signals to forward. One that corral was started to ignore, as under nohup, is not forwarded."""
    return tuple(name for name in _PASSED_ON if signal.getsignal(getattr(signal, name)) != signal.SIG_IGN)


def _monitor() -> Monitor:
    from corral.cli.stats import EVERY_SECONDS, describe_sample
    from corral.runtime.monitor import Monitor

    return Monitor(describe_sample, EVERY_SECONDS)


def stop_and_go(send: Any) -> None:
    """Ctrl-Z: the command stops, then corral; the shell's `fg` lets both go on."""
    send(signal.SIGTSTP)
    os.kill(os.getpid(), signal.SIGSTOP)
    send(signal.SIGCONT)


def announce(request: Request, *, verbose: bool, as_json: bool) -> None:
    """Before the command has a say: that nothing confines it; what a project's file asked for in vain."""
    if request.sandbox.is_unconfined and (verbose or not as_json):
        say(f"the command runs without a sandbox: {_unconfined_because(request)}{_dropped(request)}")
    if verbose or not as_json:
        _warn_of_owner(request.sandbox.workspace)
    cuts = request.configuration.cuts if request.configuration is not None else ()
    if verbose:
        for cut in cuts:
            say(cut.render())
    elif cuts and not as_json:
        from corral.config.setting import shorten

        files = ", ".join(dict.fromkeys(shorten(cut.setting.origin.name) for cut in cuts))
        count, they = ("1 setting", "it") if len(cuts) == 1 else (f"{len(cuts)} settings", "they")
        say(f"{count} of {files} ignored: {they} would widen your policy (-v shows which)")


def _warn_of_owner(workspace: str) -> None:
    """Whoever owns the workspace may have put things there for others; root need not."""
    try:
        owner = os.stat(workspace).st_uid
    except OSError:
        return  # whoever plans the run says what is wrong with it
    if owner not in {0, os.geteuid()}:
        say(f"warning: {workspace} belongs to another user ({owner}), who decides what is in it")


def _warn_of_fallback(request: Request, refusal: UnenforceableError) -> None:
    """Whatever else is asked for: nobody is to find out by accident that nothing confined a command."""
    configuration = request.configuration
    place = f", {configuration.origin_of('fallback')}" if configuration is not None else ""
    say(f"WARNING: the command runs WITHOUT A SANDBOX: fallback = unconfined{place}{_dropped(request)}")
    for reason in refusal.reasons:
        say(f"  {reason}")


def _tell_once(unheld: tuple[tuple[Feature, str], ...]) -> None:
    """That a default is not held here; it is in the record of every run, and need not be said before each."""
    from corral.host.state import read_state, write_state

    texts = ", ".join(f"{feature.value} ({value})" for feature, value in unheld)
    line = f"this host cannot hold the default of {texts}; `corral doctor` says what would (shown once)"
    known = read_state("told", 4096).decode("utf-8", "replace").splitlines()
    if line not in known:
        say(line)
        with contextlib.suppress(OSError):  # then it is said again
            write_state("told", "\n".join([*known, line][-16:]).encode())


def _dropped(request: Request) -> str:
    """The limits that were asked for and that nobody keeps, in words."""
    from corral.cli.limits import list_dropped

    limits = ", ".join(list_dropped(request.sandbox.policy.limits))
    return f"; not limited without one: {limits}" if limits else ""


def _configuration_json(request: Request) -> dict[str, Any] | None:
    from corral.cli.policy.effective import summary_json

    if request.configuration is None:
        return None
    unconfined = _unconfined_because(request) if request.sandbox.is_unconfined else None
    return {**summary_json(request.configuration), "unconfined": unconfined}


def _unconfined_because(request: Request) -> str:
    configuration = request.configuration
    if request.bypass is not None:
        return f"{request.bypass.value} is among bypass_tools, {request.bypass.origin}"
    if configuration is None:
        return "as asked"
    enabled, _ = configuration.compiled.confinement()
    if enabled is not None and not enabled.value:
        return f"enabled = false, {enabled.origin}"
    return f"backend = none, {configuration.origin_of('backend')}"


def describe_result(
    result: Result, *, verbose: bool, told: Collection[Event] = (), warns: bool = False
) -> Iterator[str]:
    """What there is to say about a run besides its status and what was `told` already, a line each.

    `warns`: guesses too, if the command has succeeded, and how many things were refused.
    """
    if result.outcome in _LIMITS_SAID:
        what = "failed" if result.exit_code is not None else "was stopped"
        yield f"the command {what}: {_LIMITS_SAID[result.outcome]} ({result.outcome.value})"
    yield from result.notes
    for event in result.events:
        if event.replace(count=1) in told:
            if event.count > 1:
                yield f"{event.feature.value}: {shown(event.subject)}: {event.count} times in all"
        elif verbose or warns or event.evidence is Evidence.OBSERVED or not result.ok:
            yield event.describe()
    refused = [event for event in result.events if event.kind in {EventKind.REFUSED, EventKind.TAKEN}]
    if warns and refused:
        guessed = sum(event.evidence is Evidence.INFERRED for event in refused)
        perhaps = f", {guessed} of them a guess" if guessed else ""
        yield f"warning: {len(refused)} different things were refused{perhaps}; the command went on"
    if result.network is not None:
        yield from _describe_network(result, result.network)
    if verbose and result.handoff:
        yield f"changed, and run by the host later: {', '.join(result.handoff)}"
    if verbose:
        yield from _describe_enforcement(result)


def _describe_network(result: Result, traffic: Traffic) -> Iterator[str]:
    """What stood in the way and was not the policy."""
    from corral.model.network.traffic import SENTENCES, NetReason  # most runs have no network

    for event in traffic.refusals:
        if event.reason is NetReason.TOO_MANY and event.port:
            yield f"network: {event.host}:{event.port}: {SENTENCES[event.reason]}: {event.detail}"
    is_unused = traffic == type(traffic)()
    if is_unused and not result.ok and result.enforcement.backend == "landlock":
        yield f"network: {_WITHOUT_PROXY}"


def _describe_enforcement(result: Result) -> Iterator[str]:
    enforcement = result.enforcement
    yield f"{result.describe()} after {result.duration_seconds:.3f} s, run {result.run_id}"
    yield f"profile {result.policy.name}, backend {enforcement.backend}"
    for feature, how in sorted(enforcement.enforced.items(), key=lambda pair: pair[0].value):
        yield f"  {feature.value:<16} {how}"
    for feature in sorted(enforcement.waived, key=lambda feature: feature.value):
        yield f"  {feature.value:<16} WAIVED"
    for feature, value in enforcement.unheld:
        yield f"  {feature.value:<16} NOT HELD: a default of {value}"


def print_json(value: Mapping[str, Any]) -> None:
    """The one answer on stdout."""
    import json

    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def say(text: str, end: str = "\n") -> None:
    """A line of corral's own, beside what the command prints."""
    sys.stderr.write(f"corral: {printable(text)}{end}")
    sys.stderr.flush()
