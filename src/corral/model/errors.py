"""Errors, one class for each person who must act.

    CorralError                who must act                            exit status
    ├── PolicyError            the author of the policy or command     2
    │   ├── CapabilitySyntaxError  (carries text and column)           2
    │   └── ConfigurationError     (carries every mistake)             2
    ├── UnenforceableError     the operator: this host cannot do it    3
    ├── SetupError             the operator: the command did NOT run   125 (126, 127: no such program)
    ├── SessionClosed          the caller, who has closed it           125
    ├── CommandFailed          the caller, who asked with check()      the command's own
    ├── RemoteError            the author of a function that raised    1
    ├── CallError              the caller: a function has no result    1
    │   └── ModuleTrap             (carries the backtrace)             1
    └── BugError               us; the command did NOT run             70

Every error says what could not be done, why, how to fix it, and whether the command ran.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.feature import Feature
    from corral.model.problem import Problem
    from corral.model.result import Result


class CorralError(Exception):
    """Corral could not do its job."""

    exit_status = 1
    #: Whether there was a command to run or not to run.
    is_about_command = True
    #: Whether whoever reads the errors of this process is at the command line; if not, it is a program.
    speaks_of_flags = False

    def __init__(self, code: str, what: str, *, why: str, fix: str, ran: bool = False) -> None:
        super().__init__(what)
        self.code = code
        self.what = what
        self.why = self._spoken(why)
        self.fix = self._spoken(fix)
        self.ran = ran

    def _spoken(self, text: str) -> str:
        if self.speaks_of_flags or "-" not in text:
            return text
        try:
            from corral.model.spoken import in_python
        except OSError:  # no more files can be opened: that may be the very error
            return text
        return in_python(text)

    def render(self, *, about_command: bool = True) -> str:
        """Three lines for a person: what (and whether the command ran, if there is one), because, fix."""
        ran = "the command ran: " if self.ran else "the command did not run: "
        what, fix = _one_line(self.what), _one_line(self.fix)
        why = "\n           ".join(map(_one_line, self.reasons))
        return f"{ran if about_command else ''}{what}\n  because: {why}\n  fix: {fix}"

    @property
    def reasons(self) -> tuple[str, ...]:
        """The parts of `why` that have a line each."""
        return (self.why,)

    def __str__(self) -> str:
        return self.render(about_command=self.is_about_command)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), dict(self.__dict__), self.what)


def _one_line(text: str) -> str:
    # A name with a line feed in it must not pass for a line of ours.
    return text.replace("\n", "\\n")


def _rebuild(cls: type[CorralError], state: dict[str, object], what: str) -> CorralError:
    error = cls.__new__(cls)
    Exception.__init__(error, what)
    error.__dict__.update(state)
    return error


class UnconfinedWarning(UserWarning):
    """A command runs without any sandbox, because none can enforce the policy and `fallback` permits that."""


class PolicyError(CorralError):
    """The policy, or the command given with it, is not valid."""

    exit_status = 2


class CapabilitySyntaxError(PolicyError):
    """A capability could not be parsed; `column` counts from 1."""

    def __init__(self, text: str, column: int, *, why: str, fix: str) -> None:
        super().__init__(
            "capability-syntax", f"{text!r} is not a capability (column {column})", why=why, fix=fix
        )
        self.text = text
        self.column = column


class ConfigurationError(PolicyError):
    """A file or a variable has mistakes; `problems` lists all of them, with their lines."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        places = sorted({problem.file for problem in problems})
        count = "1 mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
        first = problems[0]
        super().__init__(
            "configuration",
            f"{count} in {', '.join(places)}",
            why=f"line {first.line}, column {first.column}: {first.what}" if first.line else first.what,
            fix=first.fix,
        )
        self.problems = problems

    def render(self, *, about_command: bool = True) -> str:
        """The first line of every error, then each mistake with its place and its fix."""
        text = super().render(about_command=about_command)
        if len(self.problems) == 1:
            return text
        first = text.splitlines()[0]
        return "\n".join([first, *(f"  {problem.render()}" for problem in self.problems)])


