"""proc.contained: nothing that the command started outlives the run."""

from __future__ import annotations

import os
import select

import pytest

from corral.model.feature import Feature
from support.confinement import attempt, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.PROC_CONTAINED)


class Daemons:
    """Two FIFOs in the workspace: daemons hold `held` open, and end when `gate` is closed here."""

    def __init__(self, work: Path) -> None:
        self._work = work
        for name in ("held", "gate"):
            os.mkfifo(work / name)
        self._gate = os.open(work / "gate", os.O_RDWR | os.O_CLOEXEC)
        self._held = os.open(work / "held", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        # poll(2) tells of a hang-up only after there has been a writer.
        os.close(os.open(work / "held", os.O_WRONLY | os.O_CLOEXEC))

    def is_one_alive(self) -> bool:
        """Somebody holds the other end: the kernel says so, not the command."""
        return not self._has_hung_up(0)

    def end(self) -> None:
        """Let them all go, and wait until they have gone."""
        os.close(self._gate)
        if not self._has_hung_up(10_000):
            raise RuntimeError("a daemon of the test itself does not end")
        self._gate = os.open(self._work / "gate", os.O_RDWR | os.O_CLOEXEC)

    def _has_hung_up(self, milliseconds: int) -> bool:
        poller = select.poll()
        poller.register(self._held, 0)  # POLLHUP is reported always
        return bool(poller.poll(milliseconds))

    def close(self) -> None:
        self.end()
        os.close(self._gate)
        os.close(self._held)


@pytest.fixture
def daemons(stage: Stage) -> Iterator[Daemons]:
    made = Daemons(stage.work)
    yield made
    made.close()


def test_a_background_process_ends_with_the_run(backend: Case, stage: Stage, daemons: Daemons) -> None:
    done = attempt(
        backend,
        stage,
        shell("exec 8<gate 9>held; cat <&8 >/dev/null 2>&1 &"),
        effect=lambda _: daemons.is_one_alive(),
        reset=daemons.end,
    )

    assert not done.worked


def test_a_daemon_in_a_session_of_its_own_ends_with_the_run(
    backend: Case, stage: Stage, daemons: Daemons
) -> None:
    script = """
    exec 8<gate 9>held
    setsid sh -c 'trap "" TERM HUP INT; setsid cat <&8 &' >/dev/null 2>&1 </dev/null &
    wait
    """

    done = attempt(backend, stage, shell(script), effect=lambda _: daemons.is_one_alive(), reset=daemons.end)

    assert not done.worked
