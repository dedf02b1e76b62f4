"""fs.write: nothing outside the writable paths can be created, changed or removed."""

from __future__ import annotations

import pytest

from corral.model.errors import UnenforceableError
from corral.model.feature import Feature
from support.confinement import attempt, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.FS_WRITE)


def test_a_file_in_a_readable_directory_cannot_be_created(backend: Case, stage: Stage) -> None:
    planted = stage.outside / "planted"

    done = attempt(
        backend,
        stage,
        shell(f"echo evil > {planted}"),
        effect=lambda _: planted.exists(),
        reset=planted.unlink,
        capabilities=[f"filesystem:read:{stage.outside}"],
    )

    assert not done.worked


def test_a_readable_file_cannot_be_changed(backend: Case, stage: Stage) -> None:
    kept = stage.outside / "kept"
    kept.write_text("good")

    done = attempt(
        backend,
        stage,
        shell(f"echo evil >> {kept}; truncate -s 0 {kept}"),
        effect=lambda _: kept.read_text() != "good",
        reset=lambda: kept.write_text("good"),
        capabilities=[f"filesystem:read:{stage.outside}"],
    )

    assert not done.worked


def test_a_readable_file_cannot_be_removed_or_renamed(backend: Case, stage: Stage) -> None:
    kept = stage.outside / "kept"
    kept.touch()

    done = attempt(
        backend,
        stage,
        shell(f"mv {kept} {kept}.old; rm -f {kept} {kept}.old"),
        effect=lambda _: not kept.exists(),
        reset=kept.touch,
        capabilities=[f"filesystem:read:{stage.outside}"],
    )

    assert not done.worked


def test_a_hard_link_does_not_make_a_readable_file_writable(backend: Case, stage: Stage) -> None:
    kept = stage.outside / "kept"
    kept.write_text("good")

    def reset() -> None:
        kept.write_text("good")
        (stage.work / "alias").unlink()

    done = attempt(
        backend,
        stage,
        shell(f"ln {kept} alias; echo evil >> alias; true"),
        effect=lambda _: kept.read_text() != "good",
        reset=reset,
        capabilities=[f"filesystem:read:{stage.outside}"],
    )

    assert not done.worked


def test_what_is_writable_inside_a_readable_directory_of_the_workspace_is(
    backend: Case, stage: Stage
) -> None:
    """The one does not close the other, nor open it, however deep they lie in each other.

    A backend that cannot take back what is permitted further up refuses the policy.
    """
    outer, inner = stage.work / "a/planted", stage.work / "a/b/c/planted"
    granted = [stage.work / "a/b/made", stage.work / "a/b/c/d/made"]
    granted[1].parent.mkdir(parents=True)

    def reset() -> None:
        for path in (outer, inner, *granted):
            path.unlink(missing_ok=True)

    pairs = (("read", "a"), ("write", "a/b"), ("read", "a/b/c"), ("write", "a/b/c/d"))
    try:
        done = attempt(
            backend,
            stage,
            shell("".join(f"echo x > {path}\n" for path in (outer, inner, *granted)) + "true"),
            effect=lambda _: outer.exists() or inner.exists(),
            reset=reset,
            capabilities=[f"filesystem:{word}:{stage.work / path}" for word, path in pairs],
        )
    except UnenforceableError as refused:
        assert backend.backend.name == "landlock"
        assert refused.lacking == {Feature.FS_WRITE}
    else:
        assert not done.worked
        assert all(path.exists() for path in granted)
