"""A tool is run to its end; if corral is asked to end, the tool ends first, whether it wants to or not."""

from __future__ import annotations

import os
import signal
import subprocess
import threading

import pytest

from corral.images import tool
from corral.images.tool import Ended, Interrupted, interruptible, run_tool
from corral.model.errors import SetupError


def test_what_a_tool_prints_is_kept() -> None:
    ended = run_tool(["sh", "-c", "cat; echo oops >&2; exit 3"], stdin="hello")

    assert ended == Ended(3, "hello", ("oops",))


def test_lines_come_as_they_are_written_and_the_last_are_kept() -> None:
    lines: list[str] = []

    ended = run_tool(["sh", "-c", "cat >&2; seq 100 >&2; exit 1"], stdin="first\n", on_line=lines.append)

    assert lines == ["first", *map(str, range(1, 101))]
    assert ended.words == tuple(lines[-40:])


def test_errors_that_are_marked_are_what_is_quoted() -> None:
    assert Ended(1, "", ("I: a", "E: b", "I: c", "E: d")).complaint() == "E: b; E: d"
    assert Ended(1, "", ("a", "b", "c", "d", "e")).complaint(2) == "d; e"
    assert Ended(7, "", ()).complaint() == "it ended with status 7 and said nothing"


def test_a_tool_that_cannot_be_started_is_an_error(tmp_path) -> None:
    with pytest.raises(SetupError) as caught:
        run_tool([str(tmp_path)])

    assert caught.value.code == "image-tool-start"


def test_a_tool_that_does_not_answer_is_ended() -> None:
    ended = run_tool(["sleep", "600"], patience_seconds=0.1)

    assert ended.status != 0
    assert "does not answer within 0.1 seconds" in ended.complaint()


def test_a_tool_that_is_being_started_is_ended_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is there before its starter knows."""
    reading, writing = os.pipe()
    start = subprocess.Popen

    def interrupted(*arguments: object, **options: object) -> subprocess.Popen[str]:
        process = start(*arguments, **options)  # type: ignore[call-overload]
        os.kill(os.getpid(), signal.SIGTERM)
        return process

    monkeypatch.setattr(tool.subprocess, "Popen", interrupted)
    with pytest.raises(Interrupted), interruptible():
        run_tool(["sleep", "600"], inherited=writing)
    os.close(writing)

    assert os.read(reading, 1) == b""
    os.close(reading)


@pytest.mark.parametrize("deaf", [False, True], ids=["polite", "deaf"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_ends_the_tool_and_its_children(
    deaf: bool, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever lives holds the pipe open; its end is the proof that nobody does."""
    monkeypatch.setattr(tool, "_PATIENCE_SECONDS", 0.3 if deaf else 60)
    reading, writing = os.pipe()
    trap = "trap '' TERM HUP INT; " if deaf else ""
    script = f"{trap}sleep 600 & echo ready >&2; wait; sleep 600"
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]

    def interrupt(_line: str) -> None:
        threading.Timer(0.05, os.kill, (os.getpid(), number)).start()

    with pytest.raises(Interrupted) as caught, interruptible():
        run_tool(["sh", "-c", script], on_line=interrupt, inherited=writing)
    os.close(writing)

    assert caught.value.number == number
    assert os.read(reading, 1) == b""
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before
    os.close(reading)
