"""Laws of trials, found wrong by random programs of file operations.

- while a program runs on trial, the workspace stays as it is;
- applied, the workspace is what the same program makes of a plain copy;
- undone, it is as it was; and applied again, the same once more.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given

from corral import Sandbox
from support.confinement import INTERPRETER as READABLE
from support.confinement import PYTHON
from support.examples import examples
from support.file_programs import INTERPRETER, PROGRAMS, run_plainly, tree_of
from support.probed import probe_of


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state directory, where layers lie, is the test's own."""
    probe = probe_of("native")
    if not probe.available:
        pytest.skip(f"native is not available: {probe.reason}")
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)


@pytest.mark.usefixtures("home")
@examples(60)
@given(before=PROGRAMS, program=PROGRAMS)
def test_applied_it_is_as_if_it_had_run_in_place(
    before: list[tuple[object, ...]], program: list[tuple[object, ...]]
) -> None:
    with tempfile.TemporaryDirectory() as place:
        work, copy = Path(place, "work"), Path(place, "copy")
        work.mkdir()
        run_plainly(work, before)
        shutil.copytree(work, copy, symlinks=True)
        was = tree_of(work)
        with _sandbox(work).trial() as trial:
            done = trial.run([PYTHON, "-I", "-S", "-c", INTERPRETER], stdin=json.dumps(program))
            assert done.stdout == "done\n", done.stderr
            assert tree_of(work) == was
            run_plainly(copy, program)
            trial.apply()
            wanted = tree_of(copy)
            assert tree_of(work) == wanted
            assert trial.changes() == ()
            if wanted != was:
                trial.undo()
                assert tree_of(work) == was
                trial.apply()
                assert tree_of(work) == wanted


def _sandbox(work: Path) -> Sandbox:
    from corral.policy.compose import build_policy

    return Sandbox(build_policy("moderate", READABLE), backend="native", workspace=work)
