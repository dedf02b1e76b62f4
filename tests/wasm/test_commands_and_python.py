"""Modules that are commands, run by a kept worker; and Python, where there is one for WASI."""

from __future__ import annotations

import os
from contextlib import closing

import pytest

import corral
from corral.host.modules import PYTHON_VARIABLE, find_python
from corral.wasm import ModuleSandbox, PythonSandbox, run_python
from support.module_runs import TOOL
from support.probed import require

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def works(request: pytest.FixtureRequest) -> None:
    require(request, "wasm")


@pytest.mark.parametrize("inline", [True, False])
def test_a_command_is_run_again_and_again_each_time_from_its_beginning(inline: bool, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("content")
    wants = ["filesystem:read:${workspace}"]

    with closing(ModuleSandbox(TOOL, request=wants, workspace=tmp_path, inline=inline)) as tool:
        done = [tool.run("r", "text") for _ in range(2)]
        assert [(each.exit_status, each.stdout) for each in done] == [(0, b"alive\ncontent")] * 2
        assert tool.run("w", "text", "x").exit_status == 69
        with pytest.raises(corral.ModuleTrap) as caught:
            tool.run("i", timeout=0.1)
        assert caught.value.limit == "wall"
        assert tool.run("r", "text").exit_status == 0
    assert [event.feature.value for event in tool.events] == ["fs.write", "limit.wall"]


def test_without_a_python_the_error_says_where_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, "/no/such/python.wasm")

    with pytest.raises(corral.PolicyError) as caught:
        run_python("print(1)")

    assert caught.value.code == "module-file" and "python-wasi" in caught.value.fix


def test_python_needs_a_private_directory() -> None:
    with pytest.raises(corral.PolicyError) as caught:
        PythonSandbox(corral.Policy())
    assert caught.value.code == "python-area"


@pytest.mark.skipif(not os.path.exists(find_python()), reason=f"no {find_python()}")
def test_python_code_runs_confined(tmp_path: Path) -> None:
    with closing(PythonSandbox("strict", workspace=tmp_path)) as python:
        done = python.run("print('hello'); result = {'sum': sum(range(10))}")
        assert (done.stdout, done.value, done.ok) == ("hello\n", {"sum": 45}, True)
        assert python.run("open('new', 'w')").exit_status == 1 and os.listdir(tmp_path) == []
        assert "ZeroDivisionError" in python.run("1 / 0").stderr
        assert python.run("result = names").value is None
