"""The law of trials for git: after an apply, git says what it says where the same ran in place."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral import Sandbox
from support.examples import examples
from support.git_programs import DATES, git, said
from support.probed import probe_of

_NAMES = st.sampled_from(("a", "b", "d/c"))
_REFS = st.sampled_from(("main", "one", "two", "one/x"))
_LINES = st.one_of(
    st.tuples(_NAMES, st.sampled_from("123")).map(lambda v: f"mkdir -p d; echo {v[1]} > {v[0]}"),
    _NAMES.map(lambda name: f"git add {name}"),
    _NAMES.map(lambda name: f"git add -N {name}"),
    _NAMES.map(lambda name: f"git rm -qf {name}"),
    _NAMES.map(lambda name: f"git mv {name} moved"),
    _NAMES.map(lambda name: f"rm -f {name}"),
    st.just("git add -A"),
    st.sampled_from("xyz").map(lambda text: f"git commit -qm {text}"),
    st.just("git commit -qam all"),
    st.just("git commit -q --amend -m other"),
    _REFS.map(lambda name: f"git checkout -q {name}"),
    _REFS.map(lambda name: f"git checkout -q -b {name}"),
    _REFS.map(lambda name: f"git branch -qD {name}"),
    _REFS.map(lambda name: f"git tag -f {name}"),
    _REFS.map(lambda name: f"git tag -f -a -m annotated {name}"),
    _REFS.map(lambda name: f"git tag -d {name}"),
    st.just("git checkout -q --detach"),
    st.just("git stash -q"),
    st.just("git stash -q -u -m untracked"),
    st.just("git stash pop -q || git reset -q --hard"),
    st.just("git stash drop -q stash@{1}"),
    st.just("git reset -q HEAD~1"),
    st.just("git pack-refs --all"),
    st.just("git gc -q"),
    _REFS.map(lambda name: f"git merge -q --no-edit {name} || git merge --abort"),
    st.just("git update-index --assume-unchanged a"),
)
_PROGRAMS = st.lists(_LINES, min_size=1, max_size=14).map(
    lambda lines: "; ".join(f"{{ {x}; }}" for x in lines)
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = probe_of("native")
    if not probe.available:
        pytest.skip(f"native is not available: {probe.reason}")
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)


@pytest.mark.usefixtures("home")
@examples(60)
@given(before=_PROGRAMS, program=_PROGRAMS)
def test_git_says_the_same_as_where_it_ran_in_place(before: str, program: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        work, copy = Path(place, "work"), Path(place, "copy")
        work.mkdir()
        git(work, "init", "-q", "-b", "main")
        git(work, "commit", "-q", "--allow-empty", "-m", "first")
        _run(work, before)
        shutil.copytree(work, copy, symlinks=True)
        was = said(work)
        with Sandbox(workspace=work, backend="native").trial() as trial:
            trial.run(f"{DATES} {{ {program}; }} >/dev/null 2>&1")
            inside = trial.run(said.script).stdout
            _run(copy, program)
            assert inside == said(copy)
            assert said(work) == was
            trial.apply()
            assert said(work) == inside
            assert (trial.changes(), trial.git_changes()) == ((), ())
            if inside != was:
                trial.undo()
                assert said(work) == was


def _run(directory: Path, program: str) -> None:
    subprocess.run(["/bin/sh", "-c", f"{DATES} {{ {program}; }} >/dev/null 2>&1"], cwd=directory, check=False)
