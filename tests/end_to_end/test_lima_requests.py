"""`lima` with a pretended limactl: this machine plays the guest, and what comes back is the command's own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from corral import __version__
from support.probed import probe_of, silence_engines

BIN = Path(sys.executable).parent
WAIVED = "fs.protect,proc.contained"

LIMACTL = """#!/bin/sh
printf '%s\\n' "$*" >>"$0.log"
case $1 in
list) cat "$0.json" ;;
shell)
    [ "$2 $3 $4" = "--workdir / default" ] || exit 99
    shift 4
    cd /
    export HOME={home} XDG_STATE_HOME= PATH={path}:{engines}:/usr/bin:/bin
    exec "$@"
    ;;
esac
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A limactl on the PATH whose only instance is this machine with another home."""
    usable = [name for name in ("native", "landlock") if probe_of(name).available]
    if not usable:
        pytest.skip("no backend confines anything here, so the guest could not either")
    for name in ("bin", "home", "guest", "work"):
        (tmp_path / name).mkdir()
    limactl = tmp_path / "bin" / "limactl"
    limactl.write_text(
        LIMACTL.format(home=tmp_path / "guest", path=BIN, engines=silence_engines(tmp_path / "engines"))
    )
    limactl.chmod(0o755)
    instance = {
        "name": "default",
        "status": "Running",
        "config": {"mounts": [{"location": str(tmp_path), "writable": True}]},
    }
    (tmp_path / "bin" / "limactl.json").write_text(json.dumps(instance) + "\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    return tmp_path


def corral(machine: Path, *arguments: str, stdin: bytes = b"", options: tuple[str, ...] = ()):
    return subprocess.run(
        [BIN / "corral", "run", "--backend", "lima", "--waive", WAIVED, *options, "--", *arguments],
        cwd=machine / "work",
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )


def _first_quick(*codes: int) -> list[object]:
    """Each run asks the guest what works there, for a second: further codes are for `make test-all`."""
    return [codes[0], *(pytest.param(code, marks=pytest.mark.thorough) for code in codes[1:])]


def told(machine: Path) -> list[str]:
    return (machine / "bin" / "limactl.log").read_text().splitlines()


@pytest.mark.parametrize("code", _first_quick(125, 0, 3, 255))
def test_every_status_of_the_command_comes_back(machine: Path, code: int) -> None:
    done = corral(machine, "/bin/sh", "-c", f"exit {code}", options=("--json",))
    result = json.loads(done.stdout)

    assert (result["outcome"], result["exit_code"]) == ("exited", code), done.stderr
    assert result["enforcement"]["backend"] == "lima"


def test_input_output_and_arguments_are_the_commands_own(machine: Path) -> None:
    words = ["a b", "$HOME", "'", '"', "*", "", "new\nline", "n\u00e9e"]
    done = corral(
        machine, "/bin/sh", "-c", 'cat; printf "%s|" "$@"; echo oops >&2', "sh", *words, stdin=b"in\n"
    )

    assert done.stdout.decode() == "in\n" + "".join(f"{word}|" for word in words)
    assert done.stderr == b"oops\n"


def test_the_command_is_confined_by_the_guest(machine: Path) -> None:
    (machine / "secret").write_text("the secret")
    done = corral(machine, "/bin/sh", "-c", f"echo here; cat {machine}/secret; echo x > {machine}/planted")

    assert done.stdout == b"here\n"
    assert not (machine / "planted").exists()


def test_what_it_writes_in_the_workspace_is_there(machine: Path) -> None:
    done = corral(machine, "/bin/sh", "-c", "echo text > made")

    assert done.returncode == 0, done.stderr
    assert (machine / "work" / "made").read_text() == "text\n"


def test_the_guest_protects_what_is_not_claimed_either(machine: Path) -> None:
    corral(machine, "/bin/sh", "-c", "echo planted > .envrc; sleep 0.1")

    assert not (machine / "work" / ".envrc").exists()


def behave(machine: Path, otherwise: str) -> None:
    """Let limactl do something else than what it is told, but for the questions of the probe."""
    limactl = machine / "bin" / "limactl"
    limactl.write_text(
        limactl.read_text().replace('exec "$@"', f'{{ [ "$2" = doctor ] || {otherwise}; exec "$@"; }}')
    )


@pytest.mark.parametrize("status", _first_quick(255, 1, 125))
def test_a_machine_that_cannot_be_reached_is_no_status_of_the_command(machine: Path, status: int) -> None:
    behave(machine, f"{{ echo 'ssh: connection refused' >&2; exit {status}; }}")
    done = corral(machine, "/bin/true", options=("--json",))
    error = json.loads(done.stdout)["error"]

    assert (done.returncode, error["code"], error["ran"]) == (125, "sandbox", False)
    assert error["why"] == "ssh: connection refused"


@pytest.mark.parametrize("status", _first_quick(0, 1, 255))
def test_a_machine_that_is_lost_leaves_no_status(machine: Path, status: int) -> None:
    """Nobody knows how far the command came: it is told as killed, not as a status of its own."""
    behave(machine, f'[ "$1" = true ] || exit {status}')
    answer = json.loads(corral(machine, "/bin/true", options=("--json",)).stdout)

    assert (answer["outcome"], answer["exit_code"], answer["signal"]) == ("signalled", None, 9)


@pytest.mark.parametrize("status", _first_quick(0, 1, 137))
def test_a_corral_that_is_killed_inside_leaves_no_status(machine: Path, status: int) -> None:
    run = """run=$(printf %s "$3" | sed 's/.*"run_id": "\\([0-9a-f]*\\)".*/\\1/')"""
    begun = 'mkdir -p "$HOME/.local/state/corral"; printf begun >"$HOME/.local/state/corral/guest-$run"'
    behave(machine, f'[ "$1" = true ] || [ "$3" = --told ] || {{ {run}; {begun}; exit {status}; }}')
    answer = json.loads(corral(machine, "/bin/true", options=("--json",)).stdout)

    assert (answer["outcome"], answer["exit_code"]) == ("signalled", None)


def test_what_the_guest_refuses_did_not_run(machine: Path) -> None:
    done = corral(machine, "/no/such/program", options=("--json",))
    error = json.loads(done.stdout)["error"]

    assert error["ran"] is False
    assert done.returncode == 127


def test_the_note_is_taken_away(machine: Path) -> None:
    corral(machine, "/bin/true")
    state = machine / "guest" / ".local" / "state" / "corral"

    assert state.is_dir()
    assert [path.name for path in state.iterdir() if path.name.startswith("guest-")] == []


def test_a_signal_ends_the_way_into_the_machine_and_is_told_as_such(machine: Path) -> None:
    arguments = ("run", "--backend", "lima", "--waive", WAIVED, "--timeout", "600s", "--")
    started = subprocess.Popen(
        [BIN / "corral", *arguments, "/bin/sh", "-c", "echo here; exec sleep 600"],
        cwd=machine / "work",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert started.stdout is not None
    assert started.stdout.readline() == b"here\n"
    started.send_signal(signal.SIGTERM)
    started.communicate()

    assert started.returncode != 0


def test_nothing_is_started_by_asking(machine: Path) -> None:
    subprocess.run([BIN / "corral", "doctor"], check=False, capture_output=True, timeout=60)

    assert {line.split()[0] for line in told(machine)} == {"list", "shell"}
    assert not any("guest" in line for line in told(machine))


def test_the_version_inside_must_be_the_one_outside(machine: Path) -> None:
    limactl = machine / "bin" / "limactl"
    fake = 'echo \'{"corral": "0.0.1", "backends": []}\''
    limactl.write_text(limactl.read_text().replace("shift 4", f"{fake}; exit 0"))
    done = corral(machine, "/bin/true")

    assert done.returncode == 3
    assert f"corral 0.0.1, and this is {__version__}".encode() in done.stderr
