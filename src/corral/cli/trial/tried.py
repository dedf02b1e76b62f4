"""`corral try`: a run on a layer over the workspace, and the question what becomes of it."""

from __future__ import annotations

import os
import shlex
import signal
import sys

from corral.cli.run import report_error, say
from corral.cli.trial.show import MOST_LINES, describe_change, describe_changes, describe_room, summarize
from corral.model.errors import CorralError
from corral.model.printable import printable
from corral.sessions.trial import begin_trial
from corral.trials.change import Reserve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from corral.model.plan import Command
    from corral.sandbox import Sandbox
    from corral.sessions.trial import Trial
    from corral.trials.apply import Applied
    from corral.trials.change import TrialChange
    from corral.trials.record import LayerSize

_MOST_COMMAND = 80
_QUESTION = "corral: [a]pply, [c]hoose, [d]iff, [k]eep for later or [x] discard? "


class TriedCommand:
    """One command on trial, at the command line."""

    def __init__(self, sandbox: Sandbox, command: Command, size: LayerSize | None = None) -> None:
        words = shlex.join(command.argv)
        self.trial: Trial = begin_trial(sandbox, words[:_MOST_COMMAND], size)
        self.command = command.replace(trial=self.trial.record.mounted)
        for path in self.trial.record.direct:
            say(f"not on trial: {path} is written directly, as the policy permits")

    def forget(self) -> None:
        """The command did not run."""
        self.trial.discard()

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.trial.id,
            "root": self.trial.record.root,
            "changes": [change.to_json() for change in self.trial.changes()],
            "git": [each.to_json() for each in self.trial.git_changes()],
        }

    def finish(self, *, asks: bool) -> int:
        """Say what the command changed, and ask what becomes of it if somebody is there to answer."""
        changes, git = self.trial.changes(), self.trial.git_changes()
        if self.trial.record.is_full:
            say(f"the trial is full: {describe_room(self.trial.record)}; run it again with more for the rest")
        if not changes and not git:
            self.trial.discard()
            say("the command changed nothing in the workspace")
            return 0
        identity = self.trial.id
        say(f"trial {identity}: {summarize(changes, git)}; the workspace is as it was")
        for line in describe_changes(changes, MOST_LINES, git):
            sys.stderr.write(f"  {line}\n")
        if asks and os.isatty(0) and os.isatty(2):
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # there is no command any more to pass it on to
            return self._ask(changes)
        say(f"see `corral diff {identity}`, then `corral apply {identity}` or `corral discard {identity}`")
        return 0

    def _ask(self, changes: Sequence[TrialChange]) -> int:
        while True:
            answer = _read_answer(_QUESTION)
            if answer in {"a", "apply"}:
                return self._apply(())
            if answer in {"c", "choose"}:
                return self._choose(changes)
            if answer in {"d", "diff"}:
                from corral.cli.trial.diff import print_diff

                print_diff(self.trial.record, changes, stat=False)
            if answer in {"x", "discard"}:
                self.trial.discard()
                say("discarded; the workspace is as it was")
                return 0
            if answer in {"k", "keep", ""}:
                say(f"kept; see `corral apply {self.trial.id}` and `corral discard {self.trial.id}`")
                return 0
            if answer not in {"d", "diff"}:
                say("type a, c, d, k or x; Enter keeps it")

    def _choose(self, changes: Sequence[TrialChange]) -> int:
        from corral.cli.trial.show import worth_listing

        chosen: list[str] = []
        for change in worth_listing(changes):
            if change.reserve is Reserve.NONE:
                is_chosen = _agrees(f"corral: {describe_change(change)}  apply [y/N]? ")
                chosen += [change.path] if is_chosen else []
        for each in self.trial.git_changes():
            if any(each.parts()):
                for line in each.lines():
                    sys.stderr.write(f"  {printable(line)}\n")
                is_chosen = _agrees(f"corral: bring this over into {printable(each.repository)} [y/N]? ")
                chosen += [each.repository] if is_chosen else []
        if not chosen:
            say(f"nothing chosen; kept as {self.trial.id}")
            return 0
        return self._apply(chosen)

    def _apply(self, paths: Sequence[str]) -> int:
        try:
            applied = self.trial.apply(paths)
        except CorralError as problem:
            say(f"kept as {self.trial.id}")
            return report_error(problem, as_json=False, about_command=False)
        tell_applied(applied, self.trial.id)
        return 0


def tell_applied(applied: Applied, identity: str) -> None:
    """What an apply did, and what it left."""
    if applied.resumed:
        say(f"an apply that was stopped is finished: {applied.resumed} steps")
    say(f"applied: {summarize(applied.changes, applied.git)}; `corral undo {identity}` takes it back")
    for path in applied.left:
        say(f"left as it is on the host: {printable(path)}")
    protected = [change for change in applied.reserved if change.reserve is Reserve.PROTECTED]
    others = len(applied.reserved) - len(protected)
    for change in protected:
        sys.stderr.write(f"  not applied: {describe_change(change)}\n")
    for each in applied.git_left:
        for line in each.lines_left():
            sys.stderr.write(f"  not applied: {line}\n")
    if others:
        stay = "1 other change stays" if others == 1 else f"{others} other changes stay"
        say(f"{stay} in the trial: files of git directories, or no files at all")


def _agrees(question: str) -> bool:
    while (answer := _read_answer(question)) not in {"y", "yes", "n", "no", ""}:
        say("type y or n; Enter leaves it in the trial")
    return answer in {"y", "yes"}


def _read_answer(question: str) -> str:
    sys.stderr.write(question)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        sys.stderr.write("\n")
    return line.strip().lower()
