"""The way in: plain `corral run` takes the quick way, everything else goes through click."""

from __future__ import annotations

import errno
import gc
import io
import os
import sys

from corral.model.errors import CorralError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

_OUTPUT_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})


def main() -> NoReturn:
    """Entry point of the `corral` command."""
    if sys.platform == "win32":
        from corral.cli.windows import main as say_where

        sys.exit(say_where(sys.argv[1:]))
    run_quickly(_main)


def main_behind_entry() -> NoReturn:
    """The same, behind the entry program: it hands over what it cannot do, and finds what is stored here."""
    run_quickly(lambda: _main(stores=True))


def run_quickly(program: Callable[[], int]) -> NoReturn:
    """Run a program of corral's, and exit at once; what goes wrong is said in corral's words."""
    try:
        CorralError.speaks_of_flags = True
        _open_closed_streams()
        gc.disable()  # nothing lives long enough to be worth looking for
        _leave(program())
    except KeyboardInterrupt:  # before a command was there to have it
        os._exit(130)
    except BrokenPipeError:
        os._exit(1)
    except Exception as problem:
        os._exit(_report_unexpected(problem))


def _main(*, stores: bool = False) -> NoReturn:
    arguments = sys.argv[1:]
    if stores and arguments[:1] == ["_continue"]:
        from corral.cli.continued import continue_run

        _leave(continue_run(int(arguments[1])))
    if stores and arguments[:1] == ["_answered"]:
        from corral.cli.session.exec import finish_answered

        _leave(finish_answered(int(arguments[1]), arguments[2]))
    if arguments[:1] == ["run"]:
        from corral.cli.options import parse_quickly

        parsed = parse_quickly(arguments[1:])
        if parsed is not None:
            from corral.cli.run import run_request

            _leave(run_request(*parsed, stores=stores))
    if arguments[:1] == ["hook"]:
        _answer_quickly(arguments[1:])
    if arguments[:2] == ["session", "exec"]:
        _execute_quickly(arguments[2:])
    if arguments[:1] == ["status"]:
        _show_line_quickly(arguments[1:])
    from corral.cli.usage import call_commands

    raise SystemExit(call_commands(arguments))


def _answer_quickly(arguments: list[str]) -> None:
    """An agent waits for it before each command."""
    from corral.cli.hook.call import AGENTS, CALLERS

    if len(arguments) == 1 and arguments[0] in AGENTS:
        from corral.cli.hook.respond import respond

        _leave(respond(arguments[0]))
    if len(arguments) == 5 and arguments[0] == "exec" and arguments[1] in CALLERS:
        from corral.cli.hook.execute import execute

        _leave(execute(*arguments[1:]))


def _execute_quickly(arguments: list[str]) -> None:
    from corral.cli.session.options import parse_exec

    line = parse_exec(arguments)
    if line is not None:
        from corral.cli.session.exec import execute

        _leave(execute(line))


def _show_line_quickly(arguments: list[str]) -> None:
    """A prompt asks for it each time."""
    from corral.cli.session.here import parse_line, print_line

    parsed = parse_line(arguments)
    if parsed is not None:
        _leave(print_line(*parsed))


def _report_unexpected(problem: Exception) -> int:
    """A full disk behind stdout is the caller's; everything else is ours."""
    if isinstance(problem, OSError) and problem.errno in _OUTPUT_ERRORS:
        what = f"the output could not be printed\n  because: {problem}"
        fix, status = "free some space, or send the output elsewhere", 1
    else:
        trace = problem.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else "?"
        what = f"internal error in corral\n  because: {type(problem).__name__}: {problem} ({place})"
        fix, status = "please report this, with the output of `corral doctor --json`", 70
    os.write(2, f"corral: {what}\n  fix: {fix}\n".encode("utf-8", "backslashreplace"))
    return status


def _open_closed_streams() -> None:
    """Daemons start programs with closed descriptors; Python then has no streams at all."""
    if None in {sys.stdin, sys.stdout, sys.stderr}:
        from corral.streams.stdio import ensure_stdio

        ensure_stdio()
        sys.stdin = sys.stdin or open(0, closefd=False)
        sys.stdout = sys.stdout or open(1, "w", closefd=False)
        sys.stderr = sys.stderr or open(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a locale without ✔ is no reason to fail


def _leave(status: int) -> NoReturn:
    """Exit at once: taking the interpreter apart takes as long as a sandboxed `true`."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()
