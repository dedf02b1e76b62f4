"""`corral run --debug`: when the command has failed, its sandbox is still there, with a shell in it."""

from __future__ import annotations

import os
import signal

from corral.cli.run import passed_on, say, stop_and_go
from corral.model.errors import PolicyError
from corral.streams.streams import InheritedStreams, RelayedStreams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from corral.model.event import Listener
    from corral.model.plan import Command
    from corral.model.result import Result
    from corral.runtime.launcher.job import Job
    from corral.sandbox import Sandbox
    from corral.sessions.session import Session


def run_debugged(sandbox: Sandbox, command: Command, listener: Listener) -> Result:
    """Run a command in a kept sandbox; if it fails, open a shell there. Raises CorralError."""
    if not (os.isatty(0) and os.isatty(1)):
        raise PolicyError(
            "debug-terminal",
            "there is no terminal to debug the command on",
            why="a shell needs a terminal, and stdin or stdout is not one",
            fix="type it at a terminal, or leave --debug out",
        )
    with sandbox.session() as session:
        job = session.prepare_on(_streams(session), command.argv, cwd=command.cwd)
        job.listen(listener)
        _pass_signals(job)
        result = session.finish(job)
        if not result.ok:
            _open_shell(session, result)
    return result


def _streams(session: Session) -> InheritedStreams:
    limit, doors = session.output_bytes, session.doors
    if limit is not None or doors.among((0, 1, 2)):
        return RelayedStreams(limit, doors=doors)
    return InheritedStreams()


def _pass_signals(job: Job) -> None:
    for name in passed_on():
        signal.signal(getattr(signal, name), lambda number, _frame: job.send(number))
    signal.signal(signal.SIGTSTP, lambda *_: stop_and_go(job.send))


def _open_shell(session: Session, result: Result) -> None:
    for name in passed_on():  # the shell's terminal is its own, and brings it what is typed
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    say(f"{result.describe()}; its sandbox is still there, and this is a shell in it: `exit` ends both")
    session.shell((os.environ.get("SHELL") or "/bin/sh", "-i"))


def refuse_together(options: Mapping[str, Any]) -> None:
    """What a kept sandbox has not."""
    trial = {"trial": "--try", "trial_size": "--trial-size", "trial_files": "--trial-files"}
    flags = {"trace": "--trace", **trial, "on_refusal": "--on-refusal", "stats": "--stats"}
    for name, flag in {**flags, "json": "--json", "terminal": "--tty"}.items():
        if options[name]:
            raise PolicyError(
                "contradiction",
                f"--debug and {flag} do not go together",
                why="a debugged command runs in a kept sandbox, on your own terminal",
                fix="leave one of them out",
            )
