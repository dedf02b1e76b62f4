"""SandboxServer: a sandbox that stands and waits, and the way to start commands in it.

Its server, corral's own launcher, is the first process inside, and has a job waiting at a socket. Corral
sends that what every launcher starts with (stdio, the spec of a command, a status pipe, a lifeline), and it
does the rest. What a job says comes from a process that no command can reach; nothing else that comes from
inside is listened to.
"""

from __future__ import annotations

import array
import contextlib
import os
import select
import socket
import time
from _thread import allocate_lock
from functools import partial

from corral.linux.encode import encode_environment
from corral.linux.spec import HEADER, MAGIC, RECORD, U64, RecordType
from corral.model.enforcer import ENGINE
from corral.model.errors import RESET, SetupError
from corral.runtime.check import check
from corral.runtime.launcher.spawn import make_spec_file
from corral.runtime.launcher.starter import END_SECONDS, ends_within
from corral.runtime.network_hooks import close_network, connect_network
from corral.runtime.outcome import promised
from corral.runtime.scratch import Scratch
from corral.runtime.starter import GRACE_SECONDS, make_starter
from corral.runtime.status import Status
from corral.streams.stdio import check_stdio, ensure_stdio
from corral.streams.streams import no_descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.git_check.copies import Copies
    from corral.limits.group import Group
    from corral.limits.hierarchy import Hierarchy
    from corral.model.launch import Launch
    from corral.model.network.sandbox_network import SandboxNetwork
    from corral.model.plan import Plan
    from corral.runtime.starter import Process

_READY_SECONDS = 10.0
_LAST_WORDS_SECONDS = 2.0
#: A longer spec is sent as a file: see launcher/job.c.
_MOST_INLINE = 60_000
_GRACE_MS = U64.pack(int(GRACE_SECONDS * 1000))
#: The word that comes with private areas; any other comes with a root.
_AREAS = b"a"
#: Heads of records, by the length of what follows.
_CWD = partial(RECORD.pack, RecordType.CWD)
_ARGUMENT = partial(RECORD.pack, RecordType.ARGUMENT)
_ENVIRONMENT = partial(RECORD.pack, RecordType.ENVIRONMENT)
_WALL = RECORD.pack(RecordType.WALL, 16)
_TERMINAL, _KEEP = RECORD.pack(RecordType.TERMINAL, 0), RECORD.pack(RecordType.KEEP, 0)


class JobPipes:
    """Corral's ends of the pipes of one command; each is closed once."""

    __slots__ = ("lifeline", "status")

    def __init__(self, status: int, lifeline: int) -> None:
        self.status = status
        self.lifeline = lifeline

    def cut(self) -> None:
        """End everything that the command has started."""
        if self.lifeline >= 0:
            # A byte, not only the end: a child that another thread forks holds a copy of the pipe.
            with contextlib.suppress(OSError):
                os.write(self.lifeline, b"x")
            os.close(self.lifeline)
            self.lifeline = -1

    def signal(self, number: int) -> None:
        """Pass a signal on to the command."""
        if self.lifeline >= 0:
            with contextlib.suppress(BrokenPipeError):
                os.write(self.lifeline, bytes((number,)))

    def release(self) -> None:
        """All is told and over: nothing is left to be ended."""
        if self.lifeline >= 0:
            os.close(self.lifeline)
            self.lifeline = -1
        self.close()

    def close(self) -> None:
        self.cut()
        if self.status >= 0:
            os.close(self.status)
            self.status = -1


