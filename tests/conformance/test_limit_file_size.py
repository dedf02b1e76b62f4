"""limit.file-size: no file grows beyond its limit."""

from __future__ import annotations

import pytest

from corral.model.feature import Feature
from support.confinement import attempt, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.LIMIT_FILE_SIZE)

_LIMIT = ["file:limit:1MiB"]
_MIB = 1024 * 1024


@pytest.mark.parametrize(
    "script",
    [
        "head -c 3000000 /dev/zero > big",
        "truncate -s 3000000 big",
        "head -c 3000000 /dev/zero | tee big > /dev/null",
    ],
    ids=["written", "stretched", "by a child"],
)
def test_a_file_does_not_grow_beyond_its_size(backend: Case, stage: Stage, script: str) -> None:
    big = stage.work / "big"

    done = attempt(
        backend,
        stage,
        shell(script),
        effect=lambda _: big.exists() and big.stat().st_size > _MIB,
        reset=big.unlink,
        capabilities=_LIMIT,
    )

    assert not done.worked


def test_the_limit_cannot_be_raised_from_inside(backend: Case, stage: Stage) -> None:
    big = stage.work / "big"

    done = attempt(
        backend,
        stage,
        shell("ulimit -S -f unlimited; ulimit -H -f unlimited; head -c 3000000 /dev/zero > big"),
        effect=lambda _: big.exists() and big.stat().st_size > _MIB,
        reset=big.unlink,
        capabilities=_LIMIT,
    )

    assert not done.worked
