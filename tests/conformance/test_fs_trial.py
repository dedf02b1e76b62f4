"""fs.trial: what a command writes in a trial's workspace stays in a separate layer."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from support.confinement import attempt, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.FS_TRIAL)


def test_what_a_command_writes_stays_out_of_the_workspace(backend: Case, stage: Stage) -> None:
    made = stage.work / "made"

    done = attempt(
        backend, stage, shell("echo new > made"), effect=lambda _: made.exists(), reset=made.unlink
    )

    assert not done.worked
    assert (stage.outside / "upper/made").read_text() == "new\n"


def test_what_was_there_is_neither_changed_nor_removed(backend: Case, stage: Stage) -> None:
    kept, inner = stage.work / "kept", stage.work / "directory/inner"
    inner.parent.mkdir()

    def reset() -> None:
        kept.write_text("old\n")
        inner.parent.mkdir(exist_ok=True)
        inner.write_text("old\n")
        kept.chmod(0o644)

    reset()
    done = attempt(
        backend,
        stage,
        shell("echo more >> kept; chmod 600 kept; rm -r directory; mkdir directory; mv kept away"),
        effect=lambda _: not (kept.exists() and inner.exists() and kept.read_text() == "old\n"),
        reset=lambda: ((stage.work / "away").unlink(), reset()),
    )

    assert not done.worked
    assert kept.stat().st_mode & 0o777 == 0o644


def test_a_directory_that_is_held_in_its_place_is_not_the_hosts_own(backend: Case, stage: Stage) -> None:
    """A pin is a mount of a directory onto itself: it must be the one of the layer."""
    git = stage.work / ".git"
    (git / "hooks").mkdir(parents=True)
    planted = git / "planted"

    done = attempt(
        backend,
        stage,
        shell("echo x > .git/planted"),
        effect=lambda _: planted.exists(),
        reset=planted.unlink,
    )

    assert not done.worked
