"""What cannot be: names, second starts, sessions that are not there, backends that keep nothing."""

from __future__ import annotations

import json
import os
import stat

import pytest

from support.named_sessions import Person


@pytest.mark.parametrize("name", ["../x", ".hidden", "a/b", "", "a b", "-x", "ü", "x" * 65, "a\nb"])
def test_a_name_that_could_be_a_path_or_a_flag_is_refused(root_person: Person, name: str) -> None:
    done = root_person.corral("session", "start", "--json", "--", name)

    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "session-name"
    assert not root_person.sessions.exists()


def test_a_name_is_taken_only_once(root_person: Person) -> None:
    root_person.start()

    again = root_person.corral("session", "start", "s")

    assert again.returncode == 125 and b"there is a session s already" in again.stderr
    assert root_person.corral("session", "exec", "s", "--", "true").returncode == 0


@pytest.mark.parametrize(
    "words", [("exec", "s", "--", "true"), ("stop", "s"), ("status", "s"), ("logs", "s")]
)
def test_a_session_that_was_never_started_is_named_in_the_error(
    root_person: Person, words: tuple[str, ...]
) -> None:
    done = root_person.corral("session", *words)

    assert done.returncode == 125
    assert b"there is no session s" in done.stderr and b"corral session start s" in done.stderr


def test_a_session_that_was_stopped_says_why_it_takes_no_commands(root_person: Person) -> None:
    root_person.start()
    root_person.corral("session", "stop", "s")

    done = root_person.corral("session", "exec", "s", "--", "true")

    assert done.returncode == 125
    assert b"the session s is not running (stopped)" in done.stderr and b"stopped by request" in done.stderr


def test_an_error_of_the_sandbox_is_told_by_whoever_started_it(root_person: Person) -> None:
    done = root_person.corral("session", "start", "s", "--read", "/no/such/path")
    alone = root_person.corral("run", "--read", "/no/such/path", "--", "true")

    assert (done.returncode, alone.returncode) == (2, 2)
    assert done.stderr == alone.stderr.replace(b"the command did not run: ", b"")
    assert root_person.facts()["state"] == "failed"


def test_nothing_is_kept_without_a_sandbox(root_person: Person) -> None:
    done = root_person.corral("session", "start", "s", "--backend", "none")

    assert done.returncode == 125 and b"cannot keep a sandbox" in done.stderr


@pytest.mark.parametrize("text", ["soon", "0s", "-1s"])
def test_a_limit_is_a_duration(root_person: Person, text: str) -> None:
    done = root_person.corral("session", "start", "s", f"--idle={text}")

    assert done.returncode == 2 and b"--idle" in done.stderr


def test_what_is_over_is_forgotten_when_asked(root_person: Person) -> None:
    root_person.start("one")
    root_person.start("two")
    root_person.corral("session", "stop", "one")

    done = root_person.corral("session", "clean")

    assert done.stdout == b"one forgotten\n"
    assert sorted({file.name.split(".")[0] for file in root_person.sessions.iterdir()}) == ["two"]


def test_the_directory_the_record_and_the_socket_are_the_users_alone(root_person: Person) -> None:
    root_person.start()

    modes = {file.name: stat.S_IMODE(file.lstat().st_mode) for file in root_person.sessions.iterdir()}

    assert stat.S_IMODE(root_person.sessions.stat().st_mode) == 0o700
    assert set(modes.values()) == {0o600}, modes
    assert "s.sock" in modes


def test_a_directory_that_others_may_enter_is_not_used(root_person: Person) -> None:
    root_person.sessions.mkdir()
    root_person.sessions.chmod(0o755)

    done = root_person.corral("session", "start", "s")

    assert done.returncode == 125 and b"cannot be used for sessions" in done.stderr


def test_a_link_is_not_followed_to_another_directory(root_person: Person) -> None:
    elsewhere = root_person.root / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    root_person.sessions.symlink_to(elsewhere)

    done = root_person.corral("session", "start", "s")

    assert done.returncode == 125
    assert list(elsewhere.iterdir()) == []


def test_a_runtime_directory_of_somebody_else_is_not_used(root_person: Person) -> None:
    root_person.runtime.chmod(0o755)

    root_person.start()

    assert not root_person.sessions.exists()
    assert (root_person.home / ".local/state/corral/sessions/s.sock").is_socket()


def test_the_process_keeps_nothing_of_its_caller_open(root_person: Person) -> None:
    """Whoever reads the output of `start` comes to its end, and a lock of the caller's is let go."""
    ours, theirs = os.pipe()
    client = root_person.begin("session", "start", "s", pass_fds=[theirs])
    os.close(theirs)

    assert client.communicate(timeout=60)[0] == b"s\n"
    assert os.read(ours, 1) == b""
    os.close(ours)
    assert root_person.facts()["state"] == "running"


def test_a_session_says_what_stopped_a_command(root_person: Person) -> None:
    """Errors go past corral, to the client's own descriptors; a name is read in the client's directory."""
    inside = root_person.project / "inside"
    inside.mkdir()
    root_person.start("s", "-p", "strict")

    def said(line: str) -> bytes:
        return root_person.corral("session", "exec", "s", "-c", line, cwd=inside).stderr

    told = f"corral: fs.write: {inside}/made: it is granted for reading only (guessed from the output)"
    assert told.encode() in said("echo > made")
    assert said("2>/dev/null; exec 2>/dev/null; echo > made") == b""
    assert said("echo corral: memory limit exceeded >&2; exit 1") == b"corral: memory limit exceeded\n"
