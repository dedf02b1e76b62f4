"""Layers in memory: they hold so much and no more, and what was in them can be applied like anything else."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from corral import Sandbox
from corral.model.errors import PolicyError, SetupError
from corral.model.result import Outcome
from corral.policy.compose import build_policy
from corral.trials import memory
from corral.trials.copying import copy_content
from corral.trials.record import layer_size
from support.confinement import INTERPRETER
from support.named_sessions import Person
from support.probed import probe_of

_SIZE = 64 * 1024
_FILL = "head -c 1000000 /dev/zero > big"


def _sandbox(work: Path, backend: str = "native") -> Sandbox:
    if not probe_of(backend).available:
        pytest.skip(f"{backend} is not available: {probe_of(backend).reason}")
    return Sandbox(build_policy("moderate", INTERPRETER), backend=backend, workspace=work)


@pytest.mark.parametrize("backend", ["native", "bubblewrap"])
def test_a_trial_holds_so_many_bytes_and_no_more(work: Path, backend: str) -> None:
    sandbox = _sandbox(work, backend)
    with sandbox.trial() as unlimited:  # the control
        assert unlimited.run(_FILL).ok
        assert unlimited.changes()[0].size == 1_000_000
    with sandbox.trial(size=_SIZE) as trial:
        done = trial.run(f"echo small > small; rm README; {_FILL}")

        assert done.outcome is Outcome.DISK_LIMIT
        assert "--trial-size" in done.violations[0].detail
        trial.apply()
    # a page for the small one
    assert (work / "big").stat().st_size == _SIZE - 4096
    assert (work / "small").read_text() == "small\n"
    assert not (work / "README").exists()


def test_a_trial_holds_so_many_files_and_no_more(work: Path) -> None:
    with _sandbox(work).trial(files=10) as trial:
        done = trial.run("i=0; while echo x > n$i; do i=$((i+1)); done; false")

        assert done.outcome is Outcome.DISK_LIMIT
        assert len(trial.changes()) == 10


def test_commands_of_one_trial_share_its_size(work: Path) -> None:
    with _sandbox(work).trial(size=_SIZE) as trial:
        assert trial.run("head -c 40000 /dev/zero > one").ok
        before = trial.snapshot()
        assert trial.run("head -c 40000 /dev/zero > two").outcome is Outcome.DISK_LIMIT
        with pytest.raises(SetupError) as full:
            trial.run("true")
        assert full.value.code == "trial-full"
        trial.rollback(before)
        assert trial.run("rm one; head -c 20000 /dev/zero > three; mkdir src/more").ok

        assert {change.path for change in trial.changes()} == {"three", "src/more"}


_MANY_KINDS = """
rm -r old; mkdir old; echo o > old/new; chmod 700 src; echo more >> src/main.py
echo x > a; ln a b; ln -s nowhere c; mkfifo d; mkdir -p e/f; echo y > e/f/g; chmod 0 e/f/g; chmod 500 e/f
truncate -s 1T sparse; echo end >> sparse; rm README; mkdir README; touch "$(printf 'line\\nfeed')"
"""


def test_what_is_kept_is_what_a_layer_on_disk_would_have(work: Path) -> None:
    listed = []
    for size in (None, "1M"):
        with _sandbox(work).trial(size=size) as trial:
            done = trial.run(_MANY_KINDS)
            assert done.ok, done.stderr
            listed.append([change.to_json() for change in trial.changes()])
    assert listed[0] == listed[1] and len(listed[0]) > 10


def test_a_sandbox_that_a_session_has_anew_shows_what_was_written(work: Path) -> None:
    with _sandbox(work).trial(size="1M") as trial:
        with trial.session() as session:
            assert session.run("echo one > made; rm README").ok
            session.reset()
            assert session.run("cat made; ls README; echo two > more").stdout == "one\n"
        assert [(change.action.value, change.path) for change in trial.changes()] == [
            ("deleted", "README"),
            ("added", "made"),
            ("added", "more"),
        ]


def test_a_layer_is_kept_whole_or_not_at_all(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with _sandbox(work).trial(size="1M") as trial:
        monkeypatch.setattr(memory, "copy_content", fail)
        with pytest.raises(SetupError) as caught:
            trial.run("mkdir first; echo x > made")
        assert caught.value.ran and "could not be kept" in caught.value.what
        assert trial.changes() == ()
        assert "upper.new" not in os.listdir(trial.record.directory)
        monkeypatch.undo()
        assert trial.run("ls").stdout == "README\nold\nsrc\n"


def test_no_more_is_copied_than_the_layer_may_hold(tmp_path: Path) -> None:
    """As somebody would who still has a descriptor, and fills what was copied already anew."""
    layer = tmp_path / "layer"
    layer.mkdir()
    for number in range(4):
        (layer / str(number)).write_bytes(bytes(4096))
        os.link(layer / str(number), layer / f"again{number}")
    (tmp_path / "kept").mkdir()
    source, target = (os.open(path, os.O_RDONLY) for path in (layer, tmp_path))
    try:
        memory._LayerCopy(4 * 4096, 8).copy(source, target, "kept")
        assert sum(path.stat().st_nlink == 2 for path in (tmp_path / "kept").iterdir()) == 8
        for name, most in (("bytes", (4 * 4096 - 1, 8)), ("names", (4 * 4096, 7))):
            (tmp_path / name).mkdir()
            with pytest.raises(OSError, match="grows while it is copied"):
                memory._LayerCopy(*most).copy(source, target, name)
    finally:
        os.close(source)
        os.close(target)


@pytest.mark.parametrize("size", [64 << 10, 1 << 20])
def test_a_hole_takes_no_room(tmp_path: Path, size: int) -> None:
    """Else a layer of a few kilobytes would become one of gigabytes; and somebody may fill it meanwhile."""
    with open(tmp_path / "hole", "w+b") as hole, open(tmp_path / "copy", "w+b") as copy:
        hole.truncate(size)
        copy_content(hole.fileno(), copy.fileno(), size, 0)
        assert (os.fstat(copy.fileno()).st_blocks, os.fstat(copy.fileno()).st_size) == (0, size)
        hole.write(b"x")
        hole.flush()
        with pytest.raises(OSError, match="grows while it is copied"):
            copy_content(hole.fileno(), copy.fileno(), size, 0)


@pytest.mark.parametrize(("size", "files"), [("100", None), ("much", None), ("1M", "0"), (None, "-1")])
def test_what_is_no_size_is_refused(size: str | None, files: str | None) -> None:
    with pytest.raises(PolicyError) as caught:
        layer_size(size, files)
    assert caught.value.code == "trial-size"


def test_everybody_can_try_in_memory(person: Person) -> None:
    done = person.corral(
        "run", "--trial-size", "64K", "-c", "echo kept > kept; head -c 99999 /dev/zero > big"
    )

    assert done.returncode == 1
    assert b"the trial is full: 64.0 KiB of 64.0 KiB" in done.stderr, done.stderr
    assert os.listdir(person.project) == []
    assert person.corral("apply", "kept").returncode == 0
    assert (person.project / "kept").read_text() == "kept\n"
