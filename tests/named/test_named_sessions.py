"""Named sessions: one `corral` starts them, others use them, as `corral run` does one."""

from __future__ import annotations

import json
import os
import signal
import subprocess

from support.named_sessions import Person, wait_for_ends, wait_until


def test_a_session_stands_until_it_is_stopped_and_then_nothing_is_left(person: Person) -> None:
    assert person.start("work") == "work"
    tree = person.tree("work")

    said = person.corral("session", "exec", "work", "--", "echo", "hello")
    status = person.corral("session", "status", "work")
    listed = person.corral("session", "list")
    stopped = person.corral("session", "stop", "work")

    assert (said.returncode, said.stdout, said.stderr) == (0, b"hello\n", b"")
    assert (
        status.returncode == 0 and b"work  running" in status.stdout and b"1 run, 0 running" in status.stdout
    )
    assert b"work  running" in listed.stdout and os.fsencode(person.project) in listed.stdout
    assert (stopped.returncode, stopped.stdout) == (0, b"work stopped\n")
    wait_for_ends(tree)
    assert person.corral("session", "status", "work").returncode == 1
    assert not (person.sessions / "work.sock").exists()


STATUSES = {
    ("true",): 0,
    ("sh", "-c", "exit 7"): 7,
    ("sh", "-c", "kill -KILL $$"): 137,
    ("no-such-program",): 127,
    ("/etc/passwd",): 126,
}


def test_statuses_and_messages_are_those_of_corral_run(person: Person) -> None:
    person.start()

    for command, status in STATUSES.items():
        inside = person.corral("session", "exec", "s", "--", *command)
        alone = person.corral("run", "--", *command)

        assert (inside.returncode, alone.returncode) == (status, status), command
        assert inside.stderr == alone.stderr


def test_a_time_limit_of_a_single_command_is_held(person: Person) -> None:
    person.start()

    done = person.corral("session", "exec", "s", "--timeout", "200ms", "--", "sleep", "1000")

    assert done.returncode == 124 and b"it timed out (timed-out)" in done.stderr
    assert person.corral("session", "exec", "s", "--", "true").returncode == 0


def test_input_output_and_files_are_those_of_the_client(person: Person) -> None:
    person.start()
    data = os.urandom(3_000_000)

    echoed = person.corral("session", "exec", "s", "--", "cat", stdin=data)
    apart = person.corral("session", "exec", "s", "-c", "echo out; echo err >&2")
    with open(person.root / "file", "wb") as file:
        person.begin("session", "exec", "s", "--", "echo", "to a file", stdout=file).wait(60)

    assert echoed.stdout == data
    assert (apart.stdout, apart.stderr) == (b"out\n", b"err\n")
    assert (person.root / "file").read_bytes() == b"to a file\n"


def test_a_file_of_the_client_is_not_opened_for_more(person: Person) -> None:
    """By /proc/self/fd: what is protected stays so, though the client gives it."""
    given = person.project / ".envrc"
    given.write_text("export A=1\n")
    given.chmod(0o666)
    person.start()

    with given.open("rb") as file:
        attack = "cat; echo evil > /proc/self/fd/0"
        begun = person.begin("session", "exec", "s", "-c", attack, stdin=file, stdout=subprocess.PIPE)
        printed, _ = begun.communicate(timeout=60)

    assert printed == b"export A=1\n"
    assert begun.returncode != 0
    assert given.read_text() == "export A=1\n"


def test_a_reader_that_goes_away_ends_the_command_as_in_any_pipe(person: Person) -> None:
    person.start()
    client = person.begin("session", "exec", "s", "--", "yes")
    assert client.stdout is not None

    assert client.stdout.readline() == b"y\n"
    client.stdout.close()

    assert client.wait(60) == 128 + signal.SIGPIPE


def test_what_a_command_leaves_is_there_for_the_next(person: Person) -> None:
    person.start()

    person.corral("session", "exec", "s", "-c", "echo kept > /tmp/file")
    seen = person.corral("session", "exec", "s", "--", "cat", "/tmp/file")
    person.corral("session", "exec", "s", "--stateful", "-c", "cd /tmp && export COLOUR=blue")
    state = person.corral("session", "exec", "s", "--stateful", "-c", "pwd; echo $COLOUR")

    assert seen.stdout == b"kept\n"
    assert state.stdout == b"/tmp\nblue\n"


def test_without_keep_alive_every_command_has_a_sandbox_of_its_own(person: Person) -> None:
    done = person.corral("session", "start", "s", CORRAL_KEEP_ALIVE="false")
    assert done.returncode == 0, done.stderr

    wrote = person.corral("session", "exec", "s", "-c", "echo kept > /tmp/file")
    seen = person.corral("session", "exec", "s", "--", "cat", "/tmp/file")

    assert wrote.returncode == 0
    assert seen.returncode == 1 and seen.stdout == b""


