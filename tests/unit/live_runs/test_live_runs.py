"""A run can be seen by other processes while it lasts, and nobody can be fooled by what it is called."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from corral.cli.seen import NotedRun
from corral.live_runs.live_run import MOST_BYTES, LiveRun, open_live_run
from corral.live_runs.seen_run import ENDED, LOST, RUNNING, STARTING, RunDirectory
from corral.model.event import Event, EventKind
from corral.model.feature import Feature
from corral.model.network.traffic import NetAction, NetEvent, NetReason
from corral.model.violation import Evidence
from corral.sandbox import Sandbox

FACTS = {"backend": "native", "policy": "moderate", "net": "none", "workspace": "/w", "agent": "codex"}
_HOLDER = """
import sys
from corral.live_runs.live_run import open_live_run
live = open_live_run()
live.begin("other", ("sleep", "9"), backend="native", policy="p", net="none", workspace="/", agent="")
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of runs."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    return tmp_path / "corral" / "sessions" / "runs"


def _begun(name: str = "run", argv: tuple[str, ...] = ("true",)) -> LiveRun:
    live = open_live_run()
    assert live is not None
    live.begin(name, argv, **FACTS)
    return live


def _refusal(subject: str) -> Event:
    return Event(EventKind.REFUSED, Feature.FS_READ, subject, Evidence.OBSERVED, "no", "filesystem:read:/x")


def test_a_run_is_seen_from_its_start_to_its_end(place: Path) -> None:
    directory = RunDirectory()
    live = _begun(argv=("echo", "a b"))
    (run,) = directory.look()
    assert (run.facts.argv, run.facts.agent, run.facts.pid) == (("echo", "a b"), "codex", os.getpid())
    assert (run.read_new(), run.state) == ([], STARTING)

    live.note_started()
    live.note_event(_refusal("/etc/shadow"))
    live.note_network(NetEvent(NetAction.CONNECT, True, NetReason.GRANTED, "example.org", 443))
    told = run.read_new()
    assert run.state == RUNNING
    assert [facts.get("subject", facts.get("host")) for facts in told] == ["/etc/shadow", "example.org"]

    live.end(3, "exit status 3")
    assert list(place.iterdir()) == []  # nothing is left
    (same,) = directory.look()
    assert (same.read_new(), same.state, same.status) == ([], ENDED, 3)
    assert directory.look() == []


def test_what_is_refused_before_the_run_can_be_seen_is_told_as_well(tmp_path: Path) -> None:
    """Other threads tell of a command's first calls while this one has yet to hear that it has started."""
    sandbox = Sandbox("strict", workspace=tmp_path)
    run = NotedRun(SimpleNamespace(sandbox=sandbox), sandbox.read_command(["true"]), {"agent": None})
    run.planned = SimpleNamespace(backend="native", run_id="run")
    run.note_network(NetEvent(NetAction.LOOKUP, False, NetReason.NOT_GRANTED, "example.org"))
    run.note_event(_refusal("/etc/shadow"))
    run.note_started()
    run.note_event(_refusal("/etc/gshadow"))

    (seen,) = RunDirectory().look()
    told = seen.read_new()
    assert seen.state == RUNNING
    assert [facts.get("subject", facts.get("host")) for facts in told] == [
        *("example.org", "/etc/shadow", "/etc/gshadow")
    ]
    run.close()


def test_the_directory_is_the_users_alone(place: Path) -> None:
    _begun().close()

    assert place.stat().st_mode & 0o777 == 0o700
    assert place.parent.stat().st_mode & 0o777 == 0o700
    place.chmod(0o755)
    assert open_live_run() is None
    assert RunDirectory().look() == []


@pytest.mark.parametrize(
    "text", ["a\0b", "x\0\0state=ended\0\0", "a=b", "\udcff", "", "\n\x1b[31m", "x" * 9000]
)
def test_no_name_forges_a_record(text: str) -> None:
    live = _begun(argv=(text,))
    live.note_event(_refusal(text))
    (run,) = RunDirectory().look()

    (told,) = run.read_new()

    assert run.state == STARTING
    assert run.facts.argv == (text[:512].replace("\0", "\\0"),)
    assert told["subject"] == text[:512].replace("\0", "\\0")
    live.close()


def test_what_a_run_says_is_bounded_and_its_end_comes_through(place: Path) -> None:
    live = _begun()
    (run,) = RunDirectory().look()
    for number in range(3000):
        live.note_event(_refusal(f"{number}{'x' * 500}"))

    assert (place / "run").stat().st_size <= MOST_BYTES
    live.end(0, "done")
    assert 100 < len(run.read_new()) < 3000
    assert run.state == ENDED


def test_a_run_whose_corral_was_killed_is_lost_and_cleared_away(place: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        directory = RunDirectory()
        (run,) = directory.look()
        assert run.read_new() == []
        assert run.state == STARTING
        assert run.send(signal.SIGKILL)
        holder.wait()

        (same,) = directory.look()
        same.read_new()

    assert same.state == LOST
    assert list(place.iterdir()) == []
    assert not run.send(signal.SIGTERM)


def test_what_was_left_by_an_earlier_kill_is_not_shown(place: Path) -> None:
    place.mkdir(parents=True, mode=0o700)
    (place / "old").write_bytes(b"corral-run=1\0id=old\0pid=1\0began=1\0\0")

    assert RunDirectory().look() == []
    assert list(place.iterdir()) == []


def test_files_that_are_no_runs_are_passed_over(place: Path) -> None:
    _begun().close()
    (place / "link").symlink_to("/etc/passwd")
    os.mkfifo(place / "pipe")
    (place / ".unfinished").touch()

    assert RunDirectory().look() == []
    assert {path.name for path in place.iterdir()} == {"link", "pipe", ".unfinished"}


def test_without_a_place_a_run_goes_on_unseen(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    assert open_live_run() is None

    monkeypatch.setenv("XDG_STATE_HOME", str(place.parents[2]))
    live = open_live_run()
    assert live is not None
    place.rmdir()
    live.begin("run", ("true",), **FACTS)  # the directory is gone
    live.note_started()
    live.end(0, "")
