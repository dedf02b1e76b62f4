"""How a launch is started, signalled and ended. Here without a launcher: what any POSIX system can do."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys

from corral.model.errors import SetupError
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.limits.group import Group
    from corral.model.launch import Launch

GRACE_SECONDS = 2.0
#: A signal that comes right before a wait is handled after it: it must not be a long one.
LONGEST_WAIT_MS = 500.0
#: Signals by which somebody says that corral itself is to end.
ENDING = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM})


class Abandoned(Exception):
    """The caller wants no more, before what he wanted was there. Nothing is left."""


class Process(Record):
    """A started process and the ends of the pipes that corral keeps."""

    pid: int
    status: int  # read: what the launcher reports; -1 without a launcher
    lifeline: int  # closing it takes the whole tree down; -1 without a launcher
    inner: int = 0  # the launcher's own process, where an outer program has started it
    words: int = -1  # what an outer program says goes to this file; -1 without one


class Starter:
    """Starts a command, or a program that confines it, as a child of this process."""

    def __init__(self, launch: Launch, group: Group | None) -> None:
        self._launch = launch
        self._group = group
        self.notes: tuple[str, ...] = ()  # what the result has to say of the start
        self.say: Callable[[str], None] | None = None  # told what takes long

    def start(self, stdio: tuple[int, int, int], *, is_unwanted: bool = False) -> Process:
        """Start it on three descriptors. Raises SetupError; then nothing was started."""
        return spawn_bare(self._launch, stdio)

    def take_notes(self) -> tuple[str, ...]:
        """What there is to say of the start, once."""
        notes, self.notes = self.notes, ()
        return notes

    def abandon(self) -> None:
        """The caller wants no more, and the start may take long."""

    def signal(self, process: Process, number: int) -> None:
        """Pass a signal on to the command."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)

    def wake(self, process: Process) -> None:
        """Somebody on the host may have stopped it: then it would never hear that it is to end."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)

    def put_down(self, process: Process) -> None:
        """End by force what does not answer any more."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)

    def settle(self, process: Process) -> bool:
        """Make sure that a process which was told to end can be waited for; False if it took force.

        ORDER: what is left of its process group ends before it is waited for: until then its number is its
        own.
        """
        kill_group(process.pid)
        return True

    def end(self, process: Process, read_status: Callable[[int], bool], is_clean: Callable[[], bool]) -> None:
        """The process has been waited for; see to what may be left of it."""


class Ending:
    """Tells on a descriptor that a process has ended, before it is waited for."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def close(self) -> None:
        os.close(self.descriptor)


def open_ending(pid: int) -> Ending:
    """For a child of this process. Raises OSError."""
    if sys.platform == "linux":
        return Ending(os.pidfd_open(pid))
    from corral.runtime.launcherless import queue_ending

    return queue_ending(pid)


def kill_group(pid: int) -> None:
    """End a process group. On macOS one whose members have all ended may not be signalled any more."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def make_starter(launch: Launch, group: Group | None) -> Starter:
    """The one that fits a launch."""
    if launch.spec is None and launch.outer is None:
        return Starter(launch, group)
    from corral.runtime.launcher.starter import LauncherStarter, OuterStarter

    return LauncherStarter(launch, group) if launch.outer is None else OuterStarter(launch, group)


def spawn_bare(launch: Launch, stdio: tuple[int, int, int]) -> Process:
    """Start a command by itself, in a session of its own. Raises SetupError; then nothing was started."""
    import subprocess  # where there is a launcher, nobody comes here

    try:
        child = subprocess.Popen(
            _limited(launch),
            stdin=stdio[0],
            stdout=stdio[1],
            stderr=stdio[2],
            env=dict(launch.env),
            cwd=launch.cwd,
            start_new_session=True,
        )
    except OSError as problem:
        status = 127 if isinstance(problem, FileNotFoundError) else 126
        raise SetupError(
            "exec",
            f"{launch.argv[0]} could not be started",
            why=problem.strerror or str(problem),
            fix="check the name and the PATH",
            exit_status=status,
        ) from problem
    child.returncode = 0  # we wait for it ourselves
    return Process(child.pid, -1, -1)


def _limited(launch: Launch) -> tuple[str, ...]:
    """The command, started by a shell that sets its resource limits first. Raises OSError without a program.

    What is tighter already, and cannot be raised, stays as it is.
    """
    if not launch.ulimits:
        return launch.argv
    import shutil

    name, path = launch.argv[0], dict(launch.env).get("PATH")
    found = shutil.which(os.path.join(launch.cwd, name) if "/" in name else name, path=path)
    if found is None:
        is_there = "/" in name and os.path.exists(os.path.join(launch.cwd, name))
        number = errno.EACCES if is_there else errno.ENOENT
        raise OSError(number, os.strerror(number), name)  # of the class that fits the number
    lines = [f"ulimit {option} {number} 2>/dev/null" for option, number in launch.ulimits]
    script = "; ".join([*lines, 'exec "$@"'])
    return "/bin/sh", "-c", script, "sh", *launch.argv
