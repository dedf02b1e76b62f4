"""Spawn a launch: the one place where corral starts a command."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal

from corral.limits.open_files import start_process
from corral.model.errors import SetupError
from corral.model.probe import LaunchTrial
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.model.launch import Launch

#: What the launcher finds where: see launcher/main.c.
_SPEC, _STATUS, _LIFELINE = 3, 4, 5
_FIRST_FREE = 10
#: For a launcher that is tried. A busy kernel can take many seconds to make a namespace.
TRIAL_SECONDS = 60.0
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
#: Held back until the launcher is ready to pass them on; before that they would end it.
_HELD_BACK = (
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2),
    *(signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT),
)


class Process(Record):
    """A started process and the ends of the pipes that corral keeps."""

    pid: int
    status: int  # read: what the launcher reports; -1 without a launcher
    lifeline: int  # closing it takes the whole tree down; -1 without a launcher
    inner: int = 0  # the launcher's own process, where an outer program has started it
    words: int = -1  # what an outer program says goes to this file; -1 without one


def spawn(
    launch: Launch,
    spec: bytes | None,
    stdio: tuple[int, int, int],
    place: Callable[[int], bytes] | None = None,
) -> Process:
    """Start a launch on three descriptors. Raises SetupError; then nothing was started.

    `place` is called with the process while it waits, and returns the whole spec: what could not be known
    before it was there is in it.
    """
    if spec is None:
        return _spawn_bare(launch, stdio)
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


def _spawn_bare(launch: Launch, stdio: tuple[int, int, int]) -> Process:
    import subprocess  # only the backend `none` comes here

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


def try_spec(
    launcher: str,
    spec: bytes,
    place: Callable[[int], None] | None = None,
    seconds: float = TRIAL_SECONDS,
) -> LaunchTrial:
    """Run the launcher with a spec and say how far it came. Never raises."""
    from corral.model.launch import Front, Gateway, Launch

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
        trial = Launch("trial", (launcher,), (), {}, gateway=Gateway(Front.SOCKETS))
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
    import socket  # a launch with a gateway needs it anyway

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
