"""On a terminal: colours, window size, job keys and full-screen programs behave as without corral."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

PATIENCE_SECONDS = 20


class Terminal:
    """A person at a terminal of 100 columns and 30 lines, who types and reads."""

    def __init__(self, project: Path, *arguments: str) -> None:
        self._seen = b""
        self._pid, self._screen = pty.fork()
        if self._pid == 0:
            os.chdir(project)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
            os.environ.update(TERM="xterm", SHELL="/bin/sh", PS1="prompt> ")
            os.execv(sys.executable, [sys.executable, "-m", "corral", *arguments])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._screen)

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self._screen, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read_until(self, words: str) -> str:
        """Everything up to and including some words; fails if they do not come."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while words.encode() not in self._seen:
            ready, _, _ = select.select([self._screen], [], [], deadline - time.monotonic())
            assert ready, f"{words!r} did not come after {self._seen!r}"
            self._seen += os.read(self._screen, 4096)
        before, _, self._seen = self._seen.partition(words.encode())
        return before.decode() + words

    def status(self) -> int:
        """The exit status, after reading what is left."""
        while True:
            try:
                if not os.read(self._screen, 4096):
                    break
            except OSError:  # EIO: nobody holds the other end
                break
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def test_a_command_has_the_callers_terminal(project: Path, home: Path) -> None:
    line = "test -t 0 && test -t 1 && echo on-a-terminal; stty size; tty; echo > /dev/stderr; exit 3"
    with Terminal(project, "run", "-c", line) as terminal:
        terminal.read_until("on-a-terminal")
        terminal.read_until("30 100")
        terminal.read_until("/dev/console")
        assert terminal.status() == 3


def test_the_interrupt_key_ends_the_command(project: Path, home: Path) -> None:
    # exec: a shell that is about to fork would take the signal for itself, and wait on.
    with Terminal(project, "run", "-c", "echo ready; exec sleep 300") as terminal:
        terminal.read_until("ready")
        terminal.type("\x03")
        assert terminal.status() == 128 + 2


def test_a_shell_has_job_control_and_a_terminal_of_its_own(project: Path, home: Path) -> None:
    with Terminal(project, "shell") as terminal:
        terminal.type("tty; stty size\n")
        terminal.read_until("30 100")
        terminal.type("sh -c 'echo asleep-$((0 + 1)); exec sleep 300'\n")
        terminal.read_until("asleep-1")
        terminal.type("\x03")
        terminal.read_until("^C")  # the key also discards what was typed before it was seen
        terminal.type("echo still-$((1 + 1))here\n")
        terminal.read_until("still-2here")
        terminal.type("echo t > /dev/tty && echo tty-$((2 + 2))ok\n")
        terminal.read_until("tty-4ok")
        terminal.type("exit 5\n")
        assert terminal.status() == 5


def test_a_new_window_size_reaches_the_command(project: Path, home: Path) -> None:
    for options in (["-t"], []):
        line = "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done"
        with Terminal(project, "run", *options, "-c", line) as terminal:
            terminal.read_until("ready")
            terminal.resize(40, 120)
            terminal.read_until("40 120")
            assert terminal.status() == 0


def test_input_that_is_no_terminal_ends_a_command_on_one(project: Path, home: Path) -> None:
    """An unfinished line, and more than either side can hold at once."""
    program = f"{sys.executable} -m corral run -t --"
    unfinished = f"printf abc | {program} cat"
    networked = (
        f"head -c 300000 /dev/zero | tr '\\0' a | "
        f"{program} sh -c 'stty raw -echo; head -c 1000000 /dev/zero | tr \"\\0\" b'"
    )
    for line, least in ((unfinished, 3), (networked, 1_000_000)):
        done = subprocess.run(["sh", "-c", line], cwd=project, capture_output=True, timeout=60, check=False)

        assert done.returncode == 0, done.stderr
        assert len(done.stdout) >= least


def test_the_callers_terminal_is_as_it_was_afterwards(project: Path, home: Path) -> None:
    """A shell around corral: the terminal is raw while corral relays, and must be restored."""
    line = f"stty -g; {sys.executable} -m corral run -t -- true; stty -g; echo end"
    pid, screen = pty.fork()
    if pid == 0:
        os.chdir(project)
        os.execv("/bin/sh", ["/bin/sh", "-c", line])
    seen = b""
    while b"end" not in seen:
        seen += os.read(screen, 4096)
    os.waitpid(pid, 0)
    os.close(screen)

    states = [line for line in seen.decode().splitlines() if line.count(":") > 10]
    assert len(states) == 2
    assert states[0] == states[1]


def test_a_shell_opens_in_the_sandbox_of_what_failed(project: Path, home: Path) -> None:
    with Terminal(project, "run", "--debug", "-c", "echo left > /tmp/there; exit 3") as terminal:
        terminal.read_until("this is a shell in it")
        terminal.type("cat /tmp/there | tr a-z A-Z; cat ~/.ssh/id_ed25519 || echo hid''den\n")
        terminal.read_until("LEFT")
        terminal.read_until("hidden")
        terminal.type("exit 4\n")
        assert terminal.status() == 3


def test_what_succeeds_is_not_debugged(project: Path, home: Path) -> None:
    with Terminal(project, "run", "--debug", "--", "true") as terminal:
        assert terminal.status() == 0


def test_without_a_terminal_there_is_nothing_to_debug_at(project: Path, home: Path) -> None:
    words = [sys.executable, "-m", "corral", "run", "--debug", "--", "touch", "made"]

    done = subprocess.run(words, cwd=project, capture_output=True, text=True, check=False)

    assert done.returncode == 2 and "needs a terminal" in done.stderr
    assert not (project / "made").exists()