def test_without_a_name_the_session_of_the_workspace_is_meant(person: Person) -> None:
    below = person.project / "a" / "b"
    below.mkdir(parents=True)
    os.chown(below, person.uid, person.uid)

    name = person.corral("session", "start").stdout.decode().strip()
    said = person.corral("session", "exec", "--", "pwd", cwd=below)
    line = person.corral("session", "exec", "-c", "echo line", cwd=below)

    assert name.startswith("project-")
    assert said.stdout.decode().strip() == str(below)
    assert line.stdout == b"line\n"
    assert person.corral("sandbox", "status").returncode == 0
    assert person.corral("sandbox", "stop").stdout.decode() == f"{name} stopped\n"


def test_variables_come_only_by_name(person: Person) -> None:
    person.start()

    done = person.corral(
        "session",
        "exec",
        "s",
        "--env",
        "GIVEN",
        "--env",
        "SET=2",
        "-c",
        "echo $GIVEN $SET $HIDDEN",
        GIVEN="1",
        HIDDEN="3",
    )

    assert done.stdout == b"1 2\n"


def test_json_is_the_record_of_the_run(person: Person) -> None:
    person.start()

    done = person.corral(
        "session", "exec", "s", "--json", "-c", "head -c 1000000 /dev/zero | tr '\\0' x; exit 3"
    )
    record = json.loads(done.stdout)

    assert done.returncode == 3
    assert (record["outcome"], record["exit_code"], record["session"]) == ("exited", 3, "s")
    assert record["stdout"] == "x" * 1_000_000


def test_a_signal_to_the_client_reaches_the_command(person: Person) -> None:
    person.start()
    script = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.01; done"
    client = person.begin("session", "exec", "s", "-c", script)
    assert client.stdout is not None
    assert client.stdout.readline() == b"ready\n"

    os.kill(client_pid(client), signal.SIGINT)

    assert client.stdout.readline() == b"caught\n"
    assert client.wait(60) == 9


def client_pid(client: subprocess.Popen[bytes]) -> int:
    """`setpriv` becomes the program: it is the same process."""
    return client.pid


def test_a_client_that_is_killed_takes_its_command_along(person: Person) -> None:
    """The command holds its stdout for as long as it lives: the end of it is the proof."""
    person.start()
    client = person.begin("session", "exec", "s", "-c", "echo ready; sleep 1000 & sleep 1000")
    assert client.stdout is not None
    assert client.stdout.readline() == b"ready\n"
    assert len(person.facts()["running"]) == 1

    client.kill()

    assert client.stdout.read() == b""
    wait_until(lambda: person.facts()["running"] == [])
    assert person.corral("session", "exec", "s", "--", "true").returncode == 0


def test_two_clients_run_their_commands_at_the_same_time(person: Person) -> None:
    person.start()
    one = person.begin("session", "exec", "s", "--", "cat")
    two = person.begin("session", "exec", "s", "--", "cat")

    for number in range(3):
        for client in (one, two):
            assert client.stdin is not None and client.stdout is not None
            client.stdin.write(b"%d\n" % number)
            client.stdin.flush()
            assert client.stdout.readline() == b"%d\n" % number
    assert len(person.facts()["running"]) == 2

    assert [client.communicate()[0] for client in (one, two)] == [b"", b""]


def test_a_session_whose_process_was_killed_is_gone_found_and_can_be_started_anew(person: Person) -> None:
    person.start()
    client = person.begin("session", "exec", "s", "-c", "sleep 1000 & echo ready; sleep 1000")
    assert client.stdout is not None and client.stderr is not None
    assert client.stdout.readline() == b"ready\n"
    tree = person.tree()
    assert len(tree) > 3

    os.kill(person.facts()["pid"], signal.SIGKILL)

    wait_for_ends(tree)
    assert client.wait(60) == 125
    assert b"the command ran: the session s does not answer" in client.stderr.read()
    line = person.corral("status", "--line", "s")
    assert (line.returncode, line.stdout.decode()) == (1, "⬡ Sandbox (native) failed\n")
    assert b"s  failed" in person.corral("session", "list").stdout
    assert not (person.sessions / "s.sock").exists()
    person.start()
    assert person.corral("session", "exec", "s", "--", "true").returncode == 0


def test_a_sandbox_that_ends_under_its_process_is_a_failed_session(person: Person) -> None:
    person.start()
    host, *others = person.tree()

    signal.pidfd_send_signal(others[0], signal.SIGKILL)

    wait_for_ends([host, *others])
    facts = person.facts()
    assert facts["state"] == "failed" and facts["reason"]


def test_the_output_limit_holds_for_each_command(person: Person) -> None:
    person.start("s", "--output-limit", "100k")

    much = person.corral("session", "exec", "s", "-c", "yes | head -c 300000")
    little = person.corral("session", "exec", "s", "-c", "yes | head -c 90000")
    control = person.corral("run", "-c", "yes | head -c 300000")

    assert (much.returncode, len(much.stdout)) == (137, 102_400)
    assert b"it hit the output limit (output-limit)" in much.stderr
    assert (little.returncode, len(little.stdout)) == (0, 90_000)
    assert len(control.stdout) == 300_000


