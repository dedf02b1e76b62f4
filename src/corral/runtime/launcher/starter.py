"""How the launcher is started, signalled and ended: directly, or through an outer program."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from _thread import allocate_lock

from corral.limits.group import group_failed
from corral.linux.encode import append_groups
from corral.model.errors import SetupError
from corral.runtime.launcher.spawn import spawn
from corral.runtime.starter import GRACE_SECONDS, Starter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.limits.group import Group
    from corral.model.launch import Launch
    from corral.runtime.starter import Process

_GRACE_MS = int(GRACE_SECONDS * 1000)
#: For what is left inside, when the outer program is gone.
END_SECONDS = 10.0


class LauncherStarter(Starter):
    """Starts the launcher as a child of this process."""

    def settle(self, process: Process) -> bool:
        """The launcher ends by itself, and sees to everybody else."""
        return True

    def start(self, stdio: tuple[int, int, int], *, is_unwanted: bool = False) -> Process:
        """Start it on three descriptors. Raises SetupError; then nothing was started."""
        spec, group = self._launch.spec or b"", self._group
        if group is None:
            return spawn(self._launch, spec, stdio)
        if not group.needs_process:
            return spawn(self._launch, _grouped(spec, group), stdio)

        def place(pid: int) -> bytes:
            try:
                group.place(pid)
            except OSError as problem:
                raise group_failed(problem) from problem
            return _grouped(spec, group)

        return spawn(self._launch, spec, stdio, place)


class OuterStarter(LauncherStarter):
    """Starts a program that makes the sandbox, and equips the launcher that it starts inside."""

    def __init__(self, launch: Launch, group: Group | None) -> None:
        super().__init__(launch, group)
        self._wake = -1  # tells a start that waits that it is not wanted any more
        self._lock = allocate_lock()

    def start(self, stdio: tuple[int, int, int], *, is_unwanted: bool = False) -> Process:
        """Also raises Abandoned, if the caller does not want it before it is there."""
        from corral.runtime.launcher.outer import OuterHandshake

        self._wake = os.eventfd(1 if is_unwanted else 0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            handshake = OuterHandshake(self._launch, self._wake, self.say)
            process = handshake.hold(stdio, self._equip)
            self.notes = handshake.notes + self._kept_note()
            return process
        finally:
            with self._lock:
                wake, self._wake = self._wake, -1
            os.close(wake)

    def _kept_note(self) -> tuple[str, ...]:
        launch = self._launch
        name = launch.outer.kept if launch.outer is not None else ""
        if not name:
            return ()
        return (f"the container {name} is kept: `{launch.backend} rm --volumes {name}` removes it",)

    def _equip(self, pid: int) -> tuple[bytes, tuple[int, ...]]:
        """The spec, and the files of the control group, in which the process is from now on."""
        from corral.runtime.launcher.outer import give_files

        spec, group = self._launch.spec or b"", self._group
        if group is None:
            return spec, ()
        try:
            group.place(pid)
            records, files = give_files(group.records(_GRACE_MS))
        except OSError as problem:
            raise group_failed(problem) from problem
        lingers = group.needs_process
        return append_groups(spec, records.groups, None, records.cpu_time, lingers=lingers), files

    def abandon(self) -> None:
        if self._lock.acquire(blocking=False):  # by a signal handler too: it must not wait for its own thread
            try:
                if self._wake >= 0:
                    os.eventfd_write(self._wake, 1)
            finally:
                self._lock.release()

    def signal(self, process: Process, number: int) -> None:
        """By the lifeline: nobody outside can signal what is in the sandbox of another program."""
        if process.lifeline >= 0:
            with contextlib.suppress(BrokenPipeError):
                os.write(process.lifeline, bytes((number,)))

    def wake(self, process: Process) -> None:
        self._signal_both(process, signal.SIGCONT)

    def put_down(self, process: Process) -> None:
        self._signal_both(process, signal.SIGKILL)

    def _signal_both(self, process: Process, number: int) -> None:
        for pid in filter(None, (process.inner, process.pid)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def settle(self, process: Process) -> bool:
        """An engine that hangs must not be waited for for ever."""
        if ends_within(process.pid, END_SECONDS):
            return True
        self.put_down(process)
        return False

    def end(self, process: Process, read_status: Callable[[int], bool], is_clean: Callable[[], bool]) -> None:
        """Whoever is left inside ends with the lifeline, which is cut; what the program left is removed."""
        from corral.runtime.launcher.outer import remove

        poller = select.poll()
        poller.register(process.status, select.POLLIN)
        os.set_blocking(process.status, False)
        while read_status(process.status):
            if not poller.poll(END_SECONDS * 1000):
                # Somebody outside has stopped it, and killed its program. INVARIANT: its end of the pipe is
                # open, so that it is there, and no other process has its number.
                self.put_down(process.replace(pid=0))
                break
        if not is_clean() and not (self._launch.outer and self._launch.outer.kept):
            remove(self._launch)
        os.close(process.words)


def ends_within(pid: int, seconds: float) -> bool:
    """Whether a process ends in that time; it is not waited for."""
    ending = os.pidfd_open(pid)
    try:
        poller = select.poll()
        poller.register(ending, select.POLLIN)
        return bool(poller.poll(seconds * 1000))
    finally:
        os.close(ending)


def lost_outer(launch: Launch) -> SetupError:
    """The error of a run whose outer program ended before the launcher did."""
    return SetupError(
        "outer-lost",
        f"the sandbox of {launch.backend} was lost while the command ran",
        why=f"{launch.argv[0]} ended, or the first process inside was killed from outside",
        fix="look at what the engine's own log says, and run the command again",
        ran=True,
    )


def _grouped(spec: bytes, group: Group) -> bytes:
    records = group.records(_GRACE_MS)
    return append_groups(spec, records.groups, records.kill, records.cpu_time, lingers=group.needs_process)
