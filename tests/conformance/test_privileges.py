"""privileges: no capability, no set-user-id program and no namespace gives new rights."""

from __future__ import annotations

import os
import shutil
import stat

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


#: Every way in which a file gets its mode, by the number of the call where Python has no function for it.
_SET_ID = """
import ctypes, os, struct
call = ctypes.CDLL(None).syscall
print('alive', flush=True)
def by_handle():
    os.fchmod(os.open('b', os.O_CREAT | os.O_WRONLY), 0o4755)
def by_openat2():
    how = struct.pack('QQQ', os.O_CREAT | os.O_WRONLY, 0o4755, 0)
    assert call(437, -100, b'e', how, len(how)) >= 0
def by_fchmodat2():
    open('f', 'w').close()
    assert call(452, -100, b'f', 0o4755, 0) == 0
def without_name():
    handle = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o4755)
    os.link(f'/proc/self/fd/{handle}', 'g', follow_symlinks=True)
for way in (
    lambda: (open('a', 'w').close(), os.chmod('a', 0o4755)),
    by_handle,
    lambda: os.open('c', os.O_CREAT | os.O_WRONLY, 0o4755),
    lambda: os.mknod('d', 0o104755),
    by_openat2,
    by_fchmodat2,
    without_name,
):
    try:
        way()
    except (OSError, AssertionError):
        pass
"""


def test_no_program_is_left_that_gives_others_the_callers_rights(backend: Case, stage: Stage) -> None:
    """A set-user-id program in the workspace is one on the host, for every user who finds it."""

    def left(_: object) -> bool:
        return any(path.is_file() and path.stat().st_mode & stat.S_ISUID for path in stage.work.iterdir())

    def reset() -> None:
        for path in stage.work.iterdir():
            if len(path.name) == 1:
                path.unlink()

    done = attempt(backend, stage, python(_SET_ID), effect=left, reset=reset)

    assert not done.worked
