"""A terminal of the caller, to see whether a confined command can get at it."""

from __future__ import annotations

import fcntl
import os
import pickle
import select
import struct
import termios

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Value = TypeVar("Value")


_MARK = b"\1mark\2"


class Terminal:
    """Both ends of the pseudo-terminal that controls this session, without echo or editing."""

    def __init__(self) -> None:
        self._master, self.slave = os.openpty()
        modes = termios.tcgetattr(self.slave)
        modes[3] &= ~(termios.ICANON | termios.ECHO)
        termios.tcsetattr(self.slave, termios.TCSANOW, modes)
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)

    def typed(self) -> int:
        """Number of characters that wait to be read as if the user had typed them."""
        return int(struct.unpack("i", fcntl.ioctl(self.slave, termios.FIONREAD, b"\0" * 4))[0])

    def forget_typed(self) -> None:
        termios.tcflush(self.slave, termios.TCIFLUSH)

    def shown(self) -> bytes:
        """What was written to the screen since the last time.

        The kernel carries it over in its own time, but in order: all that came before our mark has come.
        """
        os.write(self.slave, _MARK)
        seen = b""
        while not seen.endswith(_MARK):
            if not select.select([self._master], [], [], 10)[0]:
                raise RuntimeError("the terminal does not show what is written to it")
            seen += os.read(self._master, 4096)
        return seen.removesuffix(_MARK)


def in_a_terminal(function: Callable[[Terminal], Value]) -> Value:
    """Call a function in a child that has a terminal of its own; its value or exception comes back."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        _call(function, theirs)
    os.close(theirs)
    with open(ours, "rb") as answer:
        raw = answer.read()
    os.waitpid(pid, 0)
    value, problem = pickle.loads(raw)
    if problem is not None:
        raise problem
    return value  # type: ignore[no-any-return]


def _call(function: Callable[[Terminal], Value], answer: int) -> None:
    """In the child; never returns into the test."""
    try:
        os.setsid()
        terminal = Terminal()
        os.dup2(terminal.slave, 0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        outcome = pickle.dumps((function(terminal), None))
    except BaseException as problem:
        outcome = pickle.dumps((None, RuntimeError(f"{type(problem).__name__}: {problem}")))
    os.write(answer, outcome)
    os._exit(0)
