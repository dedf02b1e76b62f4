"""fs.metadata: modes, owners, times and attributes outside the writable paths cannot be changed."""

from __future__ import annotations

import os

import pytest

from corral.model.feature import Feature
from corral.model.plan import StdioMode
from support.confinement import attempt, python, shell
from support.doors import make_null_device, redirected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.FS_METADATA)


def test_the_mode_of_a_readable_file_stays(backend: Case, stage: Stage) -> None:
    kept = stage.outside / "kept"
    kept.touch(mode=0o600)

    done = attempt(
        backend,
        stage,
        shell(f"chmod 777 {kept}"),
        effect=lambda _: kept.stat().st_mode & 0o777 != 0o600,
        reset=lambda: kept.chmod(0o600),
        capabilities=[f"filesystem:read:{stage.outside}"],
    )

    assert not done.worked


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY, os.O_RDWR], ids=["read", "write", "both"])
def test_the_null_device_that_is_stdin_keeps_its_mode(backend: Case, stage: Stage, flags: int) -> None:
    """By its descriptor, which came from outside: corral itself gives it to whom it gives no input."""
    null, ran = make_null_device(stage.outside / "null"), stage.work / "ran"

    with redirected(0, null, flags):
        done = attempt(
            backend,
            stage,
            python(f"""
import fcntl, os
open('ran', 'w').write(str(fcntl.fcntl(0, fcntl.F_GETFL) & os.O_ACCMODE == {flags}))
os.fchmod(0, 0o640)
"""),
            effect=lambda _: null.stat().st_mode & 0o777 != 0o666,
            reset=lambda: (null.chmod(0o666), ran.unlink()),
            stdio=StdioMode.INHERIT,
        )

    assert ran.read_text() == "True"
    assert not done.worked


def test_the_times_of_a_readable_file_stay(backend: Case, stage: Stage) -> None:
    kept = stage.outside / "kept"
    kept.touch()
    os.utime(kept, (1000, 1000))

    done = attempt(
        backend,
        stage,
        shell(f"touch -d 2001-01-01 {kept}"),
        effect=lambda _: kept.stat().st_mtime != 1000,
        reset=lambda: os.utime(kept, (1000, 1000)),
        capabilities=[f"filesystem:read:{stage.outside}"],
    )

    assert not done.worked


def test_no_attribute_is_added_to_a_readable_file(backend: Case, stage: Stage) -> None:
    kept = stage.outside / "kept"
    kept.touch()
    _skip_without_attributes(kept)

    done = attempt(
        backend,
        stage,
        python(f"import os; os.setxattr({str(kept)!r}, 'user.evil', b'1')"),
        effect=lambda _: "user.evil" in os.listxattr(kept),
        reset=lambda: os.removexattr(kept, "user.evil"),
        capabilities=[f"filesystem:read:{stage.outside}"],
    )

    assert not done.worked


def _skip_without_attributes(path: Path) -> None:
    try:
        os.setxattr(path, "user.corral", b"1")
    except OSError as problem:
        pytest.skip(f"this file system has no user attributes: {problem}")
