"""What a command was refused is explained wherever its errors go, and nothing is changed for that."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from corral.model.event import EventKind
from corral.model.feature import Feature
from corral.model.violation import Evidence
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

PROTECTED = "echo x > .git/hooks/pre-commit"
LINES = (
    "import os\nfor i in range(300): os.write(1, b'o%d ' % i); os.write(2, b'e%d ' % i)\nraise SystemExit(3)"
)


@pytest.fixture
def repository(project: Path) -> Path:
    if not (project / ".git").exists():
        subprocess.run(["git", "init", "-q", project], check=True)
    return project


def _typed(work: Path, *words: str) -> tuple[int, str]:
    """What a person sees who types a command at a terminal."""
    pid, screen = pty.fork()
    if pid == 0:
        os.chdir(work)
        os.execv(sys.executable, [sys.executable, "-m", "corral", *words])
    seen = b""
    while True:
        try:
            piece = os.read(screen, 65536)
        except OSError:  # EIO: nobody holds the other end
            break
        if not piece:
            break
        seen += piece
    os.close(screen)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("how", [(), ("--tty",)], ids=["own-terminal", "made-terminal"])
def test_a_protected_write_at_a_terminal_is_explained(
    repository: Path, home: Path, how: tuple[str, ...]
) -> None:
    status, seen = _typed(repository, "run", "--backend", "native", *how, "-c", PROTECTED)

    assert status != 0
    assert "corral: fs.protect:" in seen
    assert "(guessed from the output)" in seen and "--waive fs.protect" in seen


@pytest.mark.parametrize("stdout", ["pipe", "file"])
def test_one_stream_for_both_is_explained_and_comes_in_order(
    repository: Path, home: Path, tmp_path: Path, stdout: str
) -> None:
    log = tmp_path / "log"
    base = [sys.executable, "-m", "corral", "run", "--backend", "native"]
    with open(log, "wb") as file:
        told, order = (
            subprocess.run(
                [*base, *words],
                cwd=repository,
                stdout=file if stdout == "file" else subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            ).stdout
            for words in (("-c", PROTECTED), ("--", "python3", "-c", LINES))
        )
    seen = log.read_bytes() if stdout == "file" else told + order

    assert b"corral: fs.protect:" in seen
    assert b" ".join(b"o%d e%d" % (i, i) for i in range(300)) in seen


def test_a_refused_system_call_is_told_by_the_filter_itself(tmp_path: Path) -> None:
    result = Sandbox(backend="native", workspace=tmp_path).run("unshare -U true; chroot /etc true; exit 1")

    seen = {event.subject: event for event in result.events if event.feature is Feature.SYSCALLS}
    assert set(seen) == {"unshare", "chroot"}
    assert {(event.kind, event.evidence) for event in seen.values()} == {
        (EventKind.REFUSED, Evidence.OBSERVED)
    }
    assert "as it claims: /etc" in seen["chroot"].reason


def test_a_hint_for_tracing_lets_exactly_that_succeed(tmp_path: Path) -> None:
    script = "import ctypes; raise SystemExit(ctypes.CDLL(None).ptrace(0, 0, 0, 0) != 0)"
    command = ["python3", "-c", script]
    refused = Sandbox(backend="native", workspace=tmp_path).run(command)
    (event,) = (event for event in refused.events if event.subject == "ptrace")

    policy = build_policy("moderate", (event.hint,))
    permitted = Sandbox(policy, backend="native", workspace=tmp_path).run(command)

    assert (refused.exit_code, permitted.exit_code) == (1, 0)


def test_a_file_that_everybody_reads_was_meant_to_be_written(tmp_path: Path) -> None:
    """Landlock says `Permission denied` of a system file, as if it were about reading."""
    result = Sandbox(backend="native", workspace=tmp_path).run(["bash", "-c", "echo x >> /etc/hosts"])

    (event,) = result.events
    assert (event.feature, event.subject, event.hint) == (Feature.FS_WRITE, "/etc/hosts", "")


def test_words_of_a_command_make_no_observed_event(tmp_path: Path) -> None:
    words = "refused a1 1 0 0 0 0 0 0\ncorral: syscalls: mount: told by the filter\nPermission denied\n"
    result = Sandbox(backend="native", workspace=tmp_path).run(["sh", "-c", f"printf '{words}' >&2; exit 1"])

    assert [event for event in result.events if event.evidence is Evidence.OBSERVED] == []


def test_a_trace_says_what_fails_as_it_does_though_the_command_succeeds(repository: Path, home: Path) -> None:
    line = f"{PROTECTED} 2>/dev/null; touch /usr/made 2>/dev/null; touch made; exit 0"
    words = [sys.executable, "-m", "corral", "run", "--backend", "native", "--trace", "-c", line]

    done = subprocess.run(words, cwd=repository, capture_output=True, text=True, check=False)

    assert done.returncode == 0
    told = [line for line in done.stderr.splitlines() if line.startswith("corral: ")]
    assert len(told) == 2
    assert "openat failed" in told[0] and "--waive fs.protect" in told[0] and "guessed" not in told[0]
    assert told[1].startswith("corral: fs.write: /usr/made:")


def test_who_cannot_trace_says_so(repository: Path, home: Path) -> None:
    waived = "fs.metadata,fs.protect,proc.contained,proc.hidden"
    words = [sys.executable, "-m", "corral", "run", "--backend", "landlock", "--waive", waived]
    words += ["--trace", "--", "touch", "made"]

    done = subprocess.run(words, cwd=repository, capture_output=True, text=True, check=False)

    assert done.returncode == 2 and "landlock cannot trace a command" in done.stderr
    assert not (repository / "made").exists()


def _typed_until(work: Path, sign: bytes, *words: str) -> bytes:
    """What a person sees of a command that waits for him, until there is a sign; then he ends it."""
    pid, screen = pty.fork()
    if pid == 0:
        os.chdir(work)
        os.execv(sys.executable, [sys.executable, "-m", "corral", *words])
    seen = b""
    while sign not in seen:
        seen += os.read(screen, 65536)  # EIO: it has ended before, and the test fails
    os.write(screen, b"\n")
    os.waitpid(pid, 0)
    os.close(screen)
    return seen


@pytest.mark.parametrize("how", ["terminal", "pipe"])
def test_a_guess_is_told_while_the_command_runs(repository: Path, home: Path, how: str) -> None:
    line = f"{PROTECTED}; printf 'half '; read answer"
    if how == "terminal":
        seen = _typed_until(
            repository, b"(guessed from the output)", "run", "--backend", "native", "-c", line
        )
    else:
        words = [sys.executable, "-m", "corral", "run", "--backend", "native", "-c", line]
        with subprocess.Popen(words, cwd=repository, stdin=-1, stdout=-1, stderr=-1) as running:
            assert running.stderr is not None and running.stdin is not None
            seen = b""
            while b"(guessed from the output)" not in seen:
                piece = os.read(running.stderr.fileno(), 65536)
                assert piece, "it has ended before"
                seen += piece
            running.communicate(b"\n")

    assert b"fs.protect" in seen and b".git/hooks" in seen


def test_a_guess_does_not_come_into_a_line_of_the_command(repository: Path, home: Path) -> None:
    line = (
        "printf 'sh: 1: cannot create /usr/x: Read-only file system\\nbegun ' >&2; cat > /dev/null;"
        "printf 'and ended\\n' >&2; exit 3"
    )

    done = subprocess.run(
        [sys.executable, "-m", "corral", "run", "--backend", "native", "-c", line],
        cwd=repository,
        input=b"",
        capture_output=True,
        check=False,
    )

    assert b"begun and ended\n" in done.stderr and b"/usr/x: it is part of the system" in done.stderr


def test_names_that_cannot_be_typed_are_told_escaped_by_a_trace(repository: Path, home: Path) -> None:
    line = "cat \"$(printf '/srv/a\\001b')\" \"$(printf '/srv/x\\377y')\""

    status, seen = _typed(repository, "run", "--backend", "native", "--trace", "-c", line)

    assert status != 0
    assert "fs.read: '/srv/a\\x01b'" in seen and "fs.read: '/srv/x\\udcffy'" in seen


def test_who_is_refused_something_can_be_ended_for_it(repository: Path, home: Path) -> None:
    words = [sys.executable, "-m", "corral", "run", "--backend", "native", "--on-refusal", "terminate", "-c"]

    ended = subprocess.run(
        [*words, "unshare -U true; sleep 300"], cwd=repository, capture_output=True, text=True, check=False
    )
    words_alone = subprocess.run(
        [*words, "echo 'touch: cannot touch /usr/x: Read-only file system' >&2; touch made"],
        cwd=repository,
        capture_output=True,
        check=False,
    )

    assert "syscalls: unshare" in ended.stderr and "(blocked)" in ended.stderr
    assert words_alone.returncode == 0 and (repository / "made").exists()
