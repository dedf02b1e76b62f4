"""`corral session shell` and `exec -t`: a terminal of the command's own, relayed by the client."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

from support.named_sessions import PATIENCE_SECONDS, Person


class Screen:
    """Somebody at a terminal of 100 columns and 30 lines."""

    def __init__(self, person: Person, *arguments: str) -> None:
        self._seen = b""
        argv = person.argv("-m", "corral", *arguments)
        self.pid, self._screen = pty.fork()
        if self.pid == 0:
            os.chdir(person.project)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
            os.execvpe(argv[0], argv, {**person.environment, "TERM": "xterm", "PS1": "prompt> "})

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self._screen, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read_until(self, words: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while words.encode() not in self._seen:
            ready, _, _ = select.select([self._screen], [], [], deadline - time.monotonic())
            assert ready, f"{words!r} did not come after {self._seen!r}"
            self._seen += os.read(self._screen, 4096)
        self._seen = self._seen.partition(words.encode())[2]

    def status(self) -> int:
        while True:
            try:
                self._seen += os.read(self._screen, 4096)
            except OSError:
                break
        os.close(self._screen)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    @property
    def seen(self) -> bytes:
        return self._seen


def test_a_shell_has_a_terminal_its_size_and_its_keys(person: Person) -> None:
    person.start()
    screen = Screen(person, "session", "shell", "s")

    screen.type("stty size; test -t 0 && test -t 1 && echo terminal-''yes\r")
    screen.read_until("30 100")
    screen.read_until("terminal-yes")
    screen.resize(40, 120)
    screen.type("stty size\r")
    screen.read_until("40 120")
    screen.type("echo kept > /tmp/mark; echo now-''cat; cat\r")
    screen.read_until("now-cat")
    screen.type("cat-has-this\r")
    screen.read_until("cat-has-this\r\ncat-has-this")
    screen.type("\x03")  # Ctrl-C ends cat, and not the shell, which prompts again
    screen.read_until("^C")
    screen.read_until(" ")
    screen.type("exit 5\r")

    assert screen.status() == 5
    assert person.corral("session", "exec", "s", "--", "cat", "/tmp/mark").stdout == b"kept\n"


def test_ctrl_c_ends_a_command_without_a_terminal_of_its_own(person: Person) -> None:
    person.start()
    # exec: a shell that is about to fork may miss an interrupt, with and without corral
    screen = Screen(person, "session", "exec", "s", "-c", "echo ready; exec sleep 1000")
    screen.read_until("ready")

    screen.type("\x03")

    assert screen.status() == 128 + signal.SIGINT


def test_the_output_limit_holds_on_a_terminal(person: Person) -> None:
    person.start("s", "--output-limit", "20k")
    screen = Screen(person, "session", "exec", "-t", "s", "--", "yes")

    status = screen.status()

    assert status == 137
    assert screen.seen.count(b"y\r\n") <= 20 * 1024 // 3 + 1
    assert b"output-limit" in screen.seen


def test_a_terminal_that_goes_away_ends_the_command(person: Person) -> None:
    person.start()
    screen = Screen(person, "session", "exec", "-t", "s", "-c", "echo ready; sleep 1000")
    screen.read_until("ready")

    os.kill(screen.pid, signal.SIGKILL)

    screen.status()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while person.facts()["running"]:
        assert time.monotonic() < deadline
