"""Whole runs of the command line as on a Mac: no /proc, no pidfd, no launcher; `sandbox-exec` confines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.mac_stage import WAIVED, Mac

GIVEN_UP = ("--waive", ",".join(WAIVED))


def test_a_command_runs_and_its_status_is_its_own(mac: Mac) -> None:
    done = mac.run("-c", "cat; echo out; echo err >&2; pwd; exit 7", stdin="in\n")

    assert (done.returncode, done.stdout) == (7, f"in\nout\n{mac.work}\n")
    assert done.stderr.splitlines()[-1] == "err"
    assert mac.left == []


def test_what_is_not_granted_is_neither_read_nor_written(mac: Mac) -> None:
    secret = mac.outside / "secret"
    secret.write_text("the secret\n")
    script = f"cat {secret}; echo x > {mac.outside}/made; echo y > made; cat made"
    bare = subprocess.run(["sh", "-c", script], cwd=mac.work, capture_output=True, text=True, check=False)
    (mac.outside / "made").unlink()
    (mac.work / "made").unlink()

    done = mac.run("-c", script)

    assert bare.stdout == "the secret\ny\n"  # the control: nothing else is in the way
    assert done.stdout == "y\n"
    assert "Operation not permitted" in done.stderr
    assert sorted(os.listdir(mac.outside)) == ["secret"]
    assert sorted(os.listdir(mac.work)) == ["made"]


def test_the_home_and_the_temporary_directory_are_the_runs_own_and_gone_afterwards(mac: Mac) -> None:
    script = 'echo $HOME; echo $TMPDIR; echo x > "$HOME/.profile"; ls -A "$HOME"; ls -ld "$HOME"'
    done = mac.run("-c", script)
    home, temporary, *names, mode = done.stdout.splitlines()

    assert home == temporary != mac.env["HOME"]
    assert ".profile" in names
    assert mode.startswith("drwx------")
    assert not os.path.lexists(home)
    assert mac.left == []


def test_a_closed_tree_in_the_private_home_is_removed_as_well(mac: Mac) -> None:
    done = mac.run("-c", 'mkdir -p "$HOME/a/b"; echo x > "$HOME/a/b/c"; chmod 0 "$HOME/a/b" "$HOME/a"')

    assert done.returncode == 0
    assert mac.left == []


def test_time_that_is_over_ends_the_whole_process_group(mac: Mac) -> None:
    done = mac.run("--timeout", "500ms", "-c", "sleep 60 & echo $! > child; wait")
    child = int((mac.work / "child").read_text())

    assert done.returncode == 124
    assert _ended(child)
    assert mac.left == []


def test_a_command_that_a_signal_ended_is_told_and_leaves_nothing(mac: Mac) -> None:
    done = mac.run("-c", "kill -KILL $$")

    assert done.returncode == 137
    assert mac.left == []


def test_a_signal_to_corral_ends_the_command_and_leaves_nothing(mac: Mac) -> None:
    script = "sleep 60 & echo $! > child; echo $$ > pid.new; mv pid.new pid; wait"
    process = subprocess.Popen([*_line(mac), "-c", script], cwd=mac.work, env=dict(mac.env), stderr=-1)
    _await(mac.work / "pid")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)

    assert process.returncode != 0
    assert _ended(int((mac.work / "pid").read_text()))
    assert _ended(int((mac.work / "child").read_text()))
    assert mac.left == []


def test_what_a_command_leaves_in_its_process_group_ends_with_it(mac: Mac) -> None:
    done = mac.run("-c", "sleep 60 & echo $! > child")
    child = int((mac.work / "child").read_text())

    assert done.returncode == 0
    assert _ended(child)


def test_who_leaves_the_process_group_stays_confined(mac: Mac) -> None:
    """It cannot be ended, which is why proc.contained is not claimed; but the profile stays on it."""
    script = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    for d in (0, 1, 2): os.close(d)\n"
        "    while not os.path.exists('go'): time.sleep(0.01)\n"
        f"    for place in ('{mac.outside}/made', '.envrc', 'made'):\n"
        "        try: open(place, 'w').close()\n"
        "        except OSError: pass\n"
        "    os.rename('go', 'done')\n"
    )
    done = mac.run("--", "/usr/bin/python3", "-I", "-S", "-c", script)
    (mac.work / "go").touch()
    deadline = time.monotonic() + 20
    while not (mac.work / "done").exists() and time.monotonic() < deadline:
        time.sleep(0.01)

    assert done.returncode == 0
    assert sorted(os.listdir(mac.work)) == ["done", "made"]
    assert os.listdir(mac.outside) == []


def test_output_is_bounded(mac: Mac) -> None:
    done = mac.run("--output-limit", "1000", "--", "yes")

    assert len(done.stdout) == 1000
    assert "output limit" in done.stderr


def test_limits_of_a_process_hold(mac: Mac) -> None:
    limits = ("--cap", "files:limit:50", "--cap", "file:limit:64KiB")
    done = mac.run(*limits, "-c", "ulimit -n; head -c 200000 /dev/zero > big; wc -c < big")
    number, size = done.stdout.split()

    assert number == "50"
    assert 0 < int(size) <= 65_536


def test_only_the_permitted_variables_arrive(mac: Mac) -> None:
    mac.env["SECRET"] = "x"  # type: ignore[index]
    done = mac.run("--env", "SHOWN=1", "--", "/usr/bin/env")

    names = {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert "SHOWN" in names
    assert "SECRET" not in names
    assert "PYTHONPATH" not in names


def test_a_protected_name_is_neither_changed_nor_made(mac: Mac) -> None:
    subprocess.run(["git", "init", "-q", mac.work], check=True, env={**mac.env})
    script = "echo x > .git/hooks/pre-commit; echo x > .envrc; mv .git elsewhere; echo y > .git/made"
    before = sorted(os.listdir(mac.work / ".git/hooks"))
    done = mac.run("-c", script)

    assert done.returncode == 0
    assert sorted(os.listdir(mac.work / ".git/hooks")) == before
    assert not (mac.work / ".envrc").exists()
    assert (mac.work / ".git/made").read_text() == "y\n"


def test_a_command_without_further_processes_starts_none(mac: Mac) -> None:
    script = "import os\nprint('alive', flush=True)\npid = os.fork()\nprint('forked', flush=True)"
    done = mac.run("--cap", "process:none", "--", "/usr/bin/python3", "-I", "-S", "-c", script)

    assert done.stdout == "alive\n"


def test_no_socket_reaches_the_host(mac: Mac, tcp_listener) -> None:
    host, port = tcp_listener.address
    script = f"import socket; s = socket.create_connection(('{host}', {port})); s.send(b'x')"
    argv = ["/usr/bin/python3", "-I", "-S", "-c", script]
    assert subprocess.run(argv, check=False).returncode == 0
    assert tcp_listener.take() == b"x"

    done = mac.run("--", *argv)

    assert done.returncode != 0
    assert tcp_listener.take() == b""


def test_the_profile_is_nobodys_to_read_while_the_command_runs(mac: Mac) -> None:
    """Private, unique, out of the command's reach, and gone when it has ended."""
    place = f"{mac.env['HOME']}/.local/state/corral/profiles"
    script = f"ls {place}; cat {place}/*; echo ready > ready; while [ ! -e go ]; do sleep 0.01; done"
    process = subprocess.Popen(
        [*_line(mac), "-c", script],
        cwd=mac.work,
        env=dict(mac.env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    _await(mac.work / "ready")
    (name,) = os.listdir(place)
    mode = os.stat(f"{place}/{name}").st_mode & 0o777
    above = os.stat(place).st_mode & 0o777
    (mac.work / "go").touch()
    out, _ = process.communicate(timeout=30)

    assert (mode, above) == (0o600, 0o700)
    assert out == ""
    assert mac.left == []


def test_a_killed_corral_leaves_what_the_next_run_removes(mac: Mac) -> None:
    process = subprocess.Popen(
        [*_line(mac), "-c", "echo $$ > pid.new; mv pid.new pid; sleep 60"],
        cwd=mac.work,
        env=dict(mac.env),
        stdout=subprocess.DEVNULL,
    )
    _await(mac.work / "pid")
    process.kill()
    process.wait()
    os.killpg(int((mac.work / "pid").read_text()), 9)
    left = mac.left
    for path in left:
        os.utime(path, (1, 1))
    mac.run("--", "true")

    assert len(left) == 2  # the private home, and the profile
    assert mac.left == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--version",), "corral"),
        (("doctor",), f"--backend seatbelt --waive\n{','.join(sorted(WAIVED))}`."),
        (("doctor", "--json"), '"platform": "darwin"'),
        (("explain", "--backend", "seatbelt", *GIVEN_UP, "-v", "--", "true"), "(deny default)"),
        (("policy", "show"), "filesystem:write:${workspace}"),
        (("policy", "check"), ""),
        (("why", "read", "/etc/shadow"), "no rule grants it"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_other_commands_work_without_what_only_linux_has(mac: Mac, words, expected: str) -> None:
    done = mac.corral(*words)

    assert expected in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr


def test_a_run_that_gives_nothing_up_says_what_to_type(mac: Mac) -> None:
    done = mac.corral("run", "--", "true")

    assert done.returncode == 3
    assert f"--backend seatbelt --waive {','.join(sorted(WAIVED))}" in done.stderr


def test_results_tell_how_the_command_was_confined(mac: Mac) -> None:
    done = mac.run("--json", "-c", "echo x > /etc/made-by-corral; sleep 0.4")
    told = json.loads(done.stdout)

    assert told["enforcement"]["backend"] == "seatbelt"
    assert told["enforcement"]["enforced"]["fs.write"] == "Seatbelt profile"
    assert sorted(told["enforcement"]["waived"]) == sorted(WAIVED)


def _line(mac: Mac) -> list[str]:
    python = (sys.executable, "-m", "support.mac_python", mac.program)
    return [*python, "corral", "run", "--backend", "seatbelt", *GIVEN_UP]


def _await(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)


def _ended(pid: int) -> bool:
    """Whether it is gone, or only waits to be waited for."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        asking = ["ps", "-o", "stat=", "-p", str(pid)]
        told = subprocess.run(asking, capture_output=True, text=True, check=False)
        if not told.stdout.strip() or told.stdout.startswith("Z"):
            return True
        time.sleep(0.01)
    return False
