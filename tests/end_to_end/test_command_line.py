"""`corral run` behaves like the command it runs: status, streams, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from corral.cli.options import OPTIONS, defaults, parse_quickly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from conftest import Corral


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--", "true"], 0),
        (["true"], 0),
        (["-c", "exit 7"], 7),
        (["--", "sh", "-c", "kill -TERM $$"], 128 + 15),
        (["--timeout", "200ms", "--", "sleep", "60"], 124),
        (["--", "no-such-program"], 127),
        (["--", "./not-executable"], 126),
        (["--output-limit", "1k", "--", "head", "-c", "100000", "/dev/zero"], 128 + 9),
        (["--no-sandbox", "-c", "exit 5"], 5),
        (["--backend", "none", "--timeout", "200ms", "--", "sleep", "60"], 124),
        (["-p", "strict", "--", "true"], 0),
        (["-p", "permissive", "--", "true"], 0),
    ],
)
def test_the_exit_status_is_that_of_a_shell(
    corral: Corral, project: Path, arguments: list[str], status: int
) -> None:
    (project / "not-executable").write_text("")

    assert corral("run", *arguments).returncode == status


def test_streams_are_passed_through_byte_by_byte(corral: Corral) -> None:
    data = bytes(range(256)) * 4096

    done = corral("run", "-c", "cat; echo error >&2", stdin=data)

    assert done.stdout == data
    assert done.stderr == b"error\n"


def test_stdio_can_be_opened_by_name(corral: Corral, tmp_path: Path, project: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        command = [
            sys.executable,
            "-m",
            "corral",
            "run",
            "-c",
            "echo one > /dev/stdout; echo two > /dev/stderr",
        ]
        subprocess.run(command, cwd=project, stdout=out, stderr=out, check=True)

    assert sorted((tmp_path / "out").read_text().split()) in (["one", "two"], ["two"])


def test_json_is_the_whole_record(corral: Corral) -> None:
    done = corral("run", "--json", "-c", "cat; exit 3", stdin=b"in")

    record = json.loads(done.stdout)
    assert (done.returncode, record["exit_code"], record["stdout"]) == (3, 3, "in")
    assert record["outcome"] == "exited"
    assert record["enforcement"]["waived"] == []
    assert record["enforcement"]["enforced"]["fs.write"]
    assert len(record["policy"]["hash"]) == 64


def test_an_error_is_json_when_json_was_asked_for(corral: Corral) -> None:
    done = corral("run", "--json", "-p", "nonsense", "--", "true")

    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "unknown-profile"


def test_an_interrupt_reaches_the_command_and_its_answer_comes_back(project: Path, home: Path) -> None:
    line = "trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.05; done"
    child = subprocess.Popen(
        [sys.executable, "-m", "corral", "run", "-c", line], cwd=project, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"

    child.send_signal(signal.SIGINT)

    assert child.stdout.read() == b"interrupted\n"
    assert child.wait(20) == 9


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_that_corral_was_told_to_ignore_is_not_passed_on(
    project: Path, home: Path, number: signal.Signals
) -> None:
    """As with nohup, or in the background of a script; the command would hear of it otherwise."""
    line = "trap 'echo heard' HUP INT; trap 'exit 4' TERM; echo ready; while :; do sleep 0.05; done"
    child = subprocess.Popen(
        ["/usr/bin/env", f"--ignore-signal={number.name}", sys.executable, "-m", "corral", "run", "-c", line],
        cwd=project,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"

    child.send_signal(number)
    child.send_signal(signal.SIGTERM)

    assert child.stdout.read() == b""
    assert child.wait(20) == 4


def test_nothing_survives_the_death_of_corral(project: Path, home: Path) -> None:
    """The whole tree holds the write end of a pipe; when it is gone, the pipe is at its end."""
    reading, writing = os.pipe()
    line = "setsid sleep 300 & echo ready; sleep 300"
    child = subprocess.Popen(
        [sys.executable, "-m", "corral", "run", "-c", line], cwd=project, stdout=writing, stderr=writing
    )
    os.close(writing)
    assert os.read(reading, 6) == b"ready\n"

    child.kill()
    child.wait(20)

    assert os.read(reading, 1) == b""
    os.close(reading)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_give_nothing_away(project: Path, home: Path, closed: str) -> None:
    """A directory of the host on a free descriptor would lead around everything that is mounted."""
    line = "for n in 0 1 2; do echo pwn > /proc/self/fd/$n/.git/hooks/pre-commit; done; exit 4"
    shell = f"{sys.executable} -m corral run -c '{line}' {closed}"

    done = subprocess.run(["sh", "-c", shell], cwd=project, capture_output=True, timeout=60, check=False)

    assert done.returncode == 4, done.stderr
    assert not (project / ".git/hooks/pre-commit").exists()
    assert b"Traceback" not in done.stderr


def test_with_json_the_command_reads_stdin_as_it_comes(project: Path, home: Path) -> None:
    """Corral does not wait for the end of an input that nobody reads."""
    command = [sys.executable, "-m", "corral", "run", "--json", "--", "true"]
    child = subprocess.Popen(command, cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    assert child.wait(30) == 0
    assert child.stdin is not None
    assert child.stdout is not None
    assert json.loads(child.stdout.read())["ok"]
    child.stdin.close()


def test_the_quick_parser_and_click_agree(corral: Corral) -> None:
    """Every option, in both spellings, through `explain` (click) and through the quick parser."""
    from click.testing import CliRunner

    from corral.cli import commands

    seen: list[dict[str, object]] = []
    original = commands.run.callback
    commands.run.callback = lambda **found: seen.append(found)
    try:
        for option in OPTIONS:
            for flag in option.flags:
                value = ["VALUE"] if option.metavar else []
                arguments = [flag, *value, "--", "cmd", "-x", "--", "y"]
                CliRunner().invoke(commands.cli, ["run", *arguments], catch_exceptions=False)
                parsed = parse_quickly(arguments)
                assert parsed is not None
                found = {
                    key: list(kept) if isinstance(kept, tuple) else kept for key, kept in seen[-1].items()
                }
                quick = {
                    key: list(kept) if isinstance(kept, tuple) else kept for key, kept in parsed[0].items()
                }
                assert found == {**quick, "command": list(parsed[1])}, flag
    finally:
        commands.run.callback = original
    assert set(defaults()) == {option.name for option in OPTIONS}


@pytest.mark.parametrize(
    "arguments", [["--nonsense", "--", "x"], ["--read"], ["-h"], ["--json=1", "x"], ["-px", "y"]]
)
def test_the_quick_parser_leaves_what_is_not_plain_to_click(arguments: list[str]) -> None:
    assert parse_quickly(arguments) is None


@pytest.mark.skipif(sys.platform == "darwin", reason="there it is no other platform")
def test_seatbelt_is_explained_without_a_mac_and_refused_to_run(corral: Corral) -> None:
    """What it does not claim has to be waived there as well; else nobody would learn that here."""
    lacking = corral("explain", "--backend", "seatbelt", "--", "true")
    assert lacking.returncode == 3
    assert b"seatbelt: cannot enforce" in lacking.stderr
    waive = lacking.stderr.decode().partition("--waive ")[2].partition("`")[0]

    done = corral("explain", "-v", "--backend", "seatbelt", "--waive", waive, "--", "true")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"note       as on a Mac")
    assert b"/usr/bin/sandbox-exec -f" in done.stdout
    assert b"(deny default)" in done.stdout
    assert corral("run", "--backend", "seatbelt", "--waive", waive, "--", "true").returncode == 3


def test_explain_runs_nothing_and_names_the_mechanisms(corral: Corral, project: Path) -> None:
    brief = corral("explain", "--", "touch", "made").stdout.decode().splitlines()
    done = corral("explain", "-v", "--", "touch", "made")

    assert done.returncode == 0
    assert brief[0] == "it would run with native, which enforces all of moderate" and len(brief) < 10
    assert not (project / "made").exists()
    for words in (b"may write", str(project).encode(), b"fs.read", b"mount bind", b"seccomp"):
        assert words in done.stdout


def test_doctor_finds_a_backend_and_says_what_is_missing(corral: Corral) -> None:
    found = json.loads(corral("doctor", "--json").stdout)

    works = {backend["backend"]: backend["available"] for backend in found["backends"]}
    assert works["native"]
    assert works["landlock"]
    assert corral("doctor").stdout.startswith(b"Sandboxes work here: native")
    assert b"\nnative      does not work" not in corral("doctor", "-v").stdout
    broken = corral("doctor", CORRAL_LAUNCHER="/no/such")
    assert broken.returncode == 3 and broken.stdout.startswith(b"No backend works here")
    assert b"there is no launcher" in broken.stdout
