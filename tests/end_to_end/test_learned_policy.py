"""`corral learn`: the learned policy lets the same run, and refuses what the run did not do."""

from __future__ import annotations

import shutil
import tempfile

import pytest

pytestmark = [
    pytest.mark.starts_sandboxes,
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed"),
]

TESTS = """
import unittest
print("printed by the command, and no part of the policy")

class Test(unittest.TestCase):
    def test_it(self):
        with open("out/report.txt", "w") as file:
            file.write(open("../data/given.txt").read())
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A project with a test that reads beside the project, and writes a report."""
    monkeypatch.setenv("CORRAL_CONFIG", "")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("work/out", "data"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "work/test_it.py").write_text(TESTS)
    (tmp_path / "data/given.txt").write_text("given")
    (tmp_path / "data/other.txt").write_text("other")
    return tmp_path


COMMAND = ("--", "/usr/bin/python3", "-B", "-m", "unittest", "-q", "test_it")


def test_what_was_learned_lets_that_run_again_and_refuses_three_other_things(
    corral, place, monkeypatch
) -> None:
    given = str(place / "data/given.txt")
    learned = corral("learn", "--read", given, *COMMAND, cwd=place / "work")
    assert learned.returncode == 0, learned.stderr
    assert b"report.txt" in learned.stdout and b"printed by" in learned.stderr
    own = place / "learned.toml"
    own.write_bytes(learned.stdout)
    monkeypatch.setenv("CORRAL_CONFIG", str(own))

    (place / "work/out/report.txt").write_text("")
    assert corral("run", *COMMAND, cwd=place / "work").returncode == 0
    assert (place / "work/out/report.txt").read_text() == "given"

    for line, harm in (
        ("echo harm > out/other.txt", place / "work/out/other.txt"),
        ("echo harm >> test_it.py", place / "work/test_it.py"),
        (f"cat {place}/data/other.txt > out/report.txt", place / "work/out/report.txt"),
    ):
        before = harm.read_bytes() if harm.exists() else None
        done = corral("run", "-c", f"echo alive; {line}", cwd=place / "work")
        after = harm.read_bytes() if harm.exists() else None
        assert b"alive" in done.stdout
        assert done.returncode != 0
        assert b"harm" not in (after or b"")
        assert b"other" not in (after or b"") or before == after

    assert not list(place.glob("**/corral-learn-*"))


def test_runs_add_up_and_the_file_is_written_after_the_difference_was_shown(corral, place) -> None:
    work = place / "work"
    corral("learn", "-c", "mkdir made && echo x > made/a", cwd=work)
    corral("learn", "-c", "echo y > out/b", cwd=work)
    shown = corral("learn", cwd=work).stdout
    assert b'"${workspace}/made"' in shown
    assert b'"${workspace}/out/b"' in shown

    refused = corral("learn", "--apply", cwd=work)
    assert refused.returncode == 1
    assert b"nothing was changed" in refused.stdout
    assert not (work / "corral.toml").exists()

    applied = corral("learn", "--apply", "--yes", cwd=work)
    assert b"+++" in applied.stdout
    assert (work / "corral.toml").read_bytes() == shown
    (work / "corral.toml").write_text("[sandbox]\n")
    assert b"written it by hand" in corral("learn", "--apply", "--yes", cwd=work).stderr


def test_a_trace_that_the_command_made_a_pipe_or_a_link_of_is_not_read(corral, place) -> None:
    for plant in ("mkfifo", "ln -s /etc/passwd"):
        line = f"cd {tempfile.gettempdir()}/corral-learn-*/ && rm trace && {plant} trace"
        done = corral("learn", "-c", line, cwd=place / "work")

        assert done.returncode == 2
        assert b"nothing was traced" in done.stderr


def test_nothing_is_learned_without_a_sandbox(corral, place) -> None:
    done = corral("learn", "--no-sandbox", "-c", "touch ran", cwd=place / "work")

    assert done.returncode == 2
    assert b"in a sandbox only" in done.stderr
    assert not (place / "work/ran").exists()
    assert b"nothing was learned" in corral("learn", cwd=place / "work").stderr
