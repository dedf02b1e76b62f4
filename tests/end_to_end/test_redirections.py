"""Redirections: files of the caller's as stdin and stdout, where the policy does not grant writing them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from corral.streams.doors import Doors
from support.doors import make_deep_directory, make_null_device
from support.gates import PATIENCE_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from corral import Sandbox

LINE = (sys.executable, "-m", "corral", "run")
LINES = "".join(f"{number}\n" for number in range(50_000))


def run(project: Path, *arguments: str, **streams: object) -> CompletedProcess[bytes]:
    streams.setdefault("stdin", subprocess.DEVNULL)
    streams.setdefault("stdout", subprocess.PIPE)
    streams.setdefault("stderr", subprocess.PIPE)
    # Variables of the tests' own are none that corral knows.
    streams["env"] = {n: v for n, v in os.environ.items() if not n.startswith("CORRAL_TEST_")}
    return subprocess.run((*LINE, *arguments), cwd=project, timeout=60, check=False, **streams)  # type: ignore[call-overload, no-any-return]


def read_line(descriptor: int) -> bytes:
    """As a shell's `read`, which takes no more than the line."""
    line = b""
    while not line.endswith(b"\n") and (piece := os.read(descriptor, 1)):
        line += piece
    return line


@pytest.fixture
def nameless(tmp_path: Path) -> int:
    """A file with lines whose name is gone, though it has another one: it cannot be opened anew."""
    (tmp_path / "lines").write_text(LINES)
    os.link(tmp_path / "lines", tmp_path / "other")
    opened = os.open(tmp_path / "lines", os.O_RDONLY)
    (tmp_path / "lines").unlink()
    yield opened
    os.close(opened)


@pytest.mark.parametrize("flags", [os.O_WRONLY | os.O_APPEND, os.O_PATH], ids=["write-only", "path"])
def test_what_the_caller_cannot_read_from_the_command_cannot_either(
    project: Path, tmp_path: Path, flags: int
) -> None:
    """As by `corral run -- cat 0>> log`."""
    (tmp_path / "log").write_text("SECRET")
    log = os.open(tmp_path / "log", flags)
    try:
        done = run(project, "--", "cat", stdin=log)
    finally:
        os.close(log)

    assert b"SECRET" not in done.stdout
    assert done.returncode == 125
    assert b"the command did not run: the command's input and output could not be set up" in done.stderr


def test_a_file_beneath_a_private_area_stays_as_it_is(project: Path) -> None:
    """As by `corral run < cache/file`: the area hides it, though all around it may be written."""
    (project / "cache").mkdir()
    given = project / "cache/file"
    given.write_text("mine")

    with given.open("rb") as stdin:
        private = f"filesystem:private:{project}/cache"
        done = run(project, "--cap", private, "-c", "cat; echo evil > /proc/self/fd/0", stdin=stdin)

    assert done.stdout == b"mine", done.stderr
    assert given.read_text() == "mine"


def test_no_device_is_opened_anew(tmp_path: Path) -> None:
    """A read-only mount keeps nobody from writing to a device."""
    from corral import Sandbox

    with (
        open(make_null_device(tmp_path / "null"), "rb") as null,
        pytest.raises(OSError, match="opened again"),
    ):
        os.close(doors_of(Sandbox(workspace=tmp_path)).open_anew(null.fileno()))


def doors_of(sandbox: Sandbox) -> Doors:
    explanation = sandbox.explain(["true"])
    return Doors(explanation.plan, explanation.launch)


def test_what_several_commands_print_into_one_file_is_all_there(project: Path, tmp_path: Path) -> None:
    """As after `exec 0<>log 1>&0`: input and output are one file, with one offset."""
    log = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
    try:
        for number in range(3):
            run(project, "--", "echo", str(number), stdin=log, stdout=log)
    finally:
        os.close(log)

    assert (tmp_path / "log").read_text() == "0\n1\n2\n"


def test_a_caller_who_reads_on_meanwhile_is_not_set_back(project: Path, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text(LINES)
    os.mkfifo(project / "cue")
    lines = os.open(tmp_path / "lines", os.O_RDONLY)
    command = subprocess.Popen(
        (*LINE, "-c", "echo begun; read word < cue"), cwd=project, stdin=lines, stdout=subprocess.PIPE
    )
    try:
        assert command.stdout is not None and command.stdout.readline() == b"begun\n"
        assert (read_line(lines), read_line(lines)) == (b"0\n", b"1\n")
        (project / "cue").write_text("now\n")
        assert command.wait(PATIENCE_SECONDS) == 0
        assert read_line(lines) == b"2\n"
    finally:
        command.kill()
        command.communicate()
        os.close(lines)


@pytest.mark.parametrize("count", [1, 50_000])
def test_the_caller_reads_on_where_the_command_stopped(project: Path, tmp_path: Path, count: int) -> None:
    (tmp_path / "lines").write_text(LINES)
    lines = os.open(tmp_path / "lines", os.O_RDONLY)
    try:
        done = run(project, "-c", "read word; echo $word" if count == 1 else "wc -l", stdin=lines)
        assert done.stdout.strip() == (b"0" if count == 1 else b"50000")
        assert read_line(lines) == (b"1\n" if count == 1 else b"")
    finally:
        os.close(lines)


@pytest.mark.parametrize("begins_at", [0, 49_990], ids=["long", "short"])
def test_a_file_that_comes_by_a_pipe_is_read_on_where_the_command_stopped(
    project: Path, nameless: int, begins_at: int
) -> None:
    os.lseek(nameless, LINES.index(f"\n{begins_at}\n") + 1 if begins_at else 0, os.SEEK_SET)

    done = run(project, "-c", "read word; echo $word", stdin=nameless)

    assert done.stdout == f"{begins_at}\n".encode()
    assert read_line(nameless) == f"{begins_at + 1}\n".encode()


@pytest.mark.parametrize("option", ["--output-limit=1GB", "-t"])
def test_a_full_disk_is_told(project: Path, option: str) -> None:
    with open("/dev/full", "wb") as full:
        done = run(project, option, "--", "echo", "important", stdout=full)

    assert done.returncode == 125
    assert b"the command ran: what it printed could not be written" in done.stderr
    assert b"No space left on device" in done.stderr


@pytest.mark.parametrize("number", [0, 1], ids=["stdin", "stdout"])
def test_a_file_whose_path_is_too_long_to_be_told_is_used(project: Path, tmp_path: Path, number: int) -> None:
    directory = make_deep_directory(tmp_path)
    deep = os.open("file", os.O_RDWR | os.O_CREAT, dir_fd=directory)
    try:
        os.write(deep, b"content\n")
        os.lseek(deep, 0, os.SEEK_SET)
        done = run(
            project, "--", *(("cat",), ("echo", "printed"))[number], **{("stdin", "stdout")[number]: deep}
        )
        assert done.returncode == 0, done.stderr
        assert (done.stdout or os.pread(deep, 100, 0)) == (b"content\n", b"printed\n")[number]
    finally:
        os.close(deep)
        os.close(directory)


def test_a_file_that_cannot_be_read_is_an_error_of_the_callers(project: Path) -> None:
    with open("/proc/self/ns/net", "rb") as namespace:
        done = run(project, "--", "cat", stdin=namespace)

    assert done.returncode == 125
    assert b"the command did not run: its input could not be read" in done.stderr
