"""A path that is replaced between plan and launch: planned once more, and never a third time."""

from __future__ import annotations

import pytest

from corral.model.errors import SetupError
from corral.runtime.run import Run
from corral.sandbox import Sandbox
from support.fake_host import FakeHost


@pytest.fixture
def sandbox(tmp_path, monkeypatch) -> Sandbox:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    host = FakeHost({f"{tmp_path}/": ""}, cwd=str(tmp_path))
    return Sandbox(backend="native", workspace=tmp_path, host=host)


def _failing(code: str, times: int, seen: list):
    def run(self: Run):
        seen.append(self._plan)
        if len(seen) <= times:
            raise SetupError(code, "x", why="y", fix="z")
        return "the result"

    return run


def test_the_second_plan_is_made_anew(sandbox, monkeypatch) -> None:
    plans: list = []
    monkeypatch.setattr(Run, "run", _failing("path-changed", 1, plans))

    assert sandbox.run("true") == "the result"
    first, second = plans
    assert first.run_id != second.run_id
    assert first.resolved is not second.resolved


def test_a_path_that_keeps_changing_is_an_error(sandbox, monkeypatch) -> None:
    plans: list = []
    monkeypatch.setattr(Run, "run", _failing("path-changed", 9, plans))

    with pytest.raises(SetupError) as failed:
        sandbox.run("true")
    assert (failed.value.code, len(plans)) == ("path-changed", 2)


def test_who_was_killed_meanwhile_is_not_run_a_second_time(sandbox, monkeypatch) -> None:
    """The second run knows of a kill that came to the first."""
    seen: list = []
    attempt = sandbox.prepare(sandbox.read_command("true"))

    def run(self: Run):
        seen.append(self._is_unwanted)
        if len(seen) == 1:
            attempt.kill()
            raise SetupError("path-changed", "x", why="y", fix="z")
        return "the result"

    monkeypatch.setattr(Run, "run", run)
    attempt.run()

    assert seen == [False, True]


def test_another_failure_is_not_tried_again(sandbox, monkeypatch) -> None:
    plans: list = []
    monkeypatch.setattr(Run, "run", _failing("mounts", 9, plans))

    with pytest.raises(SetupError):
        sandbox.run("true")
    assert len(plans) == 1


def test_without_a_change_the_ground_is_kept(sandbox, monkeypatch) -> None:
    plans: list = []
    monkeypatch.setattr(Run, "run", _failing("", 0, plans))
    sandbox.run("true")
    sandbox.run("true")

    assert plans[0].resolved is plans[1].resolved
