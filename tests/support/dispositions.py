"""Default signals for the tests, even if they were started with some ignored or blocked.

What a caller ignores or blocks is inherited, by corral and by every command of a test: nohup ignores SIGHUP,
a shell without job control SIGINT and SIGQUIT for what it puts into the background, and a supervisor of
services may hold back any.
"""

from __future__ import annotations

import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

#: Ignored by Python itself, which puts them back for what `subprocess` starts.
OF_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}


def put_back_signals() -> None:
    """None is blocked, and none is ignored by what is started from now on."""
    for number in signal.valid_signals() - OF_PYTHON:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _instead(number))
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _instead(number: int) -> signal.Handlers | object:
    if number == signal.SIGINT:
        return signal.default_int_handler
    if number == signal.SIGHUP:  # the tests outlive the terminal, as was asked for; a handler ends at execve
        return _go_on
    return signal.SIG_DFL


def _go_on(_number: int, _frame: FrameType | None) -> None:
    """Nothing is done."""
