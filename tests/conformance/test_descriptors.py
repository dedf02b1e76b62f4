"""descriptors: no open file but stdin, stdout and stderr is passed on."""

from __future__ import annotations

import os

import pytest

from corral.model.feature import Feature
from support.confinement import attempt, python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.DESCRIPTORS)

_NUMBER = 57  # where the host's descriptor lies; nobody else uses it


@pytest.fixture
def passed_on() -> Iterator[Callable[[int], None]]:
    """Puts a descriptor where a child would inherit it."""

    def pass_on(descriptor: int) -> None:
        os.dup2(descriptor, _NUMBER, inheritable=True)
        os.close(descriptor)

    yield pass_on
    os.close(_NUMBER)


def test_an_open_file_of_the_caller_cannot_be_read(
    backend: Case, stage: Stage, passed_on: Callable[[int], None]
) -> None:
    secret, stolen = stage.outside / "secret", stage.work / "stolen"
    secret.write_text("the secret")
    passed_on(os.open(secret, os.O_RDONLY))

    done = attempt(
        backend,
        stage,
        python(f"import os; open('stolen', 'wb').write(os.pread({_NUMBER}, 100, 0))"),
        effect=lambda _: stolen.exists() and stolen.read_text() == "the secret",
        reset=stolen.unlink,
    )

    assert not done.worked


def test_an_open_pipe_of_the_caller_cannot_be_written_to(
    backend: Case, stage: Stage, passed_on: Callable[[int], None]
) -> None:
    ours, theirs = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    passed_on(theirs)

    done = attempt(
        backend,
        stage,
        python(f"import os; os.write({_NUMBER}, b'evil')"),
        effect=lambda _: _arrived(ours) == b"evil",
    )
    os.close(ours)

    assert not done.worked


def test_an_open_directory_of_the_caller_does_not_lead_outside(
    backend: Case, stage: Stage, passed_on: Callable[[int], None]
) -> None:
    planted = stage.outside / "planted"
    passed_on(os.open(stage.outside, os.O_RDONLY | os.O_DIRECTORY))

    done = attempt(
        backend,
        stage,
        python(f"import os; os.open('planted', os.O_CREAT | os.O_WRONLY, dir_fd={_NUMBER})"),
        effect=lambda _: planted.exists(),
        reset=planted.unlink,
    )

    assert not done.worked


def _arrived(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 100)
    except BlockingIOError:
        return b""
