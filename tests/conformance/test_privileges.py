"""privileges: no capability, no set-user-id program and no namespace gives new rights."""

from __future__ import annotations

import os
import shutil

import pytest

from corral.model.feature import Feature
from support.confinement import attempt, python, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.PRIVILEGES)

_SOMEBODY = 12345
_needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has something here to lose")

_NAMESPACE = """
import ctypes
assert ctypes.CDLL(None).unshare(0x10000000) == 0
open('mark', 'w').close()
"""


def test_no_user_namespace_can_be_made(backend: Case, stage: Stage) -> None:
    mark = stage.work / "mark"

    done = attempt(backend, stage, python(_NAMESPACE), effect=lambda _: mark.exists(), reset=mark.unlink)

    assert not done.worked


@_needs_root
def test_root_cannot_give_a_file_away(backend: Case, stage: Stage) -> None:
    """CAP_CHOWN, for one, is gone, even inside the workspace."""
    given = stage.work / "given"
    given.touch()

    done = attempt(
        backend,
        stage,
        shell(f"chown {_SOMEBODY} given"),
        effect=lambda _: given.stat().st_uid == _SOMEBODY,
        reset=lambda: os.chown(given, 0, 0),
    )

    assert not done.worked


@_needs_root
def test_root_cannot_read_past_the_mode_of_a_file(backend: Case, stage: Stage) -> None:
    """CAP_DAC_OVERRIDE is gone: files of others are as closed as their modes say."""
    secret, stolen = stage.work / "secret", stage.work / "stolen"
    secret.write_text("the secret")
    secret.chmod(0o600)
    os.chown(secret, _SOMEBODY, _SOMEBODY)

    done = attempt(
        backend,
        stage,
        shell("cat secret > stolen"),
        effect=lambda _: stolen.exists() and stolen.read_text() == "the secret",
        reset=stolen.unlink,
    )

    assert not done.worked


@_needs_root
def test_a_set_user_id_program_does_not_change_the_user(backend: Case, stage: Stage) -> None:
    """Judged by whom the file belongs to that the program makes."""
    program, made = stage.work / "program", stage.work / "made"
    stage.work.chmod(0o777)
    for directory in (stage.work.parent, stage.work.parent.parent, stage.work.parent.parent.parent):
        directory.chmod(directory.stat().st_mode | 0o011)  # that other user has to come this far
    shutil.copy("/usr/bin/touch", program)
    os.chown(program, _SOMEBODY, _SOMEBODY)
    program.chmod(0o4755)

    done = attempt(
        backend,
        stage,
        shell("./program made"),
        effect=lambda _: made.exists() and made.stat().st_uid == _SOMEBODY,
        reset=made.unlink,
    )

    assert not done.worked
