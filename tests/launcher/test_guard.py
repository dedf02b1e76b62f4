"""The supervisor's guard over protected names: what appears goes to quarantine, whoever is killed."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from launching import ORDINARY, MountFlag, bind, confined, launch, shell, start

from corral.linux.spec import Guarded, NameFlag, NameGuard, ProtectedName, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

OTHER_FILE_SYSTEM = "/dev/shm"


@pytest.fixture
def workspace(open_directory: Path, user: int) -> Path:
    made = open_directory / "workspace"
    made.mkdir()
    os.chown(made, user, user)
    return made


@pytest.fixture
def quarantine(open_directory: Path) -> Path:
    return open_directory / "state" / "corral" / "quarantine" / "run"


@pytest.fixture
def far_quarantine() -> Iterator[Path]:
    """On another file system, where nothing can be moved to."""
    directory = Path(tempfile.mkdtemp(prefix="test-launcher-", dir=OTHER_FILE_SYSTEM))
    directory.chmod(0o777)
    if directory.stat().st_dev == Path(tempfile.gettempdir()).stat().st_dev:
        pytest.skip(f"{OTHER_FILE_SYSTEM} is not another file system")
    yield directory / "quarantine"
    shutil.rmtree(directory)


def guarded(
    script: str,
    workspace: Path,
    user: int,
    *names: str | ProtectedName,
    quarantine: Path | str = "",
    fault: str = "",
) -> Spec:
    found = workspace.stat()
    made = tuple(ProtectedName(name) if isinstance(name, str) else name for name in names)
    return confined(
        *shell(f"cd {workspace}; {script}"),
        user=user,
        mounts=(bind(str(workspace), MountFlag(0)),),
        guard=NameGuard(str(quarantine), (Guarded(str(workspace), found.st_dev, found.st_ino, made),)),
        fault=fault,
    )


def listed(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


PLANTINGS = {
    "a file": "echo evil > .envrc",
    "a directory": "mkdir .envrc; echo evil > .envrc/x",
    "a link": "ln -s /etc/passwd .envrc",
    "by rename": "echo evil > other; mv other .envrc",
    "closed": "mkdir -p .envrc/in; chmod 000 .envrc/in .envrc",
}


@pytest.mark.parametrize("script", PLANTINGS.values(), ids=PLANTINGS)
def test_what_is_planted_is_taken_away_while_the_command_runs(
    launcher: Path, user: int, workspace: Path, quarantine: Path, script: str
) -> None:
    fifo = workspace / "go"
    os.mkfifo(fifo)
    fifo.chmod(0o666)
    spec = guarded(f"{script}; read x < go", workspace, user, "other-name", ".envrc", quarantine=quarantine)

    running = start(launcher, spec)
    running.wait_for("planted 1 0")
    seen = listed(workspace)
    fifo.write_text("go\n")
    done = running.finish()

    assert seen == ["go"] == listed(workspace)
    assert listed(quarantine) == ["0-.envrc"]
    assert done.lines == ["started", "planted 1 0", "exited 0", "swept"]


def test_without_a_guard_it_stays(plain: Path, user: int, workspace: Path) -> None:
    """The control."""
    spec = guarded("echo evil > .envrc", workspace, user, ".envrc")

    assert launch(plain, spec.replace(guard=None)).lines == ["started", "exited 0"]
    assert listed(workspace) == [".envrc"]


@pytest.mark.parametrize("script", PLANTINGS.values(), ids=PLANTINGS)
def test_the_sweep_finds_what_no_look_has_seen(
    checked: Path, user: int, workspace: Path, quarantine: Path, script: str
) -> None:
    spec = guarded(script, workspace, user, ".envrc", quarantine=quarantine, fault="@look")

    assert launch(checked, spec).lines == ["started", "exited 0", "planted 0 0", "swept"]
    assert listed(workspace) == []


def test_a_kernel_that_tells_nothing_is_looked_for(
    checked: Path, user: int, workspace: Path, quarantine: Path
) -> None:
    fifo = workspace / "go"
    os.mkfifo(fifo)
    fifo.chmod(0o666)
    script = "echo evil > .envrc; read x < go"

    running = start(checked, guarded(script, workspace, user, ".envrc", quarantine=quarantine, fault="@tell"))
    running.wait_for("planted 0 0")
    fifo.write_text("go\n")

    assert running.finish().lines == ["started", "planted 0 0", "exited 0", "swept"]


def test_when_corral_is_gone_the_command_is_ended_and_what_it_left_is_taken(
    checked: Path, user: int, workspace: Path, quarantine: Path
) -> None:
    """Nobody looks before: it is the sweep that finds it."""
    script = "echo evil > .envrc; echo ready; exec sleep 1000"
    running = start(checked, guarded(script, workspace, user, ".envrc", quarantine=quarantine, fault="@look"))
    running.wait_for_output(b"ready")

    running.cut_lifeline()
    done = running.finish()

    assert done.lines == ["started", "signalled 9", "planted 0 0", "swept"]
    assert listed(workspace) == []


def test_whoever_keeps_trying_is_ended(launcher: Path, user: int, workspace: Path, quarantine: Path) -> None:
    script = "while :; do echo evil > .envrc; done 2> /dev/null"

    done = launch(launcher, guarded(script, workspace, user, ".envrc", quarantine=quarantine))

    assert "blocked" in done.lines
    assert done.lines[-1] == "swept"
    assert len([line for line in done.lines if line.startswith("planted 0 ")]) >= 8
    assert listed(workspace) == []


def test_a_link_that_was_there_is_put_back(
    checked: Path, user: int, workspace: Path, quarantine: Path
) -> None:
    (workspace / ".envrc").symlink_to("elsewhere")
    name = ProtectedName(".envrc", link="elsewhere")
    script = "rm .envrc; echo evil > .envrc"

    done = launch(checked, guarded(script, workspace, user, name, quarantine=quarantine))

    assert done.lines[-1] == "swept"
    assert os.path.islink(workspace / ".envrc")
    assert os.readlink(workspace / ".envrc") == "elsewhere"


def test_a_repository_may_be_made_and_is_told_once(checked: Path, user: int, workspace: Path) -> None:
    name = ProtectedName(".git", NameFlag.REPOSITORY)

    done = launch(checked, guarded("mkdir .git; touch a b", workspace, user, name))

    assert sorted(done.lines) == ["exited 0", "made 0", "started", "swept"]
    assert (workspace / ".git").is_dir()


def test_a_file_in_the_place_of_a_repository_is_taken(
    checked: Path, user: int, workspace: Path, quarantine: Path
) -> None:
    name = ProtectedName(".git", NameFlag.REPOSITORY)

    launch(checked, guarded("echo gitdir: /evil > .git", workspace, user, name, quarantine=quarantine))

    assert listed(workspace) == []


def test_the_target_of_a_link_is_not_touched(
    checked: Path, user: int, workspace: Path, open_directory: Path, far_quarantine: Path
) -> None:
    """Neither when it is moved nor when it is removed."""
    kept = open_directory / "kept"
    kept.mkdir()
    (kept / "file").write_text("mine")
    script = f"mkdir .envrc; ln -s {kept} .envrc/in; ln -s {kept}/file .envrc/too"

    launch(checked, guarded(script, workspace, user, ".envrc", quarantine=far_quarantine))

    assert listed(workspace) == []
    assert (kept / "file").read_text() == "mine"


def test_what_cannot_be_kept_is_removed_in_the_end(
    checked: Path, user: int, workspace: Path, far_quarantine: Path
) -> None:
    deep = (
        "i=0; while [ $i -lt 300 ]; do mkdir d; touch d/f; chmod 500 . ; cd d; i=$((i+1)); done; chmod 000 ."
    )
    script = f"mkdir .new; cd .new; {deep}; cd {workspace}; mv .new .envrc"

    done = launch(checked, guarded(script, workspace, user, ".envrc", quarantine=far_quarantine))

    assert "planted 0 removed" in done.lines
    assert listed(workspace) == []


def test_nobody_writes_to_the_quarantine_by_another_name(
    checked: Path, user: int, workspace: Path, quarantine: Path
) -> None:
    script = "echo evil > mine; ln mine .envrc"

    launch(checked, guarded(script, workspace, user, ".envrc", quarantine=quarantine))

    assert (workspace / "mine").stat().st_nlink == 1
    assert (quarantine / "0-.envrc").read_text() == "evil\n"


@pytest.mark.parametrize("mode", ["000", "500", "600"])
def test_a_directory_without_rights_is_looked_into_and_stays_as_it_is(
    checked: Path, user: int, workspace: Path, quarantine: Path, mode: str
) -> None:
    script = f"echo evil > .envrc; chmod {mode} ."

    done = launch(checked, guarded(script, workspace, user, ".envrc", quarantine=quarantine, fault="@look"))

    assert done.lines[-1] == "swept"
    assert "unremoved 0" not in done.lines
    assert workspace.stat().st_mode & 0o777 == int(mode, 8)
    workspace.chmod(0o700)
    assert listed(workspace) == []


def test_what_cannot_be_put_right_is_told(plain: Path, open_directory: Path) -> None:
    """The host itself makes it, where this user may not remove it."""
    if os.getuid() != 0:
        pytest.skip("needs root")
    place = open_directory / "of-root"
    place.mkdir()
    running = start(plain, guarded("echo ready; read x", place, ORDINARY, ".envrc"), stdin=_pipe())
    running.wait_for_output(b"ready")
    (place / ".envrc").write_text("the host's")
    running.kill(signal.SIGTERM)

    assert running.finish().lines[-2:] == ["unremoved 0", "swept"]


def _pipe() -> int:
    """The end of a pipe to which nobody writes, and whose other end stays open."""
    reading, _ = os.pipe()
    return reading


@pytest.mark.parametrize("change", ["another directory", "a link", "nothing", "a name"])
def test_what_is_not_as_planned_stops_the_launch(
    checked: Path, user: int, workspace: Path, change: str
) -> None:
    spec = guarded("touch ran", workspace, user, ".envrc").replace(mounts=())
    spec = confined(*shell("true"), user=user, guard=spec.guard)
    old = workspace.rename(workspace.with_name("old"))
    if change == "another directory":
        workspace.mkdir()
    elif change == "a link":
        workspace.symlink_to(old)
    elif change == "a name":
        old.rename(workspace)
        (workspace / ".envrc").write_text("the host's")

    done = launch(checked, spec)

    place = f"{workspace}/.envrc" if change == "a name" else workspace
    assert done.lines == [f"failed guard {errno.ESTALE} {place}"]
    assert change != "a name" or (workspace / ".envrc").read_text() == "the host's"


def test_a_fault_is_told_and_the_command_does_not_run(checked: Path, user: int, workspace: Path) -> None:
    done = launch(checked, guarded("touch ran", workspace, user, ".envrc", fault="guard"))

    assert done.lines == [f"failed guard {errno.EIO} injected fault"]
    assert listed(workspace) == []


def test_no_command_is_there_before_the_names_are_watched(
    checked: Path, user: int, workspace: Path, quarantine: Path
) -> None:
    """The supervisor takes half a second before it lets a command start; by then the kernel tells."""
    spec = guarded("echo evil > .envrc", workspace, user, ".envrc", quarantine=quarantine, fault="x@shed")

    done = launch(checked, spec)

    assert "planted 0 0" in done.lines


def test_where_nothing_ran_nothing_is_taken(checked: Path, user: int, workspace: Path) -> None:
    done = launch(checked, guarded("true", workspace, user, ".envrc", fault="exec"))

    assert done.lines == [f"failed exec {errno.EIO} injected fault"]


def test_a_supervisor_that_ends_too_soon_has_not_swept(checked: Path, user: int, workspace: Path) -> None:
    done = launch(checked, guarded("echo evil > .envrc", workspace, user, ".envrc", fault="sweep@look"))

    assert "swept" not in done.lines
    assert listed(workspace) == [".envrc"]


def test_more_directories_than_descriptors_are_looked_at(
    checked: Path, user: int, workspace: Path, quarantine: Path, tmp_path: Path
) -> None:
    count = 60
    directories = []
    for number in range(count):
        place = workspace / str(number)
        place.mkdir()
        os.chown(place, user, user)
        found = place.stat()
        directories.append(Guarded(str(place), found.st_dev, found.st_ino, (ProtectedName(".envrc"),)))
    last = count - 1
    script = f"for i in 0 1 {last - 1} {last}; do echo evil > $i/.envrc; done; mv {last} moved"
    spec = guarded(script, workspace, user)
    spec = spec.replace(guard=NameGuard(str(quarantine), tuple(directories)), fault="")
    few = workspace.parent / "few"
    few.write_text(f"#!/bin/sh\nulimit -n 80; exec {checked}\n")
    few.chmod(0o755)

    done = launch(few, spec)

    assert done.lines[-1] == "swept"
    planted = {line.split()[1] for line in done.lines if line.startswith("planted ")}
    assert planted - {str(last)} == {"0", "1", str(last - 1)}
    assert f"gone {last}" in done.lines or str(last) in planted
