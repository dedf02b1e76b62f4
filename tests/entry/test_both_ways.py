"""The same in everything: what a run says and gives back, with Python and without."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from corral.git_check import unchecked
from support.keeping import wait_until

_RUN_ID = re.compile(r"[0-9a-f]{16}")

_HOOK = "sub/.git/hooks/post-checkout"
_TRAP = f"mkdir -p sub; git init -q sub; printf '#!/bin/sh\\n' > {_HOOK}; chmod +x {_HOOK}"

#: A command line, and which way it goes the second time.
REQUESTS = (
    (("--", "true"), "native"),
    (("--", "false"), "native"),
    (("-c", "echo out; echo err >&2; exit 3"), "native"),
    (("-c", "env | sort; pwd; umask; id"), "native"),
    (("-c", "head -c 300000 /dev/zero | tr '\\0' x"), "native"),
    (("-c", "mkdir made; echo x > made/file; rm -r made"), "native"),
    (("--", "cat", "/etc/shadow"), "native"),
    (("--timeout", "30s", "--", "true"), "native"),
    (("-p", "strict", "--", "ls", "/"), "native"),
    (("-p", "strict", "-c", "head -c 300000 /dev/zero | tr '\\0' x; echo err >&2"), "native"),
    (("-p", "strict", "-c", "head -c 1100000 /dev/zero | tr '\\0' x"), "continued"),
    (("--output-limit", "9", "-c", "echo 12345; echo 6789 >&2; sleep 9"), "continued"),
    (("--net", "full", "--", "true"), "native"),
    (("--", "no-such-program"), "python"),
    (("-c", "touch .bashrc; sleep 0.2"), "continued"),
    (("-c", "echo x > ~/lost.txt"), "continued"),
    (("-c", "getent hosts example.org"), "continued"),
    (("-c", "echo x > /usr/x"), "continued"),
    (("-c", "mount -t tmpfs x /mnt"), "continued"),
    (("-c", "kill -9 $$"), "continued"),
    (("-c", "docker ps 2>/dev/null || exit 1"), "continued"),
    (("--timeout", "1s", "-c", "sleep 9"), "continued"),
    (("--json", "--", "true"), "python"),
    (("-v", "--", "true"), "python"),
    (("--no-such-flag", "--", "true"), "python"),
)


def _plain(text: str) -> list[str]:
    """Without what is different in each run: also which comes first, corral's line or the command's own."""
    text = _RUN_ID.sub("ID", text)
    text = re.sub(r'"(duration|wall|user|system|peak)_\w+": [\d.e-]+|after [\d.]+ s', "N", text)
    return sorted(text.splitlines())


@pytest.mark.parametrize(("words", "way"), REQUESTS, ids=[" ".join(words) for words, _ in REQUESTS])
def test_both_ways_tell_the_same(shared, words, way) -> None:
    options = words[: words.index("-c" if "-c" in words else "--")]
    if way != "python" and options not in shared.warmed:
        shared.run(*options, "--", "true")  # which leaves the plan
        shared.warmed.add(options)

    went, status, out, errors = shared.run(*words)
    assert went == way
    other = shared.run_by_python(*words)
    if "--json" not in words:
        assert (status, _plain(out), _plain(errors)) == (other[0], _plain(other[1]), _plain(other[2]))
    assert status == other[0]


def test_a_signal_is_passed_on(warm) -> None:
    process = warm.start(
        "run", "-c", "trap 'echo got it; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)

    assert process.communicate(timeout=30)[0] == "got it\n"
    assert process.returncode == 7


def test_a_repository_is_worked_in_without_python(entry) -> None:
    (entry.workspace / "file").write_text("1\n")
    entry.git("init", "-q")
    entry.git("add", "-A")
    entry.git("commit", "-qm", "one")
    entry.run("--", "true")
    identity = "git -c user.name=a -c user.email=a@example.org"

    for line in (
        "git status",
        "echo 2 > file; mkdir d; echo 3 > d/x",
        "git add -A",
        f"{identity} commit -qm two",
    ):
        assert entry.run("-c", line)[:2] == ("native", 0)
    assert entry.git("log", "--format=%s").split() == ["two", "one"]
    assert entry.run("--", "true")[0] == "native"


def test_a_setting_of_git_is_taken_over_by_python(entry) -> None:
    entry.git("init", "-q")
    entry.run("--", "true")

    assert entry.run("-c", "git config user.name somebody")[:2] == ("continued", 0)
    assert "somebody" in (entry.workspace / ".git/config").read_text()
    way, _, _, errors = entry.run(
        "-c", "git config core.fsmonitor /bin/evil; git config core.pager /bin/evil"
    )
    assert "not taken over" in errors
    assert way in {"continued", "python"}
    assert "evil" not in (entry.workspace / ".git/config").read_text()


def test_a_planted_repository_goes_to_quarantine(warm) -> None:
    way, _, _, errors = warm.run("-c", _TRAP)

    assert way == "continued"
    assert "post-checkout" in errors
    assert not (warm.workspace / _HOOK).exists()


def test_what_a_killed_run_left_is_checked_by_the_next(warm) -> None:
    process = warm.start("run", "-c", f"{_TRAP}; echo ready; sleep 60")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.kill()
    process.communicate(timeout=30)
    marks = [*(warm.home / ".local/state/corral/unchecked").iterdir()]
    assert len(marks) == 1
    assert marks[0].read_bytes().startswith(unchecked.OF_ENTRY)

    way, _, _, errors = warm.run("--", "true")
    assert way == "python"
    assert "was not checked when it ended" in errors
    assert not (warm.workspace / _HOOK).exists()


def test_after_a_killed_run_somebody_looks_though_there_is_nothing(warm) -> None:
    process = warm.start("run", "-c", "echo ready; sleep 60")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.kill()
    process.communicate(timeout=30)

    assert warm.run("--", "true")[0] == "python"


def test_others_see_it_while_it_lasts(warm) -> None:
    process = warm.start("run", "-c", "touch began; until [ -e go ]; do sleep 0.01; done")
    runs = warm.home / ".local/state/corral/sessions/runs"
    wait_until((warm.workspace / "began").exists, "it runs")
    wait_until(lambda: [name for name in os.listdir(runs) if name[0] != "."], "it is seen")
    (name,) = os.listdir(runs)
    facts = dict(fact.split(b"=", 1) for fact in (runs / name).read_bytes().split(b"\0") if fact)

    assert os.readlink(f"/proc/{int(facts[b'pid'])}/exe") == str(warm.program)  # and no Python
    assert (facts[b"policy"], facts[b"state"]) == (b"moderate", b"running")
    (warm.workspace / "go").touch()
    assert process.communicate(timeout=60) == ("", "")
    assert os.listdir(runs) == []


def test_a_directory_as_stdin_is_refused_in_words(warm) -> None:
    line = 'exec "$0" run -- true < .'
    done = subprocess.run(
        ["sh", "-c", line, warm.program], cwd=warm.workspace, capture_output=True, check=False
    )

    assert done.returncode == 2
    assert b"stdin is a directory" in done.stderr


_SENT_EARLY = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
os.kill(os.getpid(), signal.SIGTERM)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_signal_that_comes_early_ends_the_command_and_not_its_sandbox(warm) -> None:
    """It is there when the program starts, and stays blocked until that reads it."""
    program = (sys.executable, "-c", _SENT_EARLY, str(warm.program))

    way, code, _, errors = warm.run("-c", "sleep 50", program=program)

    assert way != "python"  # the control: it came to the entry program
    assert (code, errors) == (128 + signal.SIGTERM, "")
