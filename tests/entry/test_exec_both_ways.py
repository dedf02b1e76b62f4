"""`corral session exec` with Python and without: the same in everything, and nobody else is asked."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from support.entry_home import Entry, check_available
from support.keeping import wait_until
from support.named_sessions import ORDINARY
from support.persons import packages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["packages"]

#: A command line, and which way it goes.
REQUESTS = (
    (("--", "true"), "native"),
    (("s", "false"), "native"),
    (("-c", "echo out; echo err >&2; exit 3"), "native"),
    (("-c", "env | sort; pwd; umask; id; cat"), "native"),
    (
        ("--cwd", "/usr", "--env", 'A="\\\n\x01é', "--env", "LANG", "--env", "NONE", "-c", "pwd; env | sort"),
        "native",
    ),
    (("-c", "head -c 300000 /dev/zero | tr '\\0' x"), "native"),
    (("--stateful", "-c", "cd /usr; export B=1"), "native"),
    (("--stateful", "s", "-c", "pwd; echo $B"), "native"),
    (("--timeout", "30s", "--", "printf", "%s\n", "", "a b", "é"), "native"),
    (("--timeout", "1s", "-c", "sleep 9"), "continued"),
    (("-c", "kill -9 $$"), "native"),
    (("--", "no-such-program"), "continued"),
    (("--cwd", "/nowhere", "--", "true"), "continued"),
    (("--env", "=x", "--", "true"), "continued"),
    (("-c", "touch .bashrc; sleep 0.1"), "continued"),
    (("-c", "echo x > /usr/x"), "continued"),
    (("-v", "--", "true"), "python"),
    (("--timeout", "soon", "--", "true"), "python"),
    (("--no-such-flag", "--", "true"), "python"),
    (("other", "--", "true"), "python"),
    (("../s", "--", "true"), "python"),
    (("-c", " "), "python"),
    (("-c", "echo hi", "--", "true"), "python"),
    (("-c", f": {'x' * 33_000}"), "python"),  # it takes more than a packet
)


def _plain(told: Iterable[object]) -> list[str]:
    """Without what is different in each run."""
    return [re.sub(r"\b[0-9a-f]{16}\b|after [\d.]+ s|/\d+-", "N", str(one)) for one in told]


class _Sessions:
    """An entry program, and a session that it can ask."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.place = entry.home / ".local/state/corral/sessions"
        self.record = self.place / "s.session"

    def start(self, *options: str) -> None:
        done = self.entry.call("session", "start", "s", *options)
        assert done[1] == 0, done

    def end(self) -> None:
        self.entry.call_python("session", "stop", "s")

    def exec(self, *words: str, **options) -> tuple[str, int, str, str]:
        return self.entry.call("session", "exec", *words, **options)


@pytest.fixture(scope="module", params=[0, ORDINARY], ids=["root", "ordinary"])
def both(request: pytest.FixtureRequest, packages: Path):
    """One session for many requests that leave nothing behind."""
    check_available()
    top = Path(tempfile.mkdtemp(prefix="corral-entry-"))
    top.chmod(0o755)
    sessions = _Sessions(Entry(top, request.param, packages if request.param else None))
    sessions.start()
    yield sessions
    sessions.end()
    shutil.rmtree(top)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory):
    """A session for tests that leave it as it was."""
    check_available()
    sessions = _Sessions(Entry(tmp_path_factory.mktemp("own")))
    sessions.start()
    assert sessions.exec("s", "true")[:2] == ("native", 0)
    yield sessions
    sessions.end()


@pytest.mark.parametrize(("words", "way"), REQUESTS, ids=[" ".join(words)[:40] for words, _ in REQUESTS])
def test_both_ways_tell_the_same(both: _Sessions, words: tuple[str, ...], way: str) -> None:
    if both.entry.uid and way == "python":
        pytest.skip("what nobody but Python reads is the same for every user")
    if "s" not in words and "other" not in words and "../s" not in words:
        words = ("s", *words)
    went, *told = both.exec(*words)

    assert went == way
    assert _plain(told) == _plain(both.entry.call_python("session", "exec", *words))


