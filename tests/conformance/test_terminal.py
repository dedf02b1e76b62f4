"""terminal: nothing can be typed into the caller's terminal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral.model.feature import Feature
from corral.model.plan import StdioMode
from support.confinement import attempt, python
from support.terminal import in_a_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Case, Stage
    from support.terminal import Terminal

pytestmark = pytest.mark.proves(Feature.TERMINAL)

# TIOCSTI types a character as if the user had. The file says that the script came so far.
_TYPE = """
import fcntl, os, termios
open('tried', 'w').close()
terminal = {terminal}
fcntl.ioctl(terminal, termios.TIOCSTI, b'x')
"""
_WRITE = """
import os
open('tried', 'w').close()
os.write(os.open('/dev/tty', os.O_RDWR), b'evil')
"""
_SWITCH = Path("/proc/sys/dev/tty/legacy_tiocsti")  # Linux 6.2
_needs_typing = pytest.mark.skipif(
    _SWITCH.exists() and _SWITCH.read_text().strip() == "0" and os.geteuid() != 0,
    reason="this kernel lets nobody but root type for others: there is no control",
)


@_needs_typing
@pytest.mark.parametrize("terminal", ["0", "os.open('/dev/tty', os.O_RDWR)"], ids=["stdin", "dev-tty"])
def test_nothing_is_typed_into_the_callers_terminal(backend: Case, stage: Stage, terminal: str) -> None:
    script = _TYPE.format(terminal=terminal)

    assert not in_a_terminal(lambda screen: _typed(screen, backend, stage, script))


def test_the_callers_terminal_does_not_control_the_command(backend: Case, stage: Stage) -> None:
    """/dev/tty leads nowhere: the command is in a session of its own."""
    assert not in_a_terminal(lambda screen: _shown(screen, backend, stage))


def _typed(screen: Terminal, backend: Case, stage: Stage, script: str) -> bool:
    return _attempted(
        backend,
        stage,
        script,
        effect=lambda _: screen.typed() > 0,
        reset=screen.forget_typed,
        stdio=StdioMode.INHERIT,
    )


def _shown(screen: Terminal, backend: Case, stage: Stage) -> bool:
    return _attempted(backend, stage, _WRITE, effect=lambda _: b"evil" in screen.shown(), reset=screen.shown)


def _attempted(backend: Case, stage: Stage, script: str, **how: object) -> bool:
    tried = stage.work / "tried"
    reset = how.pop("reset")

    def start_again() -> None:
        tried.unlink()
        reset()  # type: ignore[operator]

    done = attempt(backend, stage, python(script), reset=start_again, **how)  # type: ignore[arg-type]
    if not tried.exists():
        raise RuntimeError("the sandbox never ran the script")
    return done.worked
