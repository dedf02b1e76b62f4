"""Output that goes to a function, a path or a file: all of it, as it comes, and to nothing else."""

from __future__ import annotations

import gc
import io
import os
import resource
import stat

import pytest

from corral.model.errors import PolicyError, SetupError
from corral.model.policy import Limits
from corral.model.result import Outcome
from corral.runtime.run import Run
from corral.streams.destinations import Destinations
from corral.streams.sinks import TAIL_BYTES
from support.descriptors import count_descriptors
from support.gates import Gate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def run(make_plan, make_launch, tmp_path):
    def go(script: str, limits: Limits | None = None, **output):
        made = make_plan(("/bin/sh", "-c", script), cwd=str(tmp_path), limits=limits)
        wanted = Destinations(**output)
        return Run(made, make_launch(made), quarantine=str(tmp_path / "q"), output=wanted).run()

    return go


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path / "gate")
    yield made
    made.close()


class Heard:
    """Remembers what it was called with."""

    def __init__(self) -> None:
        self.pieces: list[tuple[str, bytes]] = []

    def __call__(self, name: str, data: bytes) -> None:
        self.pieces.append((name, data))

    def all_of(self, wanted: str) -> bytes:
        return b"".join(data for name, data in self.pieces if name == wanted)


def test_a_function_hears_each_stream_by_its_name(run) -> None:
    heard = Heard()
    result = run("echo out; echo err >&2; exit 3", stream=heard)

    assert sorted(heard.pieces) == [("stderr", b"err\n"), ("stdout", b"out\n")]
    assert (result.stdout, result.stderr, result.exit_code, result.truncated) == ("out\n", "err\n", 3, False)


def test_a_piece_is_heard_while_the_command_runs(run, tmp_path: Path) -> None:
    """The command goes on only when its partial line has arrived."""
    os.mkfifo(tmp_path / "answer")

    def answer(_: str, data: bytes) -> None:
        if data == b"ready?":
            (tmp_path / "answer").write_bytes(b"yes\n")

    assert run("printf ready?; read word < answer; echo $word", stream=answer).stdout == "ready?yes\n"


def test_every_byte_arrives_whatever_it_is(run, tmp_path: Path) -> None:
    content = os.urandom(3_000_001)
    (tmp_path / "content").write_bytes(content)
    heard = Heard()
    result = run("cat content; cat content >&2", stream=heard)

    assert heard.all_of("stdout") == content
    assert heard.all_of("stderr") == content
    assert (result.stdout_bytes, result.truncated) == (content[-TAIL_BYTES:], True)
    assert (result.stdout_size, result.stderr_size) == (len(content), len(content))


@pytest.mark.parametrize("problem", [ValueError("no more"), BlockingIOError("not ours"), KeyboardInterrupt()])
def test_what_the_function_raises_ends_the_whole_tree(run, problem: BaseException, gate: Gate) -> None:

    def refuse(_: str, data: bytes) -> None:
        raise problem

    with pytest.raises(type(problem)) as raised:
        run("exec 9>gate; sleep 300 & echo x; sleep 300", stream=refuse)

    assert raised.value is problem
    assert gate.is_left()


def test_what_the_function_raises_at_the_last_piece_is_passed_on(run, gate: Gate) -> None:

    def refuse(_: str, data: bytes) -> None:
        assert gate.is_left()  # the command has ended by itself
        if data.endswith(b"end"):
            raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        run("exec 9>gate; printf begin >&2; printf end", stream=refuse)


def test_a_slow_function_loses_nothing_of_a_command_that_has_ended(run, gate: Gate) -> None:
    heard = Heard()

    def wait_for_the_end(name: str, data: bytes) -> None:
        assert gate.is_left()
        heard(name, data)

    run("exec 9>gate; echo a; echo b >&2; head -c 50000 /dev/zero; echo end", stream=wait_for_the_end)

    assert heard.all_of("stdout") == b"a\n" + b"\0" * 50_000 + b"end\n"
    assert heard.all_of("stderr") == b"b\n"


