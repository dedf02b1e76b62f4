"""An apply that is stopped at any of its calls: nothing is half written, and the next one goes on."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.model.errors import SetupError
from corral.trials.apply import Prefer, apply_trial, undo_trial
from support.file_programs import tree_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.sessions.trial import Trial
    from corral.trials.record import TrialRecord

#: The calls by which an apply or an undo changes anything, or could fail to.
_CALLS = (
    *("open", "write", "rename", "link", "unlink", "mkdir", "rmdir", "symlink", "chmod", "fchmod", "utime"),
    *("copy_file_range", "pread", "pwrite", "ftruncate", "stat"),
)
_SCRIPT = (
    "echo more >> README; rm -r old; mkdir -p new/deep; echo n > new/deep/file; ln -s README new/link; "
    "chmod 600 src/main.py; rm -r src; echo s > src; mkdir empty; chmod 700 empty"
)


_REPLACING = "echo more >> README; echo more >> src/main.py; echo n > new"


class Faults:
    """Counts calls of the operating system, and does something at one of them."""

    def __init__(self, at: int, act: Callable[[], None]) -> None:
        self._left, self._act = at, act
        self.calls = 0

    def install(self) -> None:
        for name in _CALLS:
            setattr(os, name, self._wrap(getattr(os, name)))

    def _wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            if self.calls == self._left:
                self._act()
            return call(*arguments, **options)

        return wrapped


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _fail(number: int) -> Callable[[], None]:
    def act() -> None:
        raise OSError(number, os.strerror(number))

    return act


def _in_child(work: Callable[[], None], at: int, act: Callable[[], None]) -> bool:
    """Do it in a process whose `at`th call goes wrong; whether there were so many."""
    child = os.fork()
    if child == 0:
        faults = Faults(at, act)
        faults.install()
        try:
            work()
        except SetupError:
            pass
        except BaseException as problem:
            sys.stderr.write(f"{type(problem).__name__}: {problem}\n")
            os._exit(3)
        os._exit(0 if faults.calls < at else 7)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in {0, 7, -signal.SIGKILL}
    return code != 0


def _check_whole(work: Path, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Every file is the old one or the new one, and nothing else is there but what is being made."""
    for name, found in tree_of(work).items():
        if Path(name).name.startswith(".corral-apply-"):
            continue
        if found[0] == "file":
            assert found[-1] in {before.get(name, ("",))[-1], after.get(name, ("",))[-1]}, name
        else:
            assert found[0] in {"link", "directory"}


def _reset(record: TrialRecord, work: Path, pristine: Path) -> None:
    for name in os.listdir(work):
        path = work / name
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    shutil.copytree(pristine, work, symlinks=True, dirs_exist_ok=True)
    shutil.rmtree(Path(record.directory, "journals"), ignore_errors=True)
    Path(record.directory, "bases").unlink(missing_ok=True)


_ACTS = {"killed": _die, "no room": _fail(errno.ENOSPC), "broken disk": _fail(errno.EIO)}


@pytest.mark.parametrize(("how", "verb"), [("killed", "apply"), ("no room", "apply"), ("killed", "undo")])
def test_stopped_at_some_calls_it_goes_on(
    trial: Trial, work: Path, tmp_path: Path, how: str, verb: str
) -> None:
    _stop_everywhere(trial, work, tmp_path, how, verb, every=13)


@pytest.mark.parametrize("how", ["killed", "no room"])
def test_stopped_while_files_change_places_it_goes_on(
    trial: Trial, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr("corral.trials.exchange._LEAST", 1)
    _stop_everywhere(trial, work, tmp_path, how, "apply", every=5, script=_REPLACING)


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", sorted(_ACTS))
@pytest.mark.parametrize("verb", ["apply", "undo"])
@pytest.mark.parametrize("least", [1, 50])
def test_stopped_at_every_call_it_goes_on(
    trial: Trial, work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, verb: str, least: int
) -> None:
    monkeypatch.setattr("corral.trials.exchange._LEAST", least)
    _stop_everywhere(trial, work, tmp_path, how, verb, every=1)


def _stop_everywhere(
    trial: Trial, work: Path, tmp_path: Path, how: str, verb: str, *, every: int, script: str = _SCRIPT
) -> None:
    done = trial.run(script)
    assert done.ok, done.stderr
    record, before = trial.record, tree_of(work)
    pristine = tmp_path / "pristine"
    shutil.copytree(work, pristine, symlinks=True)
    trial.apply()
    after = tree_of(work)
    assert after != before
    at, stops = 1, 0
    while True:
        _reset(record, work, pristine)
        if verb == "undo":
            apply_trial(record, prefer=Prefer.THEIRS)
        if not _in_child(lambda: _do(record, verb), at, _ACTS[how]):
            break
        _check_whole(work, before, after)
        _finish(record, verb)
        assert tree_of(work) == (after if verb == "apply" else before), (at, how)
        if verb == "apply":
            undo_trial(record)
            assert tree_of(work) == before, (at, how)
        at, stops = at + every, stops + 1
    assert stops > 2


def _do(record: TrialRecord, verb: str) -> None:
    if verb == "apply":
        apply_trial(record, prefer=Prefer.THEIRS)
    else:
        undo_trial(record)


def _finish(record: TrialRecord, verb: str) -> None:
    """The next command of the same kind."""
    if verb == "apply":
        apply_trial(record, prefer=Prefer.THEIRS)
        return
    from corral.trials.journal import read_journals

    journals = read_journals(record)
    for journal in journals:
        journal.close()
    if any(not journal.is_over for journal in journals):
        undo_trial(record)
