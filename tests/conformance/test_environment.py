"""environment: only the permitted environment variables are passed on."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from support.confinement import attempt, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.ENVIRONMENT)


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> str:
    """A token in the caller's environment."""
    monkeypatch.setenv("A_TEST_TOKEN", "the secret")
    monkeypatch.setenv("LD_AUDIT", "")
    return "the secret"


def test_a_token_of_the_caller_is_not_passed_on(backend: Case, stage: Stage, secret: str) -> None:
    dump = stage.work / "dump"

    done = attempt(
        backend,
        stage,
        shell("env > dump"),
        effect=lambda _: dump.exists() and secret in dump.read_text(),
        reset=dump.unlink,
    )

    assert not done.worked


def test_a_token_is_not_left_in_the_memory_of_a_parent(backend: Case, stage: Stage, secret: str) -> None:
    """What the kernel shows of the processes around the command is as clean as its own environment."""
    dump = stage.work / "dump"

    done = attempt(
        backend,
        stage,
        shell("cat /proc/self/environ /proc/$PPID/environ /proc/1/environ > dump; true"),
        effect=lambda _: dump.exists() and secret in dump.read_text(errors="replace"),
        reset=dump.unlink,
    )

    assert not done.worked


def test_variables_that_steer_the_loader_are_not_passed_on(backend: Case, stage: Stage) -> None:
    dump = stage.work / "dump"

    done = attempt(
        backend,
        stage,
        shell("env > dump"),
        effect=lambda _: dump.exists() and "LD_AUDIT" in dump.read_text(),
        reset=dump.unlink,
    )

    assert not done.worked
