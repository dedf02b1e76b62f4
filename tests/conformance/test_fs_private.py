"""fs.private: temporary files and the home directory belong to the run and are removed with it."""

from __future__ import annotations

import pytest

from corral.model.errors import UnenforceableError
from corral.model.feature import Feature
from support.confinement import attempt, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.FS_PRIVATE)


def test_what_is_left_in_the_home_vanishes_with_the_run(backend: Case, stage: Stage) -> None:
    done = attempt(
        backend,
        stage,
        shell("echo left > $HOME/mark"),
        effect=lambda _: _is_left("mark", stage),
        reset=(stage.home / "mark").unlink,
    )

    assert not done.worked


def test_what_is_left_in_the_temporary_directory_vanishes_with_the_run(backend: Case, stage: Stage) -> None:
    done = attempt(
        backend,
        stage,
        shell("mkdir -p $TMPDIR/a/b; chmod 500 $TMPDIR/a; echo left > $TMPDIR/a/b/mark"),
        effect=lambda _: _is_left("mark", stage),
        reset=(stage.temporary / "a/b/mark").unlink,
    )

    assert not done.worked


def test_the_callers_home_cannot_be_read(backend: Case, stage: Stage) -> None:
    stolen = stage.work / "stolen"
    (stage.home / ".netrc").write_text("the secret")

    done = attempt(
        backend,
        stage,
        shell(f"cat $HOME/.netrc {stage.home}/.netrc > stolen; true"),
        effect=lambda _: stolen.exists() and "the secret" in stolen.read_text(),
        reset=stolen.unlink,
    )

    assert not done.worked


@pytest.mark.parametrize("access", ["write", "read", "write by a link"])
def test_an_area_inside_a_granted_directory_has_nothing_of_the_hosts(
    backend: Case, stage: Stage, access: str
) -> None:
    """A backend that cannot put an area there refuses the policy."""
    around = stage.outside if access == "read" else stage.work
    area, stolen = around / "area", stage.work / "stolen"
    area.mkdir()
    (area / "mine").write_text("the secret")
    named = stage.outside / "link" if access == "write by a link" else area
    if named != area:
        named.symlink_to(area)
    capabilities = (f"filesystem:{access[:5].strip()}:{around}", f"filesystem:private:{named}")
    script = shell(f"echo changed > {named}/left; cat {named}/mine > stolen; true")

    def effect(_: bytes) -> bool:
        return (area / "left").exists() or (stolen.exists() and stolen.read_text() == "the secret")

    def reset() -> None:
        (area / "left").unlink()
        stolen.unlink()

    try:
        done = attempt(backend, stage, script, effect=effect, reset=reset, capabilities=capabilities)
    except UnenforceableError as refused:
        assert backend.backend.name != "native"
        assert refused.lacking == {Feature.FS_PRIVATE}
    else:
        assert not done.worked


def _is_left(name: str, stage: Stage) -> bool:
    return any(list(place.rglob(name)) for place in (stage.home, stage.temporary))
