"""fs.metadata: modes, owners, times and attributes outside the writable paths stay as they are."""

from __future__ import annotations

import os

import pytest

from corral.model.feature import Feature
from support.confinement import attempt, python, shell

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
