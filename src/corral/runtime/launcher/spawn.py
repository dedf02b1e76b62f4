"""Spawn the launcher: with a spec, a pipe for its reports and one whose end is its end."""

from __future__ import annotations

import fcntl
import os
import select
import signal

from corral.limits.open_files import start_process
from corral.model.errors import SetupError
from corral.model.probe import LaunchTrial
from corral.runtime.starter import Process
from corral.streams.stdio import IGNORED_BY_PYTHON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.model.launch import Launch

#: What the launcher finds where: see launcher/main.c.
_SPEC, _STATUS, _LIFELINE = 3, 4, 5
_FIRST_FREE = 10
#: For a launcher that is tried. A busy kernel can take many seconds to make a namespace.
TRIAL_SECONDS = 60.0
#: Held back until the launcher is ready to pass them on; before that they would end it.
_HELD_BACK = (
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2),
    *(signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT),
)


def spawn(
    launch: Launch,
    spec: bytes,
    stdio: tuple[int, int, int],
    place: Callable[[int], bytes] | None = None,
) -> Process:
    """Start the launcher on three descriptors. Raises SetupError; then nothing was started.

    `place` is called with the process while it waits, and returns the whole spec: what could not be known
    before it was there is in it.
    """
    owned: list[int] = []
    pid = 0
    try:
        if place is not None:
            memory, promise = own_pipe(owned)
        else:
            memory, promise = own(owned, make_spec_file(spec)), -1
        status_read, status_write = own_status(owned, launch)
        lifeline_read, lifeline_write = own_pipe(owned)
        places = zip((*stdio, memory, status_write, lifeline_read), (0, 1, 2, 3, 4, 5), strict=True)
        pid = start_process(
            launch.argv[0],
            launch.argv,
            dict(launch.env),
            file_actions=[(os.POSIX_SPAWN_DUP2, source, target) for source, target in places],
            setsid=True,
            setsigdef=IGNORED_BY_PYTHON,
            setsigmask=_HELD_BACK,
        )
        for descriptor in (memory, status_write, lifeline_read):
            owned.remove(descriptor)
            os.close(descriptor)
        if place is not None:
            _write_all(promise, place(pid))
            owned.remove(promise)
            os.close(promise)
        return Process(pid, status_read, lifeline_write)
    except BaseException as problem:
        for descriptor in owned:  # the lifeline among them: what was started ends
            os.close(descriptor)
        if pid:
            os.waitpid(pid, 0)
        if isinstance(problem, OSError):
            raise _cannot_start(launch.argv[0], problem) from problem
        raise


def try_spec(
    launcher: str,
    spec: bytes,
    place: Callable[[int], None] | None = None,
    seconds: float = TRIAL_SECONDS,
) -> LaunchTrial:
    """Run the launcher with a spec and say how far it came. Never raises."""
    from corral.model.launch import Front, GatewayRequest, Launch

    try:
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    except OSError as problem:
        return LaunchTrial(False, "spawn", 0, str(problem))

    def put(pid: int) -> bytes:
        if place is not None:
            place(pid)
        return spec

    try:
        # A spec may have sockets sent; nobody takes them here, and so they are closed.
        trial = Launch("trial", (launcher,), (), {}, gateway=GatewayRequest(Front.SOCKETS))
        process = spawn(trial, spec, (null, null, null), put if place is not None else None)
    except SetupError as problem:
        return LaunchTrial(False, "spawn", 0, problem.why)
    finally:
        os.close(null)
    return read_trial(process, seconds)


def read_trial(process: Process, seconds: float = TRIAL_SECONDS) -> LaunchTrial:
    """What a launcher reports that was given a trial; it is waited for, and its descriptors are closed."""
    poller = select.poll()
    poller.register(process.status, select.POLLIN)
    report, is_late = b"", False
    while not (is_late := not poller.poll(seconds * 1000)):
        piece = os.read(process.status, 4096)
        if not piece:
            break
        report += piece
    os.close(process.lifeline)
    os.close(process.status)
    os.waitpid(process.pid, 0)
    lines = report.decode("utf-8", "replace").splitlines()
    for line in lines:
        if line.startswith("failed "):
            _, phase, number, *detail = line.split(" ", 3)
            return LaunchTrial(False, phase, int(number), detail[0] if detail else "")
    if is_late:
        return LaunchTrial(False, "late", 0, f"the launcher was not done within {seconds:g} seconds")
    if "started" not in lines:
        return LaunchTrial(False, "launcher", 0, "the launcher said nothing")
    return LaunchTrial("exited 0" in lines, "command", 0, " ".join(lines))


def make_spec_file(spec: bytes) -> int:
    """A file in memory that holds a spec."""
    memory = os.memfd_create("corral-spec", os.MFD_CLOEXEC)
    _write_all(memory, spec)
    os.lseek(memory, 0, os.SEEK_SET)
    return memory


def own(owned: list[int], descriptor: int) -> int:
    """Remember a descriptor, and move it out of the range that the launcher's own are placed in."""
    if descriptor < _FIRST_FREE:
        lower = descriptor
        try:
            descriptor = fcntl.fcntl(lower, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
        finally:
            os.close(lower)
    owned.append(descriptor)
    return descriptor


def own_pipe(owned: list[int]) -> tuple[int, int]:
    """Open a pipe and remember both ends. Raises OSError; then none is left."""
    read_end, write_end = os.pipe()
    try:
        read_end = own(owned, read_end)
    except OSError:
        os.close(write_end)
        raise
    return read_end, own(owned, write_end)


def own_status(owned: list[int], launch: Launch) -> tuple[int, int]:
    """The status channel of a launch: a pipe, or a pair of sockets where descriptors come back by it."""
    if launch.gateway is None:
        return own_pipe(owned)
    import _socket as socket  # the other one takes long to import

    ours, theirs = socket.socketpair()
    ends = ours.detach(), theirs.detach()
    try:
        ours_moved = own(owned, ends[0])
    except OSError:
        os.close(ends[1])
        raise
    return ours_moved, own(owned, ends[1])


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _cannot_start(program: str, problem: OSError) -> SetupError:
    return SetupError(
        "launcher",
        "the launcher could not be started",
        why=f"{program}: {problem.strerror or problem}",
        fix="reinstall corral with a C compiler on the machine; `corral doctor` says more",
    )
