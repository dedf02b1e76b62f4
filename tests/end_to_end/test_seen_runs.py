"""A real run is seen from outside while it lasts; the command itself can neither see nor change that."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from corral.cli.top.overview import Overview
from corral.cli.top.row import ENDED, FAILED, RUNNING, SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Corral
    from corral.cli.top.row import Line, Row

#: Says where it is, waits for a line, then ends as it is told.
_WAITS = "echo ready; read line; exit $line"


@pytest.fixture(autouse=True)
def _no_runtime_directory(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)


def _corral(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "corral", *arguments]


class Watcher:
    """Looks until something is so."""

    def __init__(self) -> None:
        self.overview = Overview()
        self.rows: list[Row] = []
        self.lines: list[Line] = []

    def until(self, is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + 30
        while not is_so():
            assert time.monotonic() < deadline, (self.rows, self.lines)
            self.rows, new = self.overview.look()
            self.lines += new

    def state(self) -> str:
        return self.rows[-1].state if self.rows else ""


@pytest.mark.parametrize(("status", "state"), [("0", ENDED), ("3", FAILED)])
def test_a_run_is_seen_until_its_end(project: Path, status: str, state: str) -> None:
    watcher = Watcher()
    with subprocess.Popen(
        _corral("run", "-p", "strict", "-c", _WAITS),
        cwd=project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        watcher.until(lambda: watcher.state() == RUNNING)
        (row,) = watcher.rows
        assert (row.backend, row.policy, row.workspace) == ("native", "strict", str(project))
        assert (row.name, row.pid) == (_WAITS, process.pid)
        watcher.until(lambda: watcher.rows[0].memory_bytes)
        process.stdin.write(f"{status}\n")
        process.stdin.close()

    watcher.until(lambda: watcher.state() == state)


def test_what_is_refused_is_told_while_the_command_runs(project: Path) -> None:
    watcher = Watcher()
    script = "mkdir -p .git/hooks; echo x > .git/hooks/post-commit; echo ready; read line"
    with subprocess.Popen(
        _corral("run", "--allow", "api.example.org", "-c", f"getent hosts evil.example; {script}"),
        cwd=project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        # The network's own line may come alone; the event with its hint follows.
        watcher.until(lambda: any("--allow evil.example" in line.text for line in watcher.lines))
        assert process.poll() is None  # it waits for its line
        process.stdin.close()


def _tampering(place: Path) -> str:
    """Reads and overwrites every run that it finds."""
    overwrite = f"for f in {place}/*; do echo FORGED > $f; done; touch {place}/new"
    return f"cat {place}/* 2>/dev/null | tr '\\0' ' '; {overwrite}"


def _attack(project: Path, script: str, *options: str) -> str:
    """What a script prints that begins when its run can be seen."""
    watcher = Watcher()
    with subprocess.Popen(
        _corral("run", *options, "-c", f"read line; echo alive; {script}"),
        cwd=project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        watcher.until(lambda: watcher.state() == RUNNING)
        return process.communicate("begin\n")[0]


@pytest.mark.parametrize("profile", ["moderate", "permissive"])
def test_a_command_cannot_see_or_change_the_runs(project: Path, home: Path, profile: str) -> None:
    place = home / ".local/state/corral/sessions/runs"
    script = _tampering(place)

    said = _attack(project, script, "-p", profile, "--read", str(home))

    assert "alive" in said
    assert "corral-run" not in said
    assert list(place.iterdir()) == []
    # The same unconfined does its harm: so the script works.
    assert "corral-run=1" in _attack(project, script, "--no-sandbox")
    assert [path.name for path in place.iterdir()] == ["new"]


def test_sessions_and_what_they_are_refused_are_seen(corral: Corral, project: Path) -> None:
    watcher = Watcher()
    assert corral("session", "start", "mine", "--allow", "api.example.org", "--agent", "x").returncode == 2
    assert corral("session", "start", "mine", "--allow", "api.example.org").returncode == 0
    try:
        corral("session", "exec", "mine", "--", "getent", "hosts", "evil.example")
        watcher.until(lambda: any("evil.example" in line.text for line in watcher.lines))
        row = watcher.rows[0]
        assert (row.kind, row.name, row.state, row.backend) == (SESSION, "mine", RUNNING, "native")
        told = json.loads(corral("top", "--json").stdout)
        assert [row["name"] for row in told["rows"]] == ["mine"]
        assert any("evil.example" in event["text"] for event in told["events"])
    finally:
        assert corral("session", "stop", "mine").returncode == 0


def test_looking_again_and_again_leaves_no_descriptor_open(corral: Corral) -> None:
    assert corral("session", "start", "mine").returncode == 0
    watcher = Watcher()
    watcher.until(lambda: watcher.state() == RUNNING)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        watcher.overview.look()
    assert len(os.listdir("/proc/self/fd")) <= before

    assert corral("session", "stop", "mine").returncode == 0
    watcher.overview.look()
    assert len(os.listdir("/proc/self/fd")) < before


def test_without_a_terminal_there_is_no_view(corral: Corral) -> None:
    done = corral("top", TERM="xterm")

    assert done.returncode == 2
    assert b"needs a terminal" in done.stderr


def test_a_runs_policy_can_be_shown(project: Path) -> None:
    from corral.cli.top import act

    watcher = Watcher()
    with subprocess.Popen(
        _corral("run", "-p", "strict", "--read", "/srv", "-c", _WAITS),
        cwd=project,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ},
    ) as process:
        watcher.until(lambda: watcher.state() == RUNNING)
        text = "\n".join(act.describe_policy(watcher.rows[0]))
        assert "strict" in text
        assert "/srv" in text
        assert act.end(watcher.rows[0], watcher.overview, at_once=True) == "ended"
        assert process.stdin is not None
        process.stdin.close()
    assert process.returncode != 0
