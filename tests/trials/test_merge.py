"""`apply --merge`: both changes, where it is known how a file was before; else nothing is written."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from corral.model.errors import PolicyError
from corral.trials import merge, originals
from corral.trials.base import Bases
from support.git_programs import git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.sessions.trial import Trial

_LINES = "".join(f"{number}\n" for number in range(1, 21))
_MERGED = _LINES.replace("\n3\n", "\nthree\n").replace("\n18\n", "\neighteen\n")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A repository."""
    directory = tmp_path / "work"
    (directory / "src").mkdir(parents=True)
    (directory / "src/lines").write_text(_LINES)
    (directory / "data").write_bytes(b"a\0b")
    git(directory, "init", "-q", ".")
    git(directory, "add", "-A")
    git(directory, "commit", "-q", "-m", "first")
    (directory / "untracked").write_text(_LINES)
    return directory


def _edit(path: Path, old: str = "\n18\n", new: str = "\neighteen\n") -> None:
    path.write_text(path.read_text().replace(old, new))


def _refusal(trial: Trial) -> str:
    with pytest.raises(PolicyError) as caught:
        trial.apply(prefer="merge")
    assert caught.value.code == "trial-conflict"
    return caught.value.why


@pytest.mark.parametrize("is_forked", [False, True])
def test_both_changes_come_together_and_can_be_undone(trial: Trial, work: Path, is_forked: bool) -> None:
    assert trial.run("sed -i 's/^3$/three/' src/lines; chmod +x src/lines; echo n > new").ok
    _edit(work / "src/lines")
    os.chmod(work / "src/lines", 0o640)
    with trial.fork() if is_forked else trial as used:
        used.apply(prefer="merge")

        assert (work / "src/lines").read_text() == _MERGED
        assert (work / "src/lines").stat().st_mode & 0o777 == 0o755
        assert used.changes() == ()
        used.undo()
        assert (work / "src/lines").read_text() == _LINES.replace("\n18\n", "\neighteen\n")
        used.apply()
        assert (work / "src/lines").read_text() == _MERGED


def test_what_cannot_be_merged_is_listed_and_nothing_is_written(trial: Trial, work: Path) -> None:
    assert trial.run(
        "sed -i 's/^3$/three/' src/lines untracked; printf 'a\\0c' > data; echo n > new; echo n > both"
    ).ok
    _edit(work / "src/lines")
    _edit(work / "untracked")
    (work / "data").write_bytes(b"a\0d")
    (work / "both").write_text("the host's\n")
    before = {path: path.read_bytes() for path in work.rglob("*") if path.is_file()}

    why = _refusal(trial)

    assert "data: the host changed it in the meantime; it cannot be merged: it is not a text" in why
    assert why.count("how it was before is not known: git does not track it") == 2  # and `both`
    assert "src/lines" not in why
    assert {path: path.read_bytes() for path in work.rglob("*") if path.is_file()} == before
    assert trial.run("grep -c eighteen src/lines").stdout == "0\n"  # nor on trial
    trial.apply(["src"], prefer="merge")
    assert (work / "src/lines").read_text() == _MERGED


def test_the_same_lines_are_a_conflict(trial: Trial, work: Path) -> None:
    assert trial.run("sed -i 's/^3$/three/' src/lines").ok
    _edit(work / "src/lines", "\n3\n", "\ndrei\n")

    assert "the same lines" in _refusal(trial)
    assert "drei" in (work / "src/lines").read_text()
    trial.apply(prefer="theirs")
    assert "three" in (work / "src/lines").read_text()


def test_what_changes_meanwhile_is_not_merged(
    trial: Trial, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = merge._read

    def read_and_change(handle: int) -> bytes:
        content = read(handle)
        if os.path.samestat(os.fstat(handle), os.stat(work / "src/lines")):
            (work / "src/lines").write_text("the host's own\n")
        return content

    assert trial.run("sed -i 's/^3$/three/' src/lines").ok
    _edit(work / "src/lines")
    monkeypatch.setattr(merge, "_read", read_and_change)

    assert "it is being changed" in _refusal(trial)
    assert (work / "src/lines").read_text() == "the host's own\n"


@pytest.mark.parametrize(("where", "step"), [(Bases, "note"), (merge._Merger, "put")])
def test_a_merge_that_was_stopped_is_made_again(
    trial: Trial, work: Path, monkeypatch: pytest.MonkeyPatch, where: type, step: str
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    assert trial.run("sed -i 's/^3$/three/' src/lines").ok
    _edit(work / "src/lines")
    monkeypatch.setattr(where, step, stop)
    with pytest.raises(KeyboardInterrupt):
        trial.apply(prefer="merge")
    monkeypatch.undo()
    assert "three" not in (work / "src/lines").read_text()

    trial.apply(prefer="merge")

    assert (work / "src/lines").read_text() == _MERGED


def test_a_copy_that_shares_its_blocks_is_a_base_as_well(
    trial: Trial, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file system of the tests may not have them: a plain copy stands for it."""

    def clone(target: int, request: int, source: int) -> None:
        assert request == 0x40049409
        with open(source, "rb", closefd=False) as old, open(target, "wb", closefd=False) as new:
            shutil.copyfileobj(old, new)

    monkeypatch.setattr(originals.fcntl, "ioctl", clone)
    assert trial.run("sed -i 's/^3$/three/' untracked").ok
    _edit(work / "untracked")

    trial.apply(prefer="merge")

    assert (work / "untracked").read_text() == _MERGED