def test_a_slow_function_holds_the_command_back(run, gate: Gate) -> None:
    ended_meanwhile = []

    def be_slow(_: str, data: bytes) -> None:
        if not ended_meanwhile:
            ended_meanwhile.append(gate.is_left(seconds=0.5))

    result = run("exec 9>gate; head -c 10000000 /dev/zero", stream=be_slow)

    assert ended_meanwhile == [False]
    assert (result.exit_code, result.stdout_size) == (0, 10_000_000)


def test_a_slow_function_does_not_stop_the_clock(run, gate: Gate) -> None:
    def be_slow(_: str, data: bytes) -> None:
        gate.is_left(seconds=0.4)

    result = run("exec 9>gate; yes", Limits(wall_seconds=0.2), stream=be_slow)

    assert (result.outcome, gate.is_left()) == (Outcome.TIMED_OUT, True)


def test_the_limit_counts_what_goes_elsewhere(run, tmp_path: Path) -> None:
    heard = Heard()
    result = run("yes", Limits(output_bytes=100_000), stream=heard, stdout=tmp_path / "log")

    assert (result.outcome, result.truncated) == (Outcome.OUTPUT_LIMIT, True)
    assert len(heard.all_of("stdout")) == 100_000
    assert (tmp_path / "log").read_bytes() == heard.all_of("stdout")


