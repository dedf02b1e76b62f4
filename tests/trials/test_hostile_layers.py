"""Layers that a command has made to do harm when somebody applies them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from corral.model.errors import PolicyError
from corral.trials.change import Reserve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.sessions.trial import Trial


def _upper(trial: Trial) -> Path:
    return Path(trial.record.layers[0])


def test_a_link_put_in_the_way_after_the_look_is_not_followed(trial: Trial, tmp_path: Path) -> None:
    """As somebody would who holds a descriptor of the layer."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("secret")
    assert trial.run("mkdir new; echo n > new/file").ok
    upper = _upper(trial)
    (upper / "new/file").unlink()
    (upper / "new/file").symlink_to(outside / "file")
    (upper / "new").rename(upper / "moved")
    (upper / "new").symlink_to(outside)

    trial.apply()

    assert os.readlink(Path(trial.record.root, "new")) == str(outside)  # a link, as the layer has it
    assert os.readlink(Path(trial.record.root, "moved/file")) == str(outside / "file")
    assert (outside / "file").read_text() == "secret"


def test_a_link_of_the_workspace_is_not_followed_when_applying(
    trial: Trial, work: Path, tmp_path: Path
) -> None:
    """The host, or another command, replaces a directory by a link while the trial is looked at."""
    outside = tmp_path / "outside"
    outside.mkdir()
    assert trial.run("echo planted > src/planted; echo more >> src/main.py").ok
    (work / "src").rename(work / "elsewhere")
    (work / "src").symlink_to(outside)

    with pytest.raises(PolicyError) as caught:
        trial.apply()
    trial.apply(prefer="theirs")

    assert caught.value.code == "trial-conflict"
    assert list(outside.iterdir()) == []


def test_no_device_fifo_or_socket_is_taken_over(trial: Trial, work: Path) -> None:
    script = "mkfifo pipe; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")' || true"
    assert trial.run(script).ok

    applied = trial.apply()

    assert "pipe" in {change.path for change in applied.reserved}
    assert not (work / "pipe").exists() and not (work / "sock").exists()


def test_set_id_bits_are_dropped(trial: Trial, work: Path) -> None:
    assert trial.run("cp README tool; mkdir shared").ok
    (_upper(trial) / "tool").chmod(0o6755)  # the filter would not let the command
    (_upper(trial) / "shared").chmod(0o2777)

    trial.apply()

    assert stat.S_IMODE((work / "tool").stat().st_mode) == 0o755
    assert stat.S_IMODE((work / "shared").stat().st_mode) & 0o7000 == 0


@pytest.mark.parametrize("name", [".envrc", ".vscode/tasks.json", ".ENVRC", "sub/.git/hooks/pre-commit"])
def test_what_the_host_would_run_is_not_applied_unasked(trial: Trial, work: Path, name: str) -> None:
    assert trial.run(f"mkdir -p $(dirname {name}); echo harm > {name}; echo fine > fine").ok

    applied = trial.apply()

    assert (work / "fine").exists()
    assert not (work / name).exists()
    assert name in {change.path for change in applied.reserved}


def test_a_protected_name_is_applied_by_its_own_name(trial: Trial, work: Path) -> None:
    assert trial.run("mkdir .vscode; echo 1 > .vscode/tasks.json; echo 2 > .vscode/launch.json").ok

    with pytest.raises(PolicyError):
        trial.apply(protected=[".vscode/nothing"])
    trial.apply(protected=[".vscode/tasks.json"])

    assert (work / ".vscode/tasks.json").read_text() == "1\n"
    assert not (work / ".vscode/launch.json").exists()


def test_nothing_of_git_is_applied_whoever_asks(trial: Trial, work: Path) -> None:
    assert trial.run("mkdir -p .git/hooks; echo harm > .git/hooks/pre-commit").ok

    with pytest.raises(PolicyError) as caught:
        trial.apply(protected=[".git/hooks/pre-commit"])

    assert caught.value.code == "trial-reserved"
    assert not (work / ".git").exists()


@pytest.mark.parametrize("there", [False, True])
def test_a_repository_by_another_name_is_not_applied(trial: Trial, work: Path, *, there: bool) -> None:
    """Git takes any directory with these names for one, and does what its configuration says."""
    if there:
        for name in ("objects", "refs"):
            (work / "plain" / name).mkdir(parents=True)
    script = (
        "mkdir -p plain/objects plain/refs; echo ref: refs/heads/main > plain/HEAD; echo harm > plain/config"
    )
    assert trial.run(script).ok

    applied = trial.apply()

    assert not (work / "plain/config").exists() and not (work / "plain/HEAD").exists()
    assert {change.reserve for change in applied.reserved} == {Reserve.GIT}


