"""fs.protect: files that the host runs later are neither changed nor planted."""

from __future__ import annotations

import shutil

import pytest

from corral.model.feature import Feature
from support.confinement import attempt, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.FS_PROTECT)


@pytest.fixture
def hooks(stage: Stage) -> Path:
    """The hooks of a repository in the workspace."""
    directory = stage.work / ".git/hooks"
    directory.mkdir(parents=True)
    (stage.work / ".git/config").write_text("[core]\n")
    return directory


def test_no_hook_is_planted_in_a_repository(backend: Case, stage: Stage, hooks: Path) -> None:
    done = attempt(
        backend,
        stage,
        shell("echo evil > .git/hooks/pre-commit"),
        effect=lambda _: (hooks / "pre-commit").exists(),
        reset=(hooks / "pre-commit").unlink,
    )

    assert not done.worked


def test_the_configuration_of_a_repository_cannot_be_changed(
    backend: Case, stage: Stage, hooks: Path
) -> None:
    config = hooks.parent / "config"

    done = attempt(
        backend,
        stage,
        shell("echo 'fsmonitor = evil' >> .git/config"),
        effect=lambda _: "evil" in config.read_text(),
        reset=lambda: config.write_text("[core]\n"),
    )

    assert not done.worked


def test_a_start_file_that_is_missing_cannot_be_planted(backend: Case, stage: Stage) -> None:
    planted = stage.work / ".envrc"

    done = attempt(
        backend,
        stage,
        shell("echo evil > .envrc"),
        effect=lambda _: planted.exists(),
        reset=planted.unlink,
    )

    assert not done.worked


def test_a_repository_cannot_be_swapped_for_another(backend: Case, stage: Stage, hooks: Path) -> None:
    def reset() -> None:
        shutil.rmtree(stage.work / ".git")
        (stage.work / "old").rename(stage.work / ".git")

    done = attempt(
        backend,
        stage,
        shell("mv .git old; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; true"),
        effect=lambda _: (hooks / "pre-commit").exists(),
        reset=reset,
    )

    assert not done.worked
