"""Starts the tools that make images (mmdebstrap, docker, podman), and ends them when corral is interrupted.

These are corral's own tools, which do what corral says. A user's command is never started here.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import contextmanager, suppress

from corral.model.errors import SetupError
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: mmdebstrap takes its files away before it ends, which takes as long as removing a file system.
_PATIENCE_SECONDS = 15
_KEPT_LINES = 40


class Ended(Record):
    """How a tool ended."""

    status: int
    output: str
    words: tuple[str, ...]  # the last lines that it wrote to stderr

    def complaint(self, lines: int = 4) -> str:
        """The end of what it said, on one line; only the errors, where it marks them (`E: ...`)."""
        said = [line.strip() for line in self.words if line.strip()]
        marked = [line for line in said if line.startswith(("E: ", "Error", "error"))]
        return "; ".join((marked or said)[-lines:]) or f"it ended with status {self.status} and said nothing"


class Interrupted(KeyboardInterrupt):
    """A signal asks corral to end; whoever passes this on has removed what it made."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class _Start:
    """While a tool is being started a signal waits: the process would be there, and nobody would know it."""

    is_under_way = False
    interrupted_by = 0


@contextmanager
def interruptible() -> Iterator[None]:
    """The first signal that asks to end raises Interrupted. Further ones do not disturb the clearing away."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        for other in handled:
            signal.signal(other, signal.SIG_IGN)
        if _Start.is_under_way:
            _Start.interrupted_by = number
        else:
            raise Interrupted(number)

    _Start.interrupted_by = 0
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    handled = [number for number in _SIGNALS if before[number] != signal.SIG_IGN]
    try:
        for number in handled:
            signal.signal(number, interrupt)
        yield
    finally:
        for number in handled:
            signal.signal(number, before[number])


def run_tool(
    command: Sequence[str],
    *,
    stdin: str = "",
    environment: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
    patience_seconds: float | None = None,
    inherited: int = -1,
) -> Ended:
    """Run a tool to its end, or of one's patience. Raises SetupError if it cannot be started, Interrupted
    when it has been ended because corral was asked to end.

    `on_line` gets each line that it writes to stderr, as it comes; then its stdout is not kept. It and its
    children hold the descriptor `inherited` as long as they live.
    """
    _Start.is_under_way = True
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if on_line is None else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=dict(environment) if environment is not None else None,
            text=True,
            errors="replace",
            pass_fds=(inherited,) if inherited >= 0 else (),
            start_new_session=True,  # a terminal's Ctrl-C reaches corral alone, which ends it in order
        )
    except OSError as problem:
        _raise_what_waited()
        raise SetupError(
            "image-tool-start",
            f"{command[0]} cannot be started",
            why=problem.strerror or str(problem),
            fix="see that it is a program that you may execute",
        ) from problem
    finally:
        _Start.is_under_way = False
    try:
        _raise_what_waited()
        if on_line is None:
            output, errors = process.communicate(stdin, patience_seconds)
            return Ended(process.returncode, output, tuple(errors.splitlines()[-_KEPT_LINES:]))
        return _follow(process, stdin, on_line)
    except subprocess.TimeoutExpired:
        return Ended(-signal.SIGKILL, "", (f"it does not answer within {patience_seconds:g} seconds",))
    finally:
        if process.poll() is None:
            _end(process)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


def _raise_what_waited() -> None:
    number, _Start.interrupted_by = _Start.interrupted_by, 0
    if number:
        raise Interrupted(number)


def _follow(process: subprocess.Popen[str], stdin: str, on_line: Callable[[str], None]) -> Ended:
    assert process.stdin is not None and process.stderr is not None
    with suppress(BrokenPipeError):  # if it does not want to know, it will say why
        process.stdin.write(stdin)  # shorter than a pipe takes, so this waits for nobody
        process.stdin.close()
    words: list[str] = []
    for line in process.stderr:
        words = [*words[1 - _KEPT_LINES :], line.rstrip("\n")]
        on_line(words[-1])
    return Ended(process.wait(), "", tuple(words))


def _end(process: subprocess.Popen[str]) -> None:
    """Ask the tool and all of its children to end; make them, if they do not."""
    if process.stdin is not None:
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.stdin = None  # `communicate` expects one that is open, or none
    for number in (signal.SIGTERM, signal.SIGKILL):  # not SIGINT, which apt ignores while dpkg works
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            # Whoever waits for it must also read what it says, or it would wait for its reader.
            process.communicate(timeout=_PATIENCE_SECONDS)
            break
    process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # what it started and did not wait for