class SandboxServer:
    """One kept sandbox, from its start to its end. `request` may be called from several threads."""

    def __init__(
        self,
        plan: Plan,
        launch: Launch,
        *,
        within: Hierarchy | None = None,
        network: SandboxNetwork | None = None,
        copies: Copies | None = None,
        areas: int = -1,
    ) -> None:
        """`areas` are the private areas of a sandbox before it, as `take_areas` gave them."""
        check(plan, launch)
        if launch.inside is None or launch.spec is None:
            raise SetupError(
                "not-kept",
                f"the backend {launch.backend} cannot keep a sandbox",
                why="it starts each command separately, without corral's launcher",
                fix="use another backend for sessions: native, landlock, bubblewrap, docker or podman",
            )
        self.plan = plan
        self.launch = launch
        self.inside = launch.inside
        # INVARIANT: no descriptor is closed while another thread uses its number. Asking may take a while.
        self._lock, self._asking = allocate_lock(), allocate_lock()
        self._null = -1  # an open null device, for commands that get no input
        self.root = -1  # the sandbox's own root directory, where it has one
        self._areas = -1  # its private areas, as a mount that is attached nowhere; -1: they are the backend's
        self._old_areas = areas
        self.network = network  # where connections go, if the launch has a gateway
        self.status = Status(is_socket=launch.gateway is not None)
        self.group: Group | None = None
        self.enforcement = promised(plan, launch)
        self._within = within
        self._copies = copies  # made and removed by the guard
        self._scratch = Scratch(launch)
        self._process: Process | None = None
        self._requests: socket.socket | None = None
        self._environment = encode_environment(
            (name, value) for name, value in launch.inside.env if name != "PWD"
        )

    def start(self) -> None:
        """Make the sandbox. Raises SetupError; then nothing is left; network and areas are the caller's."""
        ensure_stdio()
        self._scratch.__enter__()
        try:
            self._start()
        except BaseException as problem:
            self._take_late_areas()
            areas = self.take_areas()
            self.give_network()
            self.close()
            self._areas = areas
            if isinstance(problem, OSError):
                raise no_descriptors(problem) from problem
            raise

    def _take_late_areas(self) -> None:
        """A sandbox that took old ones over has given them back before anything else could fail."""
        if self._requests is not None and self._areas < 0 and self._old_areas >= 0:
            self._requests.setblocking(False)
            with contextlib.suppress(OSError):
                word, descriptor = self._receive()
                self._areas = descriptor if word == _AREAS else self._areas

    def _start(self) -> None:
        if self._copies is not None:
            self.launch = self._copies.launch
        self.group = self._make_group()
        self.starter = make_starter(self.launch, self.group)
        self._null = null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._requests = ours
        if self._old_areas >= 0:  # ORDER: before the launcher, which looks for it once
            socket.send_fds(ours, [_AREAS], [self._old_areas])
        try:
            self._process = self.starter.start((theirs.fileno(), null, null))
        finally:
            theirs.close()
        os.set_blocking(self._process.status, False)
        self._await_root()

    def _make_group(self) -> Group | None:
        """A group that only counts is not worth its price here: what is counted is a whole session."""
        request, within = self.launch.group, self._within
        is_wanted = request is not None and (request.is_needed or request.enforcer == ENGINE)
        if not is_wanted and within is None:
            return None
        from corral.limits.discover import check_ceiling, make_group

        check_ceiling(request, within, self.launch.backend)
        if request is None:
            return None
        return make_group(request, self.plan.run_id, self._within)

    def _await_root(self) -> None:
        """Wait until the server says that it is there; its root directory comes along."""
        assert self._requests is not None and self._process is not None
        poller = select.poll()
        poller.register(self._requests, select.POLLIN)
        poller.register(self._process.status, select.POLLIN)
        deadline = time.monotonic() + _READY_SECONDS
        while not self.status.failure:
            left = deadline - time.monotonic()
            ready = [descriptor for descriptor, _ in poller.poll(max(0.0, left) * 1000)]
            if self._requests.fileno() in ready:
                if not self._take():
                    continue
                self._read_status()  # ORDER: the sockets of its network were sent before the root was
                connect_network(self.status, self.network)
                return
            if not ready or not self._read_status():
                break
        self._read_status()
        raise self.status.error() or SetupError(
            "launcher",
            "the kept sandbox did not answer",
            why=f"it did not report within {_READY_SECONDS:g} seconds",
            fix="run `corral doctor`; if the machine is very busy, try again",
        )

    def _take(self) -> bool:
        """A descriptor that the sandbox sends of itself; False as long as its root is still to come."""
        word, descriptor = self._receive()
        if word == _AREAS:
            self._areas = descriptor
            return False
        self.root = descriptor
        if not word:
            self._hear_last_words()
            raise self.status.error() or self.gone()
        return True

    def _receive(self) -> tuple[bytes, int]:
        assert self._requests is not None
        try:
            word, given, _, _ = socket.recv_fds(self._requests, 16, 1, socket.MSG_CMSG_CLOEXEC)
        except ConnectionError:
            return b"", -1
        return word, given[0] if given else -1

    def take_areas(self) -> int:
        """Its private areas, for a successor, to whom they go by this descriptor; -1 if they cannot.

        They last as long as the descriptor, also when the sandbox is gone.
        """
        areas, self._areas = self._areas, -1
        return areas

    def give_network(self) -> SandboxNetwork | None:
        """The network, which is closed by the caller from now on."""
        network, self.network = self.network, None
        return network

    @property
    def inner(self) -> int:
        """The launcher's own process; 0 when it is over."""
        return (self._process.inner or self._process.pid) if self._process is not None else 0

    @property
    def pid(self) -> int:
        """The process that was started for it; 0 when it is over."""
        return self._process.pid if self._process is not None else 0

    @property
    def is_alive(self) -> bool:
        """Whether it still takes commands, as far as can be told without asking it."""
        if self._process is None:
            return False
        return self._read_status() and self.status.exit_code is None and not self.status.lost

    def open_null(self) -> int:
        """The null device, for a command that gets no input. Raises SetupError when the sandbox is closed."""
        with self._lock:
            if self._null < 0:
                raise self.gone()
            return os.dup(self._null)

    def dup_root(self) -> int:
        """A descriptor of the sandbox's own root directory. Raises SetupError when the sandbox is closed."""
        with self._lock:
            if self.root < 0:
                raise self.gone()
            return os.dup(self.root)

    def lose(self) -> None:
        """A job has ended without a word: wait for what the server has to say, and take no more commands."""
        self._hear_last_words()
        self.status.lost = True

    def _hear_last_words(self) -> None:
        """Why the server is gone is told by its supervisor, which may hear of it later than corral does."""
        deadline = time.monotonic() + _LAST_WORDS_SECONDS
        while self._read_status() and not self.status.failure and time.monotonic() < deadline:
            time.sleep(0.002)  # seldom, and never for long: it is about to end

    def _read_status(self) -> bool:
        with self._lock:
            if self._process is None:
                return False
            return self.status.read(self._process.status)

    def gone(self) -> SetupError:
        """The error of a command that finds nobody to start it."""
        why = {
            "memory": "its processes had more memory than permitted, and all were ended",
            "processes": "it had more processes than permitted, and all were ended",
        }.get(
            self.status.exceeded,
            "its first process was killed, or saw that a command has ended or stopped what watched over it",
        )
        return SetupError(
            "session-lost",
            "the kept sandbox is gone",
            why=why,
            fix=f"{RESET}; what it had in private areas is lost",
        )

    def encode(
        self,
        argv: tuple[str, ...],
        cwd: str,
        *,
        env: tuple[tuple[str, str], ...] = (),
        wall_ms: int = 0,
        terminal: bool = False,
        keeps: bool = False,
    ) -> bytes:
        """The spec of one command; `cwd` is a path inside, and later variables win."""
        texts = [_text(argument) for argument in (*self.inside.prefix, *argv)]
        place = _text(cwd)
        pieces = [_CWD(len(place)), place]
        for text in texts:
            pieces += (_ARGUMENT(len(text)), text)
        count, environment = self._variables(env, place)
        if wall_ms:
            pieces.append(_WALL + U64.pack(wall_ms) + _GRACE_MS)
        if terminal:
            pieces.append(_TERMINAL)
        if keeps:
            pieces.append(_KEEP)
        body = b"".join((*pieces, environment))
        count += 1 + len(texts) + (wall_ms > 0) + terminal + keeps
        return HEADER.pack(MAGIC, HEADER.size + len(body), count) + body

    def _variables(self, env: tuple[tuple[str, str], ...], place: bytes) -> tuple[int, bytes]:
        """The environment of a command whose working directory is given as it is encoded."""
        own = {name for name, _ in env}
        count, encoded = self._environment
        if own:
            others = (pair for pair in self.inside.env if pair[0] not in own and pair[0] != "PWD")
            count, encoded = encode_environment((*others, *env))
        if "PWD" in own:
            return count, encoded
        return count + 1, encoded + _ENVIRONMENT(4 + len(place)) + b"PWD=" + place

    def request(self, spec: bytes, stdio: tuple[int, int, int]) -> JobPipes:
        """Ask for a command on three descriptors. Raises SetupError if nobody is there to ask."""
        owned: list[int] = []
        try:
            check_stdio(stdio)
            status, status_theirs = os.pipe()
            owned += (status, status_theirs)
            lifeline_theirs, lifeline = os.pipe()
            owned += (lifeline_theirs, lifeline)
            given = [*stdio, status_theirs, lifeline_theirs]
            words = spec
            if len(spec) > _MOST_INLINE:
                owned.append(make_spec_file(spec))
                given.append(owned[-1])
                words = b"f"
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", given))
            with self._asking:
                if self._requests is None:
                    raise self.gone()
                self._requests.sendmsg([words], [rights], socket.MSG_NOSIGNAL)
            owned.remove(status)
            owned.remove(lifeline)
        except (BrokenPipeError, ConnectionError) as problem:
            raise self.gone() from problem
        except OSError as problem:
            raise SetupError(
                "streams",
                "the command could not be sent to its sandbox",
                why=problem.strerror or str(problem),
                fix="close files that are no longer used, or raise the limit on open files",
            ) from problem
        finally:
            for descriptor in owned:
                os.close(descriptor)
        os.set_blocking(status, False)
        return JobPipes(status, lifeline)

    def abandon(self) -> None:
        """A command could not be ended: so all are, by whoever stands outside. `close` is still due."""
        self._hang_up()
        with self._lock:
            if self._process is not None:
                with contextlib.suppress(OSError):
                    os.write(self._process.lifeline, b"x")

    def _hang_up(self) -> None:
        """Whoever asks meanwhile, and waits since others have asked before him, hears that nobody listens."""
        requests = self._requests
        if requests is not None:
            with contextlib.suppress(OSError):
                requests.shutdown(socket.SHUT_RDWR)
            with self._asking:
                self._requests = None
                requests.close()

    def close(self) -> None:
        """End it, and whatever runs in it. Returns when all is gone."""
        self._hang_up()
        with self._lock:
            process, self._process = self._process, None
            for descriptor in (self.root, self._null, self._areas):
                if descriptor >= 0:
                    os.close(descriptor)
            self.root = self._null = self._areas = -1
        try:
            if process is not None:
                self._end(process)
        finally:
            close_network(self.status, self.network)
            if self.group is not None:
                self.group.remove()
                self.group = None
            self._scratch.__exit__(None, None, None)

    def _end(self, process: Process) -> None:
        if self.group is not None:
            self.group.collect()
        with contextlib.suppress(OSError):
            os.write(process.lifeline, b"x")
        os.close(process.lifeline)
        is_settled = ends_within(process.pid, END_SECONDS)
        if not is_settled:  # somebody has stopped it
            self.starter.put_down(process)
        os.waitpid(process.pid, 0)

        self.starter.end(process, self.status.read, lambda: is_settled and not self.status.lost)
        os.close(process.status)


def _text(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    if b"\0" in raw:
        raise ValueError(f"{text!r} contains a NUL byte")
    return raw + b"\0"
