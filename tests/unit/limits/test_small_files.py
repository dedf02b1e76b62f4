"""The small files of control groups: read whole, or as nothing; and a look at a tree by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from corral.limits.files import read, read_counter, read_number, write
from corral.limits.tree import look_at_tree


def test_what_is_not_there_is_empty(tmp_path: Path) -> None:
    assert (read(str(tmp_path / "x")), read(""), read(str(tmp_path))) == ("", "", "")
    assert (read_number(""), read_counter("", "max")) == (None, None)


def test_a_file_that_the_kernel_gives_in_pieces_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does with `cgroup.procs`: no more than a page at a time."""
    pieces = [b"1\n2\n", b"3\n", b""]
    monkeypatch.setattr(os, "read", lambda *_: pieces.pop(0))

    assert read("/dev/null") == "1\n2\n3\n"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7\n", 7),
        ("0", 0),
        (" 12 ", 12),
        ("max\n", None),
        ("-1\n", None),
        ("", None),
        ("1 2", None),
        ("²", None),
    ],
)
def test_a_number_is_the_whole_of_a_file(tmp_path: Path, text: str, number: int | None) -> None:
    (tmp_path / "file").write_text(text)

    assert read_number(str(tmp_path / "file")) == number


def test_a_counter_is_found_by_its_whole_name(tmp_path: Path) -> None:
    (tmp_path / "events").write_text("oom_kill_disable 9\noom_kill x\noom_kill 3\noom 4\nbare\n")

    assert read_counter(str(tmp_path / "events"), "oom_kill") == 3
    assert read_counter(str(tmp_path / "events"), "oom_kill_disable") == 9
    assert read_counter(str(tmp_path / "events"), "bare") is None
    assert read_counter(str(tmp_path / "events"), "") is None


def test_no_file_is_made_by_writing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write(str(tmp_path / "memory.max"), 1)
    assert list(tmp_path.iterdir()) == []


def test_a_tree_is_all_descendants_and_not_the_root() -> None:
    script = (
        "import os, sys, time\n"
        "block = bytearray(50_000_000)\n"
        "pid = os.fork()\n"
        "if pid: print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    before = look_at_tree(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdin is not None
    assert child.stdout.readline() == b"ready\n"
    try:
        seen, below = look_at_tree(os.getpid()), look_at_tree(child.pid)
    finally:
        child.stdin.close()
        child.wait(timeout=10)
        child.stdout.close()

    assert (seen.pids, below.pids) == ((before.pids or 0) + 2, 1)
    assert (seen.memory_bytes or 0) - (before.memory_bytes or 0) > 50_000_000
    assert (seen.user_seconds or 0) >= 0
    assert seen.peak_memory_bytes is None


def test_a_process_that_is_gone_has_no_tree() -> None:
    process = subprocess.Popen(["true"])
    process.wait()

    found = look_at_tree(process.pid)

    assert (found.memory_bytes, found.pids, found.user_seconds) == (0, 0, 0.0)
