"""Scratch: a private directory, gone when the run is over, whatever the command did to it."""

from __future__ import annotations

import fcntl
import os

import pytest

from corral.model.errors import SetupError
from corral.model.launch import Launch, Outer
from corral.model.plan import PrivateFile
from corral.runtime.scratch import Scratch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


def launch_of(top: Path) -> Launch:
    file = PrivateFile(f"{top}/.gitconfig", b"[user]\n")
    return Launch("x", (), (), {}, scratch=str(top), scratch_files=(file,))


def test_what_is_made_is_private_and_vanishes(tmp_path) -> None:
    top = tmp_path / "scratch"
    with Scratch(launch_of(top)):
        assert (top / ".gitconfig").read_bytes() == b"[user]\n"
        assert (top.stat().st_mode & 0o777, (top / ".gitconfig").stat().st_mode & 0o777) == (0o700, 0o600)

    assert list(tmp_path.iterdir()) == []


def test_what_the_command_left_vanishes_too(tmp_path) -> None:
    top, outside = tmp_path / "scratch", tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    with Scratch(launch_of(top)):
        (top / "a/b").mkdir(parents=True)
        (top / "a/b/file").touch()
        (top / "link").symlink_to(outside)
        (top / ".gitconfig").unlink()
        os.mkfifo(top / "fifo")
        for path in (top / "a/b", top / "a"):
            path.chmod(0)

    assert not top.exists()
    assert (outside / "kept").exists()


def test_something_that_is_there_already_is_refused_and_left_alone(tmp_path) -> None:
    top = tmp_path / "scratch"
    top.mkdir()
    (top / "theirs").touch()

    with pytest.raises(SetupError) as failed, Scratch(launch_of(top)):
        pass

    assert failed.value.code == "scratch"
    assert (top / "theirs").exists()


def test_a_failure_halfway_leaves_nothing(tmp_path) -> None:
    top = tmp_path / "scratch"
    broken = launch_of(top).replace(scratch_files=(PrivateFile(f"{top}/missing/file", b""),))

    with pytest.raises(SetupError), Scratch(broken):
        pass

    assert not top.exists()


def test_nothing_is_made_for_a_launch_without_scratch(tmp_path) -> None:
    with Scratch(Launch("x", (), (), {})):
        assert list(tmp_path.iterdir()) == []


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """As a run leaves it whose corral was killed, an hour ago."""
    directory = tmp_path / "corral-0123456789abcdef"
    directory.mkdir()
    (directory / "control").touch()
    os.utime(directory, (1, 1))
    return directory


def test_what_a_killed_run_has_left_is_removed_by_the_next(tmp_path: Path, left: Path) -> None:
    """The container is found by a label, which has the number of the directory."""
    removal = ("/bin/sh", "-c", f'echo "$0" > {tmp_path}/removed')
    finding = ("/bin/sh", "-c", 'echo "id-${0#*run=}"', "label=corral.run=fedcba9876543210")
    outer = Outer(removal=removal, finding=finding)
    launch = launch_of(tmp_path / "corral-fedcba9876543210").replace(outer=outer)

    with Scratch(launch):
        assert not left.exists()

    assert (tmp_path / "removed").read_text() == "id-0123456789abcdef\n"


def test_the_directory_of_a_run_that_goes_on_is_left_alone(tmp_path: Path, left: Path) -> None:
    lock = os.open(left, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)

    with Scratch(launch_of(tmp_path / "corral-fedcba9876543210")):
        pass

    os.close(lock)
    assert (left / "control").exists()


@pytest.mark.parametrize(
    "name", ["corral-0123456789abcdeF", "corral-0123", "corral-0123456789abcdef0", "other"]
)
def test_directories_of_others_are_left_alone(tmp_path: Path, left: Path, name: str) -> None:
    left.rename(tmp_path / name)
    (tmp_path / "corral-00000000000000aa").symlink_to(tmp_path / name)

    with Scratch(launch_of(tmp_path / "corral-fedcba9876543210")):
        pass

    assert (tmp_path / name / "control").exists()


def test_a_name_that_leads_elsewhere_by_now_removes_nothing(tmp_path: Path) -> None:
    top, theirs = tmp_path / "scratch", tmp_path / "theirs"
    theirs.mkdir()
    (theirs / ".gitconfig").touch()

    with Scratch(launch_of(top)):
        top.rename(tmp_path / "moved")
        top.symlink_to(theirs)

    assert (theirs / ".gitconfig").exists()
