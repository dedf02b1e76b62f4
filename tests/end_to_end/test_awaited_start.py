"""The sandbox is made while corral looks at the workspace: no command starts before that look has ended."""

from __future__ import annotations

from pathlib import Path

import pytest

import corral
from corral.model.errors import SetupError
from corral.protected_names import session_guard

pytestmark = pytest.mark.starts_sandboxes
WRITES = ["/bin/sh", "-c", "echo > ran"]


@pytest.fixture
def sandbox(tmp_path: Path) -> corral.Sandbox:
    return corral.Sandbox("moderate", backend="native", workspace=tmp_path)


def test_nothing_has_run_when_the_look_fails(
    sandbox: corral.Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise SetupError("guard", "a look that fails", why="for a test", fix="none")

    with monkeypatch.context() as patched:
        patched.setattr(session_guard, "open_guard", fail)
        with pytest.raises(SetupError, match="a look that fails"):
            sandbox.run(WRITES)

    assert not (tmp_path / "ran").exists()
    sandbox.run(WRITES).check()
    assert (tmp_path / "ran").exists()


def test_a_run_that_is_ended_while_corral_looks_starts_nothing(
    sandbox: corral.Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, real = sandbox.prepare(sandbox.read_command(WRITES)), session_guard.open_guard

    def end_and_look(*values: object, **named: object) -> object:
        run.kill()
        return real(*values, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(session_guard, "open_guard", end_and_look)
    result = run.run()

    assert not result.ok
    assert not (tmp_path / "ran").exists()


def test_what_cannot_be_executed_is_told_all_the_same(sandbox: corral.Sandbox) -> None:
    with pytest.raises(corral.CorralError):
        sandbox.run(["/nowhere/program"])
