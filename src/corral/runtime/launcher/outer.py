"""Start a program that makes the sandbox, and meet the launcher that it starts inside.

The launcher comes with a socket and nothing else. It says hello, the kernel says which process that is, and
corral sends it what every launch has: stdio, the spec, the status pipe, the lifeline. So nothing of the
command passes through the outer program, and whatever that program says or returns is never taken for the
command's.
"""

from __future__ import annotations

import array
import contextlib
import os
import select
import signal
import socket
import struct
import time

from corral.limits.open_files import start_process
from corral.model.errors import SetupError
from corral.model.probe import LaunchTrial
from corral.runtime.launcher.readiness import check_network, fetch_image
from corral.runtime.launcher.spawn import make_spec_file, own, own_status
from corral.runtime.starter import Abandoned, Process
from corral.streams.stdio import IGNORED_BY_PYTHON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from corral.limits.group import GroupRecords
    from corral.model.launch import Launch

_CONTROL = 3  # what the launcher finds there, where it inherits it
_FIRST_GIVEN = 6  # after what every launch has
_HELLO_BYTES = 64
_WORDS_BYTES = 16_384  # of what the outer program has said
_WORDS_LINES = 4
_REMOVAL_SECONDS = 10.0
_PARTING_SECONDS = 5.0  # for a program that is given up, to end by itself
_LOOK_MS = 100
_CREDENTIALS = struct.Struct("iII")  # pid, uid, gid


