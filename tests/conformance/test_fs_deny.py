"""fs.deny: denied paths inside a granted tree can be neither read nor written."""

from __future__ import annotations

import shutil

import pytest

from corral.model.feature import Feature
from support.confinement import attempt, shell
from support.doors import SEND, open_door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.FS_DENY)


_DENY = ["filesystem:deny:${workspace}/secrets"]


def test_a_denied_file_inside_the_workspace_cannot_be_read(backend: Case, stage: Stage) -> None:
    stolen = stage.work / "stolen"
    (stage.work / "secrets").mkdir()
    (stage.work / "secrets/key").write_text("the secret")

    done = attempt(
        backend,
        stage,
        shell("cat secrets/key > stolen"),
        effect=lambda _: stolen.exists() and stolen.read_text() == "the secret",
        reset=stolen.unlink,
        capabilities=_DENY,
    )

    assert not done.worked


def test_nothing_is_written_into_a_denied_directory(backend: Case, stage: Stage) -> None:
    planted = stage.work / "secrets/planted"
    planted.parent.mkdir()

    done = attempt(
        backend,
        stage,
        shell("echo evil > secrets/planted"),
        effect=lambda _: planted.exists(),
        reset=planted.unlink,
        capabilities=_DENY,
    )

    assert not done.worked


def test_what_is_denied_in_a_read_only_directory_does_not_open_that(backend: Case, stage: Stage) -> None:
    """What lies above it is held in its place, which must not make it writable."""
    written = stage.work / "docs/part/written"
    (stage.work / "docs/part/secrets").mkdir(parents=True)

    done = attempt(
        backend,
        stage,
        shell("echo evil > docs/part/written"),
        effect=lambda _: written.exists(),
        reset=written.unlink,
        capabilities=["filesystem:read:${workspace}/docs", "filesystem:deny:${workspace}/docs/part/secrets"],
    )

    assert not done.worked


@pytest.mark.parametrize("place", ["vendor/.git/modules/part", "modules/part/.git"])
def test_a_repository_in_a_readable_directory_cannot_be_changed(
    backend: Case, stage: Stage, place: str
) -> None:
    """Its git directories are held in their places, which must not make them writable."""
    for directory in (stage.work / "vendor/.git", stage.work / place):
        for name in ("objects", "refs", "hooks"):
            (directory / name).mkdir(parents=True)
        (directory / "HEAD").write_text("ref: refs/heads/main\n")
        (directory / "config").write_text("[core]\n\trepositoryformatversion = 0\n")
    planted = stage.work / place / "objects/planted"

    done = attempt(
        backend,
        stage,
        shell(f"echo evil > {place}/objects/planted"),
        effect=lambda _: planted.exists(),
        reset=planted.unlink,
        capabilities=[f"filesystem:read:${{workspace}}/{place.partition('/')[0]}"],
    )

    assert not done.worked


def test_a_home_that_is_granted_does_not_show_its_keys(backend: Case, stage: Stage) -> None:
    """Nobody has denied them: homes hide them, from every policy."""
    (stage.home / ".ssh").mkdir()
    (stage.home / ".ssh/id_ed25519").write_text("the secret")
    (stage.home / ".bash_history").write_text("login --password 'the secret'")

    done = attempt(
        backend,
        stage,
        shell(f"cd '{stage.home}' && cat .ssh/id_ed25519 .bash_history; true"),
        effect=lambda output: b"the secret" in output,
        capabilities=["filesystem:read:~"],
    )

    assert not done.worked


def test_renaming_a_denied_directory_does_not_open_it(backend: Case, stage: Stage) -> None:
    stolen = stage.work / "stolen"
    (stage.work / "secrets").mkdir()
    (stage.work / "secrets/key").write_text("the secret")

    def reset() -> None:
        stolen.unlink()
        (stage.work / "open").rename(stage.work / "secrets")

    done = attempt(
        backend,
        stage,
        shell("mv secrets open; cat open/key secrets/key > stolen; true"),
        effect=lambda _: stolen.exists() and "the secret" in stolen.read_text(),
        reset=reset,
        capabilities=_DENY,
    )

    assert not done.worked


@pytest.mark.parametrize("denied", [".git", "sub"])
def test_a_denied_directory_may_hold_what_is_protected(backend: Case, stage: Stage, denied: str) -> None:
    """A repository, whose hooks and configuration are held by mounts of their own, beneath what is denied."""
    stolen = stage.work / "stolen"
    for repository in (stage.work / ".git", stage.work / "sub/module/.git"):
        (repository / "hooks").mkdir(parents=True)
        (repository / "config").write_text("# the secret\n")

    done = attempt(
        backend,
        stage,
        shell(f"find {denied} -name config -exec cat {{}} + > stolen; true"),
        effect=lambda _: stolen.exists() and "the secret" in stolen.read_text(),
        reset=stolen.unlink,
        capabilities=[f"filesystem:deny:${{workspace}}/{denied}"],
    )

    assert stolen.exists()
    assert not done.worked


def test_a_denied_path_that_is_missing_does_not_come_into_being(backend: Case, stage: Stage) -> None:
    planted = stage.work / "secrets"

    done = attempt(
        backend,
        stage,
        shell("echo evil > secrets"),
        effect=lambda _: planted.exists(),
        reset=planted.unlink,
        capabilities=_DENY,
    )

    assert not done.worked


def test_a_directory_that_outlives_the_sandbox_leads_to_nothing_denied(backend: Case, stage: Stage) -> None:
    (stage.work / "secrets").mkdir()
    (stage.work / "secrets/key").write_text("the secret")

    with open_door(stage.work) as door:
        done = attempt(
            backend,
            stage,
            SEND,
            effect=lambda _: door.read("secrets/key") == "the secret",
            capabilities=_DENY,
        )

    assert door.came == 2
    assert not done.worked


_WAYS = """
cat deep/down/a.pem
ln -s deep/down/a.pem b.txt; cat b.txt
ln deep/down/a.pem c.txt; cat c.txt
cat link.pem real/key
mv deep/down/a.pem deep/down/a.txt; cat deep/down/a.txt
mv deep moved; cat moved/down/*
"""


def test_what_fulfils_a_denied_pattern_cannot_be_read(backend: Case, stage: Stage) -> None:
    stolen = stage.work / "stolen"
    (stage.work / "real").mkdir()
    (stage.work / "real/key").write_text("the secret")

    def place() -> None:
        for name in ("stolen", "b.txt", "c.txt", "link.pem"):
            (stage.work / name).unlink(missing_ok=True)
        shutil.rmtree(stage.work / "moved", ignore_errors=True)
        (stage.work / "deep/down").mkdir(parents=True)
        (stage.work / "deep/down/a.pem").write_text("the secret")
        (stage.work / "link.pem").symlink_to("real/key")

    place()
    done = attempt(
        backend,
        stage,
        shell(f"({_WAYS}) > stolen 2>/dev/null"),
        effect=lambda _: stolen.exists() and "the secret" in stolen.read_text(),
        reset=place,
        capabilities=["filesystem:deny:*.pem"],
    )

    assert not done.worked