def test_a_repository_with_its_rest_elsewhere_is_not_applied(trial: Trial, work: Path) -> None:
    """`commondir` names the directory whose settings and hooks git takes."""
    script = (
        "mkdir -p rest/objects rest/refs plain; echo ref: refs/heads/main > plain/HEAD;"
        " echo ../rest > plain/commondir"
    )
    assert trial.run(script).ok

    applied = trial.apply()

    assert (work / "rest/objects").is_dir()
    assert not (work / "plain/HEAD").exists() and not (work / "plain/commondir").exists()
    assert {change.reserve for change in applied.reserved} == {Reserve.GIT}


_DEEP = "import os\nfor _ in range(400): os.mkdir('d'); os.chdir('d')\nopen('x', 'w').close()"


def test_what_lies_too_deep_stays_in_the_trial(trial: Trial, work: Path) -> None:
    from corral.trials.shelf import measure_trial
    from support.confinement import PYTHON

    assert trial.run([PYTHON, "-I", "-S", "-c", _DEEP]).ok
    assert trial.run("echo fine > fine").ok

    trial.apply(["fine"])

    assert (work / "fine").exists()
    assert [change.reserve for change in trial.changes() if change.reserve] == [Reserve.UNREADABLE]
    assert measure_trial(trial.record) > 0


def test_a_directory_in_which_something_lies_too_deep_is_not_removed(trial: Trial, work: Path) -> None:
    here = os.open(work, os.O_RDONLY)
    for _ in range(220):
        os.mkdir("d", dir_fd=here)
        above, here = here, os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(above)
    os.close(here)
    assert trial.run("rm -r d old").ok

    trial.apply()

    assert (work / "d/d").is_dir() and not (work / "old").exists()


def test_a_link_cannot_add_lines_to_the_difference(trial: Trial) -> None:
    from corral.cli.trial.diff import diff_lines

    assert trial.run(["ln", "-s", "there\n-forged", "link"]).ok

    lines = list(diff_lines(trial.record, trial.changes()))

    assert "+there\\n-forged" in lines
    assert all("\n" not in line for line in lines)


def test_a_link_in_place_of_a_directory_has_to_be_named(trial: Trial, work: Path) -> None:
    """Whoever goes this way on the host would go elsewhere."""
    assert trial.run("rm -r src; ln -s / src").ok

    applied = trial.apply()

    assert (work / "src").is_dir() and not (work / "src").is_symlink()
    assert [change.path for change in applied.reserved] == ["src"]


def test_names_of_all_kinds_are_applied_and_shown_safely(trial: Trial, work: Path) -> None:
    names = ["new\nline", "esc\x1b[31m", "-rf", " ", "ünïcode", os.fsdecode(b"\xff\xfe")]
    code = f"import os\nfor n in {[os.fsencode(name) for name in names]!r}: open(n, 'w').write('x')"
    from support.confinement import PYTHON

    assert trial.run([PYTHON, "-I", "-S", "-c", code]).ok
    from corral.cli.trial.show import describe_changes

    lines = list(describe_changes(trial.changes()))
    trial.apply()

    assert all(line.isprintable() for line in lines)
    assert {os.fsencode(name) for name in names} <= set(os.listdir(os.fsencode(work)))


def test_a_sparse_file_stays_sparse(trial: Trial, work: Path) -> None:
    assert trial.run("truncate -s 1T huge; echo end >> huge").ok

    trial.apply()

    status = (work / "huge").stat()
    assert status.st_size == 2**40 + 4
    assert status.st_blocks * 512 < 2**20


def test_an_unknown_attribute_of_the_layer_is_not_guessed_at(trial: Trial, work: Path) -> None:
    assert trial.run("mkdir odd; echo x > odd/file").ok
    os.setxattr(_upper(trial) / "odd", "user.overlay.redirect", b"/etc")

    applied = trial.apply()

    assert [change.reserve for change in applied.reserved] == [Reserve.UNREADABLE]
    assert not (work / "odd").exists()


def test_the_file_in_the_workspace_is_not_the_one_of_the_layer(trial: Trial, work: Path) -> None:
    """A command may have sent a descriptor of its file to somebody, who could write there afterwards."""
    assert trial.run("echo x > made").ok
    with open(_upper(trial) / "made", "r+b") as held:
        trial.apply()
        held.write(b"later")

    assert (work / "made").read_text() == "x\n"


def test_a_huge_sparse_file_whose_mode_alone_changed_is_not_read(trial: Trial, work: Path) -> None:
    """Copied up, it has the same holes; a terabyte of them would take hours to read."""
    with (work / "huge").open("wb") as file:
        file.truncate(1 << 40)
        file.seek(1 << 39)
        file.write(b"middle")
    assert trial.run("chmod 600 huge").ok

    (change,) = trial.changes()
    assert (change.path, change.only_mode) == ("huge", True)


def test_a_bare_repository_that_was_there_is_not_removed(trial: Trial, work: Path) -> None:
    import subprocess

    subprocess.run(["git", "init", "-q", "--bare", str(work / "store")], check=True)
    assert trial.run("rm -rf store 2>/dev/null; test ! -e store/HEAD").ok

    trial.apply()

    assert (work / "store/HEAD").exists() and (work / "store/objects").is_dir()