class OuterHandshake:
    """One start of an outer program, until its launcher has what it needs."""

    def __init__(self, launch: Launch, wake: int, say: Callable[[str], None] | None = None) -> None:
        assert launch.outer is not None
        self._say = say  # told what takes long
        self._launch = launch
        self._outer = launch.outer
        self._wake = wake  # readable when the caller wants no more
        self._owned: list[int] = []
        self._pid = 0
        self._words = -1
        self.notes: tuple[str, ...] = ()  # what the result has to say of the start

    def hold(self, stdio: Sequence[int], equip: Callable[[int], tuple[bytes, tuple[int, ...]]]) -> Process:
        """Start the program; return when the launcher has been given all it needs.

        `equip` is called with the launcher's process while that waits, and returns the spec and the files of
        control groups to send, which are closed then. Raises SetupError or Abandoned; then nothing is left.
        """
        try:
            self._get_ready()
            ours = self._start()
            control, pid = self._wait(ours)
            with control:
                check_network(self._launch, pid)
                return self._hand_over(control, stdio, *equip(pid)).replace(inner=pid)
        except BaseException:
            self._give_up()
            raise
        finally:
            for descriptor in self._owned:
                os.close(descriptor)

    def _get_ready(self) -> None:
        if self._outer.fetch is not None:
            self.notes = fetch_image(self._launch, self._wake, self._say)

    def _start(self) -> socket.socket:
        """Start the program, and return the socket at which the launcher will be heard."""
        self._words = own(self._owned, os.memfd_create("corral-words", os.MFD_CLOEXEC))
        null = own(self._owned, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        places = [(null, 0), (self._words, 1), (self._words, 2)]
        if self._outer.control:
            ours = _listen(self._launch.scratch, self._outer.control)
        else:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            places.append((own(self._owned, theirs.detach()), _CONTROL))
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            self._pid = start_process(
                self._launch.argv[0],
                self._launch.argv,
                dict(self._launch.env),
                file_actions=[(os.POSIX_SPAWN_DUP2, source, target) for source, target in places],
                setsid=True,
                setsigdef=IGNORED_BY_PYTHON,
                setsigmask=(),
            )
        except OSError as problem:
            ours.close()
            raise _cannot_start(self._launch, problem) from problem
        for descriptor, place in places:
            if place == _CONTROL:  # the end of the program is seen by it, too
                self._owned.remove(descriptor)
                os.close(descriptor)
        return ours

    def _wait(self, ours: socket.socket) -> tuple[socket.socket, int]:
        """Wait for the hello; returns the socket to answer at, and the launcher's process."""
        ending = own(self._owned, os.pidfd_open(self._pid))
        deadline = time.monotonic() + self._outer.start_seconds
        poller = select.poll()
        for descriptor in (ours.fileno(), ending, self._wake):
            poller.register(descriptor, select.POLLIN)
        control = ours
        try:
            while True:
                left = deadline - time.monotonic()
                ready = {descriptor for descriptor, _ in poller.poll(max(0.0, left) * 1000)}
                if self._wake in ready:
                    raise Abandoned
                if control is ours and self._outer.control and ours.fileno() in ready:
                    poller.unregister(ours)
                    control, _ = ours.accept()
                    ours.close()  # whoever else comes finds nobody
                    poller.register(control, select.POLLIN)
                elif control.fileno() in ready:
                    pid = _hear(control)
                    if pid:
                        self._check_launcher(pid)
                        return control, pid
                    poller.unregister(control)  # the program has ended, or is about to
                elif ending in ready:
                    raise self._failure()
                elif left <= 0:
                    raise self._failure(is_late=True)
        except BaseException:
            control.close()
            raise

    def _check_launcher(self, pid: int) -> None:
        """TRUST: whoever says hello gets the command's streams and is believed; an image has programs too."""
        if not self._outer.launcher:
            return
        try:
            is_own = os.path.samestat(os.stat(f"/proc/{pid}/exe"), os.stat(self._outer.launcher))
            why = "another program than corral's launcher has answered from inside"
            if is_own and self._outer.control and not _is_first(pid):
                # A command of another run may start a launcher too, but never as the first process.
                is_own, why = False, "it was not the first process of a sandbox that has answered"
        except OSError as problem:
            is_own, why = False, f"who answered from inside cannot be seen: {problem}"
        if not is_own:
            raise SetupError(
                "outer",
                f"the sandbox of {self._launch.backend} was not the one that was asked for",
                why=why,
                fix="use another image or backend, and report this",
            )

    def _hand_over(
        self, control: socket.socket, stdio: Sequence[int], spec: bytes, files: tuple[int, ...]
    ) -> Process:
        try:
            memory = own(self._owned, make_spec_file(spec))
            status_read, status_write = own_status(self._owned, self._launch)
            lifeline_read, lifeline_write = (own(self._owned, end) for end in os.pipe())
            given = array.array("i", (*stdio, memory, status_write, lifeline_read, *files))
            control.sendmsg([b"g"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, given)])
        except OSError as problem:
            raise self._failure() from problem
        finally:
            for descriptor in files:
                os.close(descriptor)
        for kept in (status_read, lifeline_write, self._words):
            self._owned.remove(kept)
        return Process(self._pid, status_read, lifeline_write, words=self._words)

    def _give_up(self) -> None:
        if not self._pid:
            return
        if self._outer.removal:
            self._let_end()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        remove(self._launch)

    def _let_end(self) -> None:
        """Have the program end by itself, if it does in time.

        ORDER: before it is killed. What it asked an engine for is made even if nobody waits for the answer.
        Only after its own end is it certain that a removal finds all there ever will be.
        """
        poller = select.poll()
        poller.register(own(self._owned, os.pidfd_open(self._pid)), select.POLLIN)
        deadline = time.monotonic() + _PARTING_SECONDS
        while not poller.poll(_LOOK_MS) and time.monotonic() < deadline:
            remove(self._launch)

    def _failure(self, *, is_late: bool = False) -> SetupError:
        if is_late:
            return SetupError(
                "start-timeout",
                f"the sandbox of {self._launch.backend} was not there in time",
                why=f"its first process did not report within {self._outer.start_seconds:g} seconds",
                fix="run `corral doctor`; if the machine is very busy, run the command again",
            )
        return explain(self._launch, read_words(self._words))


def give_files(records: GroupRecords) -> tuple[GroupRecords, tuple[int, ...]]:
    """Open the files of a control group, for a launcher that no path leads to them. Raises OSError."""
    from corral.linux.spec import CgroupKind

    files: list[int] = []

    def give(path: str, flags: int) -> str:
        files.append(os.open(path, flags | os.O_CLOEXEC))
        return f"@{_FIRST_GIVEN + len(files) - 1}"

    flags = {CgroupKind.TASKS: os.O_WRONLY, CgroupKind.BIRTH: os.O_PATH | os.O_DIRECTORY}
    try:
        groups = tuple(group.replace(path=give(group.path, flags[group.kind])) for group in records.groups)
        cpu_time = records.cpu_time
        if cpu_time is not None:
            cpu_time = cpu_time.replace(path=give(cpu_time.path, os.O_RDONLY))
    except OSError:
        for descriptor in files:
            os.close(descriptor)
        raise
    return records.replace(groups=groups, kill=None, cpu_time=cpu_time), tuple(files)


