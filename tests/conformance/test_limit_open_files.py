"""limit.open-files: no process opens more files than permitted."""

from __future__ import annotations

import textwrap

import pytest

from corral.model.feature import Feature
from support.confinement import attempt, python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.LIMIT_OPEN_FILES)

_LIMIT = ["files:limit:48"]

_OPEN = """
{before}
held = []
for number in range(200):
    held.append(open(f'file-{{number}}', 'w'))
"""
_RAISE = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (400, 400))"


@pytest.mark.parametrize("before", ["", _RAISE], ids=["as it is", "after an attempt to raise it"])
def test_no_more_files_are_opened_than_permitted(backend: Case, stage: Stage, before: str) -> None:
    """Each file that could be opened is there; all were held at once."""

    def count() -> int:
        return len(list(stage.work.glob("file-*")))

    def reset() -> None:
        for made in stage.work.glob("file-*"):
            made.unlink()

    guarded = f"try:\n    {before or 'pass'}\nexcept (OSError, ValueError): pass"
    done = attempt(
        backend,
        stage,
        python(_OPEN.format(before=guarded)),
        effect=lambda _: count() > 48,
        reset=reset,
        capabilities=_LIMIT,
    )

    assert not done.worked


def test_a_child_gets_no_more_files_than_permitted(backend: Case, stage: Stage) -> None:
    script = """
    import os
    if os.fork() == 0:
        held = [open(f'file-{number}', 'w') for number in range(200)]
        os._exit(0)
    os.wait()
    """

    def count() -> int:
        return len(list(stage.work.glob("file-*")))

    def reset() -> None:
        for made in stage.work.glob("file-*"):
            made.unlink()

    done = attempt(
        backend,
        stage,
        python(textwrap.dedent(script)),
        effect=lambda _: count() > 48,
        reset=reset,
        capabilities=_LIMIT,
    )

    assert not done.worked
