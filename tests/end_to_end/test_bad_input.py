"""Bad input gives three lines (what, because, fix), says that nothing ran, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import corral as library
from corral.host.real import RealHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from conftest import Corral

MARK = "touch ran"
BEYOND_LANDLOCK = "fs.metadata,fs.protect,proc.hidden,proc.contained"


def assert_refused(done: subprocess.CompletedProcess[bytes], status: int, project: Path) -> None:
    lines = done.stderr.decode().splitlines()
    assert done.returncode == status, lines
    first, because, *more, fix = lines
    assert first.startswith("corral: the command did not run: ")
    assert because.startswith("  because: ")
    assert all(line.startswith(" " * len("  because: ")) for line in more)  # one for each other backend
    assert fix.startswith("  fix: ")
    assert not (project / "ran").exists()


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (["-p", "nonsense"], 2),
        (["--read", "/no/such/path"], 2),
        (["--write", "/"], 2),
        (["--write", "~"], 2),
        (["--write", "/proc"], 2),
        (["--read", "/run"], 2),
        (["--deny", "."], 2),
        (["--cap", "filesystem:raed:/x"], 2),
        (["--cap", "memory:limit:lots"], 2),
        (["--cap", "syscall:deny:no_such_call"], 2),
        (["--cap", "syscall:deny:execve"], 2),
        (["--memory", "0"], 2),
        (["--timeout", "-1s"], 2),
        (["--pids", "many"], 2),
        (["--net", "everything"], 2),
        (["--env", "=x"], 2),
        (["--waive", "no.such"], 2),
        (["--backend", "no-such"], 2),
        (["--cwd", "/no/such"], 2),
        (["--no-sandbox", "--backend", "native"], 2),
        (["--sandbox", "--backend", "none"], 2),
        (["--net", "full", "--cap", "network:deny:example.com"], 3),
        (["--net", "full", "--cap", "traffic:limit:1GiB"], 3),
        (["--backend", "firejail", "--cap", "network:https:example.com"], 3),
        (["--backend", "landlock", "--waive", BEYOND_LANDLOCK, "--cap", "disk:limit:1g"], 3),
        (["--backend", "landlock"], 3),
    ],
)
def test_a_policy_that_cannot_hold_is_refused(
    corral: Corral, project: Path, options: list[str], status: int
) -> None:
    assert_refused(corral("run", *options, "-c", MARK), status, project)


def test_an_empty_command_is_refused(corral: Corral, project: Path) -> None:
    assert_refused(corral("run"), 2, project)
    assert_refused(corral("run", "--", ""), 2, project)
    assert_refused(corral("run", "-c", "  "), 2, project)


def test_a_workspace_of_somebody_else_is_warned_about(corral: Corral, project: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    before = corral("run", "-c", MARK)
    os.chown(project, 61234, 61234)
    after, as_json = corral("run", "-c", MARK), corral("run", "--json", "-c", MARK)

    assert (before.returncode, before.stderr) == (0, b"")
    assert (after.returncode, after.stderr.count(b"\n")) == (0, 1)
    assert b"belongs to another user (61234)" in after.stderr
    assert as_json.stderr == b""


def test_inside_corral_a_further_sandbox_is_refused_with_that_before_all_else(
    corral: Corral, project: Path
) -> None:
    inside = f"{sys.executable} -m corral run -c '{MARK}'; echo status $?"
    done = corral("run", "--read", sys.prefix, "--read", sys.base_prefix, "-c", inside)

    assert done.stdout == b"status 3\n"
    # The one around tells of calls that it refuses.
    own = [line for line in done.stderr.splitlines() if not line.startswith(b"corral: syscalls: ")]
    assert own[0].startswith(b"corral: the command did not run: already inside corral")
    assert b"run the command directly" in done.stderr
    assert not (project / "ran").exists()


@pytest.mark.parametrize("where", ["/", "~", "/tmp", "/etc", "/etc/profile.d", "/usr", "/usr/bin", "/var"])
def test_a_workspace_of_everything_is_refused(corral: Corral, project: Path, home: Path, where: str) -> None:
    directory = Path(where).expanduser()

    assert_refused(corral("run", "-c", MARK, cwd=directory), 2, directory)


def test_a_nul_in_an_argument_is_refused(project: Path) -> None:
    for command in (["touch", "ran\0"], "touch ran\0", ["\0"]):
        with pytest.raises(library.PolicyError, match="NUL"):
            library.run(command, workspace=project)


def test_a_missing_launcher_is_named(corral: Corral, project: Path) -> None:
    assert_refused(corral("run", "-c", MARK, CORRAL_LAUNCHER="/no/such"), 3, project)


@pytest.mark.parametrize(
    "content", ["#!/bin/sh\nexit 3\n", "#!/bin/sh\necho nonsense >&4\n", "no program at all"]
)
def test_a_broken_launcher_is_found_out(corral: Corral, project: Path, tmp_path: Path, content: str) -> None:
    broken = tmp_path / "corral-launch"
    broken.write_text(content)
    broken.chmod(0o755)

    # A container engine tries the launcher when it runs a command, and not before.
    options = ("--backend", "native", "-c", MARK)
    assert_refused(corral("run", *options, CORRAL_LAUNCHER=str(broken)), 3, project)


def test_a_launcher_that_breaks_after_it_was_tried_is_a_setup_failure(
    corral: Corral, project: Path, tmp_path: Path, home: Path
) -> None:
    """The probe is remembered; the launch itself must notice."""
    good = Path(RealHost().launcher()[0])
    copy = tmp_path / "corral-launch"
    copy.write_bytes(good.read_bytes())
    copy.chmod(0o755)
    assert corral("run", "--", "true", CORRAL_LAUNCHER=str(copy)).returncode == 0
    before = copy.stat()

    with copy.open("r+b") as file:
        file.write(b"#!/bin/sh\nexit 3\n")
    os.utime(copy, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert_refused(corral("run", "-c", MARK, CORRAL_LAUNCHER=str(copy)), 125, project)


def test_a_full_disk_is_a_setup_failure(corral: Corral, project: Path, tmp_path: Path) -> None:
    """The landlock backend needs a directory of its own, and TMPDIR has no room for one."""
    waived = "fs.metadata,fs.protect,proc.contained,proc.hidden"
    options = ["--backend", "landlock", "--waive", waived]
    crowded = tmp_path / "file"
    crowded.write_text("")

    done = corral("run", *options, "-c", MARK, TMPDIR=str(crowded))

    assert_refused(done, 125, project)


def test_output_to_a_full_device_ends_the_command_and_not_corral(corral: Corral, project: Path) -> None:
    """`--output-limit` makes corral itself write the output on."""
    line = f"cd {project} && {os.sys.executable} -m corral run --output-limit 1g -- yes > /dev/full"

    done = subprocess.run(["sh", "-c", line], capture_output=True, timeout=60, check=False)

    assert done.returncode == 125
    assert b"No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr
