"""What the launcher reports: line by line, in whatever pieces it comes."""

from __future__ import annotations

import errno

import pytest

from corral.runtime.status import Status


def status_of(*pieces: bytes) -> Status:
    status = Status()
    for piece in pieces:
        status.feed(piece)
    return status


def test_lines_are_understood_however_they_are_cut() -> None:
    whole = b"started\ntimed-out\nsignalled 9\n"
    expected = vars(status_of(whole))

    for at in range(len(whole)):
        assert vars(status_of(whole[:at], whole[at:])) == expected
    assert vars(status_of(*(bytes([byte]) for byte in whole))) == expected


def test_an_exit_code_counts_only_with_its_line() -> None:
    assert status_of(b"started\nexited 3").exit_code is None
    assert status_of(b"started\nexited 3\n").exit_code == 3


@pytest.mark.parametrize(
    "line", [b"exited", b"exited x", b"exited -1", b"signalled", b"hello", b"\xff\xfe", b""]
)
def test_what_is_not_understood_is_passed_over(line: bytes) -> None:
    status = status_of(line + b"\n")

    assert (status.exit_code, status.signal, status.failure, status.started) == (None, None, None, False)


def test_a_flood_is_bounded() -> None:
    status = status_of(b"x" * 60_000, b"y" * 60_000, b"\nstarted\n")

    assert len(status._raw) <= 65_536


def test_silence_is_a_failure_of_the_launcher() -> None:
    error = status_of().error()

    assert error is not None
    assert (error.code, error.ran, error.exit_status) == ("launcher", False, 125)


def test_a_command_that_started_is_no_setup_failure() -> None:
    assert status_of(b"started\nexited 125\n").error() is None


@pytest.mark.parametrize(
    ("number", "status"),
    [(errno.ENOENT, 127), (errno.ENOTDIR, 127), (errno.EACCES, 126), (errno.ENOEXEC, 126)],
)
def test_a_program_that_cannot_be_started_is_told_as_a_shell_tells_it(number: int, status: int) -> None:
    error = status_of(f"failed exec {number} /bin/nothing\n".encode()).error()

    assert error is not None
    assert (error.code, error.exit_status, error.ran) == ("exec", status, False)
    assert "/bin/nothing" in error.what


def test_a_path_that_moved_has_a_code_of_its_own() -> None:
    error = status_of(f"failed mounts {errno.ESTALE} /w/a is another file now\n".encode()).error()

    assert error is not None
    assert (error.code, error.why) == ("path-changed", "/w/a is another file now")


@pytest.mark.parametrize(
    "phase", ["spec", "cgroup", "namespaces", "mounts", "net", "limits", "caps", "landlock", "seccomp"]
)
def test_a_failed_phase_is_named_with_the_words_of_the_system(phase: str) -> None:
    error = status_of(f"failed {phase} {errno.EPERM} what it did\n".encode()).error()

    assert error is not None
    assert (error.code, error.exit_status) == (phase, 125)
    assert error.why == "what it did: Operation not permitted"
    assert error.fix


@pytest.mark.parametrize(
    "line", [b"failed\n", b"failed mounts\n", b"failed mounts x y\n", b"failed mounts 99999 y\n"]
)
def test_a_failure_without_details_is_a_failure_all_the_same(line: bytes) -> None:
    error = status_of(b"started\n", line).error()

    assert error is not None
    assert error.why


def test_the_first_failure_counts() -> None:
    assert status_of(b"failed net 1 a\nfailed caps 2 b\n").failure == ("net", 1, "a")


def test_what_the_run_cost_is_six_numbers() -> None:
    assert status_of(b"usage 1500000 250000 2048 8 16 3\n").usage == (1_500_000, 250_000, 2048, 8, 16, 3)


@pytest.mark.parametrize(
    "line",
    [
        "usage",
        "usage ",
        "usage 1 2 3",
        "usage 1 2 3 4 5",
        "usage 1 2 3 4 5 6 7",
        "usage 1  2 3 4 5",
        "usage 1 2 3 4 5 ",
        "usage 1 2 3 4 5 x",
        "usage 1 2 3 4 5 -6",
        "usage 1 2 3 4 5 ²",
        f"usage 1 2 3 4 5 {'6' * 5000}",
        "exited ²",
        f"exited {'6' * 5000}",
        f"signalled {'6' * 5000}",
        "exited 1 2",
        "fulll",
        "limits memory",
    ],
)
def test_a_malformed_line_says_nothing(line: str) -> None:
    status = status_of(f"{line}\n".encode())

    assert (status.usage, status.exit_code, status.signal) == (None, None, None)
    assert (status.is_full, status.exceeded) == (False, "")


def test_a_failure_with_a_malformed_number_is_a_failure_all_the_same() -> None:
    for number in ("²", "6" * 5000, "-1", ""):
        assert status_of(f"failed mounts {number} detail\n".encode()).failure == ("mounts", 0, "detail")


def test_the_first_limit_that_was_broken_is_the_one() -> None:
    assert status_of(b"limit memory\nlimit processes\n").exceeded == "memory"
    assert status_of(b"full\n").is_full


def test_whatever_comes_later_does_not_undo_a_failure() -> None:
    status = status_of(b"failed seccomp 22 first\nfailed mounts 1 second\nstarted\nexited 0\n")

    assert status.failure == ("seccomp", 22, "first")
    assert status.error() is not None