def test_the_session_of_a_workspace_is_found_from_below(entry: Entry) -> None:
    below = entry.workspace / "a.b" / "c"
    below.mkdir(parents=True)
    for where in (entry.workspace, below.parent):
        start = f"cd {where} && exec {entry.program} session start"
        name = subprocess.check_output(entry.command("sh", "-c", start), env=entry.environment(), text=True)
        line = f"cd {below} && exec {entry.program} session exec -- pwd"
        went, status, out, errors = entry.call("-c", line, program=("sh",))
        entry.call_python("session", "stop", name.strip())
        assert (went, status, out, errors) == ("native", 0, f"{below}\n", "")
        assert name.startswith(where.name)


def test_a_signal_is_passed_on_and_another_ends_it(own: _Sessions) -> None:
    line = "trap 'echo got it' USR1; trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.02; done"
    process = own.entry.start("session", "exec", "s", "-c", line)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "got it\n"
    process.send_signal(signal.SIGTERM)

    assert process.communicate(timeout=30)[0] == "bye\n"
    assert process.returncode == 7


def test_it_stops_and_goes_on_with_its_command(own: _Sessions) -> None:
    line = "echo ready; i=0; while [ ! -e end ]; do i=$((i + 1)); echo $i > count; sleep 0.01; done"
    process = own.entry.start("session", "exec", "s", "-c", line)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTSTP)
    state = Path(f"/proc/{process.pid}/stat")
    wait_until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", "it stopped")
    process.send_signal(signal.SIGCONT)
    (own.entry.workspace / "end").touch()

    assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 0


def test_who_is_killed_takes_the_command_along(own: _Sessions) -> None:
    process = own.entry.start("session", "exec", "s", "-c", "echo $$ > pid; echo ready; exec sleep 600")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.kill()

    assert process.communicate(timeout=30)[0] == ""  # its end of the pipe is closed
    wait_until(lambda: "sleep 600" not in own.exec("s", "ps", "ax")[2], "it has ended")


def test_who_is_asked_and_dies_is_told_of_by_python(entry: Entry) -> None:
    own = _Sessions(entry)
    own.start()
    process = own.entry.start("session", "exec", "s", "-c", "echo ready; exec sleep 600")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.kill(_pid(own), signal.SIGKILL)

    _, errors = process.communicate(timeout=30)
    assert process.returncode == 125
    assert "the session s does not answer" in errors
    assert own.exec("s", "true")[0] == "python"


def test_a_session_whose_commands_are_checked_is_pythons(entry: Entry) -> None:
    sessions = _Sessions(entry)
    (entry.home / ".config/corral").mkdir(parents=True)
    (entry.home / ".config/corral/corral.toml").write_text('[check]\nmode = "enforce"\n')
    sessions.start()
    try:
        assert sessions.exec("s", "true")[:2] == ("python", 0)
    finally:
        sessions.end()


def test_a_variable_leads_nowhere_else(own: _Sessions) -> None:
    """Whoever listens elsewhere is not asked without Python, which goes by the variables as it always has."""
    planted = own.entry.home.parent / "planted"
    for place in (planted / ".local/state/corral/sessions", planted / "corral"):
        place.mkdir(parents=True)
        place.chmod(0o700)
        for name in ("s.session", "s.sock"):  # all is there by a second name, so that only the place is wrong
            (place / name).hardlink_to(own.place / name)
    planted.chmod(0o700)
    for variable, value in (
        ("HOME", planted),
        ("XDG_STATE_HOME", planted / ".local/state"),
        ("XDG_RUNTIME_DIR", planted),
    ):
        assert own.exec("s", "true", env=own.entry.environment(**{variable: str(value)}))[0] == "python"
    same = {"XDG_STATE_HOME": str(own.entry.home / ".local/state"), "XDG_RUNTIME_DIR": "/run/user/0"}
    assert own.exec("s", "true", env=own.entry.environment(**same))[0] == "native"