def test_a_path_gets_the_whole_stream_and_the_other_one_is_kept(run, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x" * 10_000_000)
    result = run("seq 1 100000; echo err >&2", stdout=str(tmp_path / "log"))

    assert (tmp_path / "log").read_text() == "".join(f"{n}\n" for n in range(1, 100_001))
    assert (result.stdout_size, result.stderr) == ((tmp_path / "log").stat().st_size, "err\n")
    assert result.stdout.endswith("99999\n100000\n")


def test_a_new_file_is_for_its_owner_alone(run, tmp_path: Path) -> None:
    run("echo x >&2", stderr=tmp_path / "log")

    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600


def test_one_file_for_both_streams_loses_nothing(run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    run("seq 1 9; echo err >&2; seq 10 20", stdout="log", stderr="log")

    assert sorted((tmp_path / "log").read_text().split()) == sorted([*map(str, range(1, 21)), "err"])


def test_the_null_device_is_as_good_as_a_file(run) -> None:
    result = run("seq 1 100000", stdout=os.devnull)

    assert (result.exit_code, result.stdout_size, len(result.stdout)) == (0, 588_895, TAIL_BYTES)


def _directory(place: Path) -> object:
    return place


def _missing_directory(place: Path) -> object:
    return place / "no" / "log"


def _fifo(place: Path) -> object:
    os.mkfifo(place / "log")
    return place / "log"


def _device(_: Path) -> object:
    return "/dev/zero"


def _link(place: Path) -> object:
    (place / "log").symlink_to("victim")
    return place / "log"


def _link_above(place: Path) -> object:
    (place / "logs").symlink_to(".")
    return place / "logs" / "victim"


def _dangling_link(place: Path) -> object:
    (place / "log").symlink_to("planted")
    return place / "log"


def _impossible_name(_: Path) -> object:
    return "lo\0g"


def _unspeakable_name(_: Path) -> object:
    return "lo\ud800g"


def _text_file(place: Path) -> object:
    return (place / "text").open("w")


def _descriptor(_: Path) -> object:
    return 1


@pytest.mark.parametrize(
    "make",
    [
        *(_directory, _missing_directory, _fifo, _device, _link, _link_above, _dangling_link),
        *(_impossible_name, _unspeakable_name, _text_file, _descriptor),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_runs(run, tmp_path: Path, make) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "victim").write_text("valuable")
    target = make(place)
    gc.collect()  # files of other tests, if any are left
    before = count_descriptors()

    with pytest.raises(PolicyError) as refused:
        run("touch mark; echo x", stdout=target)

    assert (refused.value.code, refused.value.ran) == ("output-target", False)
    assert not (tmp_path / "mark").exists()
    assert (place / "victim").read_text() == "valuable"
    assert not (place / "planted").exists()
    assert count_descriptors() <= before


def test_what_cannot_be_called_is_refused_before_anything_runs(run, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="not a function"):
        run("touch mark; echo x", stream="print")

    assert not (tmp_path / "mark").exists()


def test_who_reads_a_fifo_does_not_make_it_a_file(run, tmp_path: Path, gate: Gate) -> None:

    with pytest.raises(PolicyError, match="neither a file nor"):
        run("echo x", stdout=tmp_path / "gate")


class Halves:
    """Takes half of what it is given, as a pipe may."""

    def __init__(self) -> None:
        self.taken = b""

    def write(self, data: bytes) -> int:
        half = data[: (len(data) + 1) // 2]
        self.taken += half
        return len(half)


class Silent:
    """Does not say how much it took: all."""

    def __init__(self) -> None:
        self.taken = b""

    def write(self, data: bytes) -> None:
        self.taken += data


@pytest.mark.parametrize("kind", [Halves, Silent])
def test_anything_with_a_write_will_do(run, kind) -> None:
    file = kind()
    run("seq 1 20000", stdout=file)

    assert file.taken == "".join(f"{n}\n" for n in range(1, 20_001)).encode()


def test_a_file_of_the_caller_is_complete_and_stays_open(run, tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        log.write(b"before\n")
        run("echo out", stdout=log)

        assert (tmp_path / "log").read_text() == "before\nout\n"
        assert not log.closed


def test_memory_of_the_caller_may_hold_as_much_as_he_likes(run) -> None:
    memory = io.BytesIO()
    run("head -c 20000000 /dev/zero", stdout=memory)

    assert len(memory.getvalue()) == 20_000_000


@pytest.mark.parametrize("buffering", [0, -1])
def test_a_full_disk_ends_the_run_and_is_told(run, buffering: int, gate: Gate) -> None:
    with pytest.raises(SetupError) as failed:
        with open("/dev/full", "wb", buffering=buffering) as full:
            run("exec 9>gate; sleep 300 & yes", stdout=full)

    assert (failed.value.code, failed.value.ran) == ("output-not-written", True)
    assert "No space left" in failed.value.why
    assert gate.is_left()


def test_a_disk_that_is_found_full_at_the_end_is_told(run) -> None:
    full = open("/dev/full", "wb")
    with pytest.raises(SetupError, match="could not be written"):
        run("echo little", stdout=full)
    with pytest.raises(OSError, match="No space left"):
        full.close()


def test_a_file_that_may_not_grow_ends_the_run(run, tmp_path: Path, gate: Gate) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, before[1]))
    try:
        with pytest.raises(SetupError, match="File too large") as failed:
            run("exec 9>gate; yes", stdout=tmp_path / "log")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert failed.value.code == "output-not-written"
    assert (tmp_path / "log").stat().st_size == 1_000_000
    assert gate.is_left()


def test_a_pipe_of_the_caller_that_takes_nothing_is_told(run) -> None:
    """Without waiting for it: a descriptor that was made non-blocking says so itself."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    with open(ours, "rb"), open(theirs, "wb", buffering=0) as file:
        with pytest.raises(SetupError, match="takes nothing"):
            run("yes", stdout=file)


def test_no_descriptor_is_left(run, tmp_path: Path) -> None:
    before = count_descriptors()
    run("echo x", stdout=tmp_path / "a", stderr=tmp_path / "b")
    with pytest.raises(ZeroDivisionError):
        run("echo x", stdout=tmp_path / "a", stream=lambda *_: 1 / 0)

    assert count_descriptors() <= before