class UnenforceableError(CorralError):
    """No permitted backend on this host can enforce the whole policy.

    `lacking` names what a backend cannot do for this very plan, though its probe claims it; `reasons`
    has one for each backend that was tried.
    """

    exit_status = 3

    def __init__(
        self,
        code: str,
        what: str,
        *,
        why: str = "",
        fix: str,
        lacking: frozenset[Feature] = frozenset(),
        reasons: tuple[str, ...] = (),
    ) -> None:
        super().__init__(code, what, why=why or "; ".join(reasons), fix=fix)
        self.lacking = lacking
        self._reasons = tuple(map(self._spoken, reasons))

    @property
    def reasons(self) -> tuple[str, ...]:
        return self._reasons or (self.why,)


class SetupError(CorralError):
    """The sandbox could not be set up, so the command did not run; or, rarely, could not be removed."""

    exit_status = 125

    def __init__(
        self, code: str, what: str, *, why: str, fix: str, exit_status: int = 125, ran: bool = False
    ) -> None:
        super().__init__(code, what, why=why, fix=fix, ran=ran)
        self.exit_status = exit_status


class SessionClosed(CorralError):
    """The session was closed before the command ran."""

    exit_status = 125

    def __init__(self) -> None:
        super().__init__(
            "session-closed",
            "the session accepts no more commands",
            why="it has been closed, or belongs to the process that this one was forked from",
            fix="begin a new one, or run commands inside its `with` block",
        )


class CommandFailed(CorralError):
    """`Result.check()` found that the command did not succeed. The result is attached."""

    def __init__(self, result: Result) -> None:
        super().__init__(
            "command-failed",
            f"the command ended with {result.describe()}",
            why=result.stderr_tail() or "it printed nothing to stderr",
            fix="read `error.result`, or do not call check() if failing is an answer",
            ran=True,
        )
        self.result = result
        self.exit_status = result.exit_status


class RemoteError(CorralError):
    """A function raised in its sandbox. What it raised is here as text: no class that a worker names is used.

    `result` is the run of the worker, with what the function printed in `stderr`.
    """

    def __init__(self, type_name: str, message: str, traceback: str, result: Result | None = None) -> None:
        super().__init__(
            "remote-error",
            f"the function raised {type_name}: {message}" if message else f"the function raised {type_name}",
            why="it ran in a sandbox and ended so; `error.traceback` says where",
            fix="fix the function, or grant what it lacks: `error.result.violations` may name it",
            ran=True,
        )
        self.type_name = type_name
        self.message = message
        self.traceback = traceback
        self.result = result

    def render(self, *, about_command: bool = False) -> str:
        """Three lines. That something ran goes without saying, and it was no command."""
        return super().render(about_command=False)


class CallError(CorralError):
    """A step or a function has no result, or none that can be trusted. `result` is the run, if any."""

    def __init__(
        self,
        code: str,
        what: str,
        *,
        why: str,
        fix: str,
        result: Result | None = None,
        ran: bool = False,
    ) -> None:
        super().__init__(code, what, why=why, fix=fix, ran=ran or result is not None)
        self.result = result


class ModuleTrap(CallError):
    """A function of a WebAssembly module did not return: it trapped, met a limit, or ended the module.

    `backtrace` has the names of the functions that it was in; `limit` the limit, if it was one; `output` what
    the module printed during the call.
    """

    def __init__(
        self,
        code: str,
        what: str,
        *,
        why: str,
        fix: str,
        backtrace: str = "",
        limit: str = "",
        output: bytes = b"",
    ) -> None:
        super().__init__(code, what, why=why, fix=fix, ran=True)
        self.backtrace = backtrace
        self.limit = limit
        self.output = output


class BugError(CorralError):
    """An internal error: corral stopped before running anything."""

    exit_status = 70

    def __init__(self, what: str, *, why: str) -> None:
        super().__init__(
            "bug", what, why=why, fix="please report this, with the output of `corral doctor --json`"
        )


#: What to do about a session that takes no more commands.
RESET = "reset the session (`corral session reset`; in Python `Session.reset`), or begin a new one"


def path_changed(why: str) -> SetupError:
    """Something moved between plan and launch; the caller may plan once more."""
    return SetupError(
        "path-changed",
        "the sandbox could not be set up",
        why=why,
        fix="run the command again; something replaces this path while commands start",
    )