def _listen(directory: str, name: str) -> socket.socket:
    """A listening socket in a directory whose path may be too long for an address."""
    handle = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    ours = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        ours.bind(f"/proc/self/fd/{handle}/{name}")
        ours.listen(1)
    except OSError as problem:
        ours.close()
        raise SetupError(
            "scratch",
            "the run's private directory cannot hold a socket",
            why=str(problem),
            fix="point TMPDIR to a local file system",
        ) from problem
    finally:
        os.close(handle)
    return ours


def _hear(control: socket.socket) -> int:
    """The process that said hello, as this one knows it; 0 if nobody will."""
    try:
        data, ancillary, _, _ = control.recvmsg(_HELLO_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size))
    except ConnectionError:
        return 0
    if not data:
        return 0
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            return int(_CREDENTIALS.unpack(payload)[0])
    return 0


def _is_first(pid: int) -> bool:
    """Whether a process is PID 1 of a PID namespace other than ours."""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        numbers = next((line.split()[1:] for line in file if line.startswith("NSpid:")), [])
    return len(numbers) > 1 and numbers[-1] == "1"


def read_words(descriptor: int) -> str:
    """What the outer program has said, its last lines."""
    size = os.fstat(descriptor).st_size
    raw = os.pread(descriptor, _WORDS_BYTES, max(0, size - _WORDS_BYTES))
    return raw.decode("utf-8", "replace").strip()


def explain(launch: Launch, words: str) -> SetupError:
    """Why an outer program ended before its launcher was there."""
    assert launch.outer is not None
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    why = "; ".join(lines[-_WORDS_LINES:]) or "it said nothing"
    for failure in launch.outer.failures:
        if failure.needle in words:
            return SetupError(failure.code, failure.message, why=why, fix=failure.fix)
    return SetupError(
        "outer",
        f"the sandbox of {launch.backend} could not be made",
        why=why,
        fix="run `corral doctor` to see what this host offers",
    )


def _cannot_start(launch: Launch, problem: OSError) -> SetupError:
    return SetupError(
        "outer",
        f"{launch.argv[0]} could not be started",
        why=problem.strerror or str(problem),
        fix=f"install it again, or choose another backend than {launch.backend}; `corral doctor` says which",
    )


def remove(launch: Launch) -> None:
    """Remove what the outer program may have left, if it was one that leaves something."""
    if launch.outer is not None:
        remove_found(launch.outer.removal, launch.outer.finding, launch.env)


def remove_found(
    removal: tuple[str, ...], finding: tuple[str, ...], env: tuple[tuple[str, str], ...]
) -> None:
    """Run a removal, with what a command finds; without anything found there is nothing to remove."""
    found = run_quietly(finding, env).split() if finding else []
    if removal and (found or not finding):
        run_quietly((*removal, *found), env)


def run_quietly(argv: tuple[str, ...], env: tuple[tuple[str, str], ...]) -> str:
    """What a program says that takes something away; whether it could is seen by whoever needs it gone."""
    import subprocess  # only after a failure

    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(env),
            cwd="/",
            timeout=_REMOVAL_SECONDS,
            check=False,
        )
        return done.stdout.decode("utf-8", "replace")
    return ""


def try_outer(launch: Launch) -> LaunchTrial:
    """Carry out a launch whose command does not exist, and say how far its launcher came. Never raises."""
    from corral.runtime.launcher.spawn import read_trial
    from corral.runtime.scratch import Scratch

    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    wake, never = os.pipe()
    try:
        with Scratch(launch):
            spec = launch.spec or b""
            process = OuterHandshake(launch, wake).hold((null, null, null), lambda _: (spec, ()))
            os.close(process.words)
            return read_trial(process)
    except SetupError as problem:
        return LaunchTrial(False, "outer", 0, problem.why)
    finally:
        for descriptor in (null, wake, never):
            os.close(descriptor)