def test_a_detached_command_runs_on_and_prints_to_the_log(person: Person) -> None:
    person.start()

    key = person.corral(
        "session", "exec", "s", "--detach", "-c", "printf 'a\\033[31mb\\n'; sleep 1000"
    ).stdout
    wait_until(lambda: b"[" + key.strip() + b"]" in person.corral("session", "logs", "s").stdout)
    assert [running["id"] for running in person.facts()["running"]] == [key.decode().strip()]
    log = person.corral("session", "logs", "s").stdout.decode()
    killed = person.corral("session", "kill", "--session", "s", key.decode().strip())

    assert f"[{key.decode().strip()}] a\\x1b[31mb\n" in log
    assert killed.returncode == 0
    wait_until(lambda: person.facts()["running"] == [])
    assert b"ended: signal 15" in person.corral("session", "logs", "s").stdout


def test_the_log_is_bounded(person: Person) -> None:
    person.start()

    person.corral("session", "exec", "s", "-d", "-c", "yes | head -c 8000000; echo the end")
    wait_until(lambda: b"] the end\n" in person.corral("session", "logs", "s").stdout)

    assert sum(file.stat().st_size for file in person.sessions.glob("s.log*")) < 2_200_000


def test_a_session_that_has_nothing_to_do_ends(root_person: Person) -> None:
    root_person.start("s", "--idle", "4s")
    tree = root_person.tree()

    longer = root_person.corral(
        "session", "exec", "s", "--", "sleep", "5"
    )  # not idle for as long as it lasts

    wait_for_ends(tree)
    assert longer.returncode == 0
    facts = root_person.facts()
    assert (facts["state"], facts["reason"]) == ("stopped", "it was idle for 4s")


def test_a_lifetime_ends_a_session_whatever_runs(root_person: Person) -> None:
    root_person.start("s", "--lifetime", "8s")
    tree = root_person.tree()
    client = root_person.begin("session", "exec", "s", "-c", "echo ready; sleep 1000")
    assert client.stdout is not None
    assert client.stdout.readline() == b"ready\n"

    assert client.wait(60) == 137
    wait_for_ends(tree)
    assert root_person.facts()["reason"] == "its lifetime of 8s was over"


def test_a_session_begins_anew_when_it_is_reset(person: Person) -> None:
    person.start()
    person.corral("session", "exec", "s", "-c", "echo kept > /tmp/file; sleep 1000 >/dev/null 2>&1 &")
    host, *inside = person.tree()

    done = person.corral("session", "reset", "s")

    assert (done.returncode, done.stdout) == (0, b"s reset\n")
    wait_for_ends(inside)
    seen = person.corral("session", "exec", "s", "--", "cat", "/tmp/file")
    assert (seen.returncode, seen.stdout) == (1, b"")
    assert person.facts()["state"] == "running"
    os.close(host)


def test_a_session_goes_on_when_the_host_replaces_what_is_protected(person: Person) -> None:
    """Its sandbox is made anew, with what lay in private areas; the session and its process stay."""
    envrc = person.project / ".envrc"
    for text in ("one", "two"):
        envrc.unlink(missing_ok=True)
        envrc.write_text(text)
        os.chown(envrc, person.uid, person.uid)
        if text == "one":
            person.start()
            person.corral("session", "exec", "s", "-c", "echo kept > /tmp/file; echo mine > ~/file")

    seen = person.corral("session", "exec", "s", "-c", "cat /tmp/file ~/file; echo evil >> .envrc")

    assert seen.stdout == b"kept\nmine\n"
    assert envrc.read_text() == "two"
    assert b"recreated" in person.corral("session", "logs", "s").stdout
    assert person.facts()["state"] == "running"
    assert person.corral("session", "stop", "s").returncode == 0


def test_one_that_runs_is_used_again_if_it_was_started_the_same_way(root_person: Person) -> None:
    person = root_person
    first = person.start("s", "--reuse", "--memory", "1g")
    process = person.pid()

    again = person.corral("session", "start", "s", "--reuse", "--memory", "1g", "--json")
    other = person.corral("session", "start", "s", "--reuse", "--idle", "1h")
    plain = person.corral("session", "start", "s", "--memory", "1g")

    assert first == "s" and json.loads(again.stdout)["reused"] is True
    assert other.returncode == 125
    assert b"memory:limit:1GiB" in other.stderr and b"--idle 1h" in other.stderr
    assert plain.returncode == 125 and b"there is a session s already" in plain.stderr
    assert person.pid() == process


def test_several_that_want_the_same_session_get_one(root_person: Person) -> None:
    started = [root_person.begin("session", "start", "s", "--reuse") for _ in range(4)]
    heard = [one.communicate(timeout=60) for one in started]

    assert [one.returncode for one in started] == [0] * 4, heard
    log = root_person.corral("session", "logs", "s").stdout
    assert log.count(b" started: ") == 1


def test_the_process_ends_in_order_when_it_is_asked_to_by_a_signal(person: Person) -> None:
    person.start()
    tree = person.tree()

    os.kill(person.facts()["pid"], signal.SIGTERM)

    wait_for_ends(tree)
    assert person.facts()["reason"] == "ended by a signal"
