"""fs.read: nothing outside the granted paths can be read or listed."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from support.confinement import attempt, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.FS_READ)


def test_a_file_outside_cannot_be_read(backend: Case, stage: Stage) -> None:
    secret, stolen = stage.outside / "key", stage.work / "stolen"
    secret.write_text("the secret")

    done = attempt(
        backend,
        stage,
        shell(f"cat {secret} > {stolen}"),
        effect=lambda _: stolen.exists() and stolen.read_text() == "the secret",
        reset=stolen.unlink,
    )

    assert not done.worked


def test_a_directory_outside_cannot_be_listed(backend: Case, stage: Stage) -> None:
    (stage.outside / "a-telling-name").touch()
    listing = stage.work / "listing"

    done = attempt(
        backend,
        stage,
        shell(f"ls {stage.outside} > {listing}"),
        effect=lambda _: listing.exists() and "a-telling-name" in listing.read_text(),
        reset=listing.unlink,
    )

    assert not done.worked


def test_a_link_in_the_workspace_does_not_lead_outside(backend: Case, stage: Stage) -> None:
    stolen = stage.work / "stolen"
    (stage.outside / "key").write_text("the secret")
    (stage.work / "link").symlink_to(stage.outside)

    done = attempt(
        backend,
        stage,
        shell(f"cat link/key > {stolen}"),
        effect=lambda _: stolen.exists() and stolen.read_text() == "the secret",
        reset=stolen.unlink,
    )

    assert not done.worked


def test_the_parent_of_the_workspace_cannot_be_read(backend: Case, stage: Stage) -> None:
    stolen = stage.work / "stolen"
    (stage.work.parent / "sibling").write_text("the secret")

    done = attempt(
        backend,
        stage,
        shell(f"cat ../sibling > {stolen}"),
        effect=lambda _: stolen.exists() and stolen.read_text() == "the secret",
        reset=stolen.unlink,
    )

    assert not done.worked