def test_no_command_reads_there_whatever_the_variables_say(own: _Sessions) -> None:
    """The record has the token of the session."""
    elsewhere = own.entry.home.parent / "elsewhere"
    options = ("--read", str(own.entry.home / ".local"), "--", "cat", str(own.record))
    assert "token=" in subprocess.check_output(["cat", own.record], text=True)  # the control

    for variables in ({}, {"XDG_STATE_HOME": str(elsewhere)}, {"HOME": str(elsewhere)}):
        told = own.entry.run(*options, env=own.entry.environment(**variables))
        assert told[1] == 1, told
        assert "token=" not in told[2]


def test_a_place_that_others_may_change_is_not_used(own: _Sessions) -> None:
    for place, mode in (
        (own.place, 0o710),
        (own.place.parent, 0o770),
        (own.entry.home, 0o770),
        (own.record, 0o640),
    ):
        before = place.stat().st_mode & 0o7777
        place.chmod(mode)
        assert own.exec("s", "true")[0] == "python", place
        place.chmod(before)
    os.chown(own.record, ORDINARY, ORDINARY)
    assert own.exec("s", "true")[0] == "python"
    os.chown(own.record, 0, 0)
    assert own.exec("s", "true")[0] == "native"


def test_no_link_is_followed(own: _Sessions) -> None:
    for path in (own.record, own.place):
        moved = path.with_name("moved")
        path.rename(moved)
        path.symlink_to(moved)
        assert own.exec("s", "true")[0] == "python", path
        path.unlink()
        moved.rename(path)
    assert own.exec("s", "true")[0] == "native"


def test_whoever_else_listens_there_is_not_asked(own: _Sessions) -> None:
    """The kernel says who it is. Python asks him, as it always has."""
    address = own.place / "s.sock"
    address.rename(own.place / "moved.sock")
    with _listening(own.place) as listener:
        process = own.entry.start("session", "exec", "s", "true")
        asked = listener.accept()[0]
        with asked:
            assert asked.recv(65536) == b""  # the entry program says nothing
        process.kill()
        process.communicate(timeout=30)
    address.unlink()
    (own.place / "moved.sock").rename(address)


#: Of a keeper that is not what it should be.
_ANSWERS = (
    b'j{"is": "done", "exit_status": 300, "lines": []}',
    b'j{"is": "done", "exit_status": -1, "lines": []}',
    b'j{"is": "done", "exit_status": 0, "lines": []}\0',
    b'j{"is": "done", "exit_status": 0, "lines": ["' + b"x" * 200 + b'"]}',
    b'j{"is": "done", "exit_status": 0, "lines": ["x"]}',
    b"j",
    b"",
)


def test_an_answer_that_is_not_plain_is_pythons(entry: Entry) -> None:
    """The record says that the session is this process."""
    sessions = _Sessions(entry)
    sessions.place.mkdir(parents=True)
    sessions.place.chmod(0o700)
    fields = {"name": "s", "state": "running", "pid": os.getpid(), "check_mode": "off", "token": "0f"}
    sessions.record.touch(mode=0o600)
    sessions.record.write_text("\n".join(f"{name}={value}" for name, value in fields.items()))
    with _listening(sessions.place) as listener:
        for answer in _ANSWERS:
            process = entry.start("session", "exec", "s", "true")
            with listener.accept()[0] as asked:
                assert b'"op": "exec"' in asked.recv(65536)
                if answer:
                    asked.send(answer)
            process.communicate(timeout=30)
            assert entry.calls()[-1:] == ["_answered"], answer
    assert len(entry.calls()) == len(_ANSWERS)


@contextlib.contextmanager
def _listening(place: Path) -> Iterator[socket.socket]:
    """At the socket of the session, by a path that is short enough."""
    handle = os.open(place, os.O_PATH)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"/proc/self/fd/{handle}/s.sock")
        os.close(handle)
        listener.listen()
        listener.settimeout(30)
        yield listener


def _number(record: str, field: str) -> str:
    return dict(line.split("=", 1) for line in record.splitlines())[field]


def _pid(sessions: _Sessions) -> int:
    return int(_number(sessions.record.read_text(), "pid"))
