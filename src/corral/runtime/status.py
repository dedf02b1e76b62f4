"""What the launcher reports, line by line, and what it means."""

from __future__ import annotations

import errno as errno_names
import os
import struct

from corral.model.errors import SetupError, path_changed
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from resource import struct_rusage

    from corral.model.errors import CorralError

_CHUNK = _MAX_BYTES = 65_536
_MOST_GIVEN = 160  # more than a launcher sends
_AREAS = b"areas\n"
#: Words that stand for themselves, and what is so from then on.
_MARKS = {
    "started": "started",
    "timed-out": "timed_out",
    "lost": "lost",
    "done": "is_done",
    "left": "has_left",
}
_INT = struct.Struct("i")
_MOST_VIOLATIONS = 256
_MAX_DIGITS = 20  # of 64 bits
_MAX_USAGE = 6 * (_MAX_DIGITS + 1)
_OF_THE_GUARD = frozenset({"planted", "made", "gone", "unremoved", "swept", "blocked"})

_FIXES = {
    "spec": "this is a bug in corral; please report it with `corral doctor --json`",
    "cgroup": "run `corral doctor` to see which limits hold here",
    "guard": "make the directory readable, or raise the limit on open files",
    "namespaces": "run `corral doctor`; user namespaces may be forbidden here: try `--backend landlock`",
    "helper": "run the command again; if that fails too, too many processes run here (`ulimit -u`)",
    "identity": "do without requiring proc.identity, or use a workspace on ext4, xfs, btrfs or tmpfs",
    "lock": "run `corral doctor`; a second user namespace may be forbidden here (`sysctl "
    "user.max_user_namespaces`)",
    "session": "run the command again; if the kernel refuses a keyring, the caller's quota of keys may be "
    "used up (`cat /proc/key-users`)",
    "net": "run `corral doctor` to see whether this host can do without the command's own network",
    "mounts": "run `corral doctor`; if a path changed in the meantime, run the command again",
    "expect": "run the command again; a mount that nobody asked for is a volume that the image declares, or "
    "comes from the engine's own configuration (containers.conf): take it out there",
    "surroundings": "the working directory must be in the workspace or in a granted path",
    "landlock": "run `corral doctor` to see what this kernel offers",
    "seccomp": "run `corral doctor` to see what this kernel offers",
}


class RefusedCall(Record):
    """A call that the filter refused: numbers are the kernel's own, strings what the command claims."""

    number: int
    errno: int
    arguments: tuple[int, ...]
    claims: tuple[str, ...]


class Status:
    """Collects the launcher's lines. They come from outside the sandbox, and are bounded all the same."""

    def __init__(self, *, is_socket: bool = False) -> None:
        self._raw = b""
        self._is_socket = is_socket  # then descriptors may come along
        self.given: list[int] = []  # descriptors that came; whoever takes them away owns them
        self.areas: list[int] = []  # of these, one that leads to the private areas
        self.started = False
        self.timed_out = False
        self.lost = False
        self.exit_code: int | None = None
        self.signal: int | None = None
        self.usage: tuple[int, ...] | None = None  # us user and system, KiB, blocks in and out, processes
        self.is_full = False  # the private areas, when the command ended
        self.is_layer_full = False  # or a trial's layer in memory
        self.exceeded = ""  # the limit that the launcher itself found broken
        self.is_done = False  # all is said, and the launcher waits to be released
        self.has_left = False  # the command has ended, and something that it started goes on
        self.guarded: list[str] = []  # lines of the guard over protected names; whoever hears them takes them
        self.failure: tuple[str, int, str] | None = None
        self.violations: list[str] = []  # that the process which runs a module has seen, as it tells them
        self.said = b""  # the end of standard error, where the filter heard it
        self._fresh = b""  # of this, what came since somebody last asked
        self.refused: list[RefusedCall] = []  # calls that the filter refused, each once; told in this order
        self.traced: list[
            RefusedCall
        ] = []  # calls on files that failed; claims are pairs of directory and path
        self.times: dict[int, int] = {}  # how often, by number

    def feed(self, piece: bytes) -> None:
        """Take bytes as they come."""
        if len(self._raw) + len(piece) > _MAX_BYTES:
            return
        self._raw += piece
        *lines, self._raw = self._raw.split(b"\n")
        for line in lines:
            self._take(line.decode("utf-8", "replace"))

    def read(self, descriptor: int) -> bool:
        """Take all that is there to be read, without waiting; False when there will be no more."""
        try:
            while piece := self._receive(descriptor) if self._is_socket else os.read(descriptor, _CHUNK):
                self.feed(piece)
        except BlockingIOError:
            return True
        return False

    def _receive(self, descriptor: int) -> bytes:
        import _socket as socket  # only for launches that have a gateway; the other one takes long to import

        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, descriptor)  # else the kernel is asked
        try:
            piece, ancillary, _, _ = channel.recvmsg(
                _CHUNK, socket.CMSG_SPACE(_MOST_GIVEN * _INT.size), getattr(socket, "MSG_CMSG_CLOEXEC", 0)
            )
        except ConnectionResetError:
            return b""
        finally:
            channel.detach()
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                numbers = [number for (number,) in _INT.iter_unpack(payload[: len(payload) // 4 * 4])]
                # What comes with descriptors is the last of a piece.
                (self.areas if piece.endswith(_AREAS) else self.given).extend(numbers)
        return piece

    def take_said(self) -> bytes:
        """What was heard of standard error since the last time."""
        fresh, self._fresh = self._fresh, b""
        return fresh

    def take_given(self) -> tuple[int, ...]:
        """The descriptors that came, which belong to the caller from now on."""
        taken, self.given = tuple(self.given), []
        return taken

    def take_end(self, status: int, spent: struct_rusage) -> None:
        """How a process without a launcher has ended, and what it took."""
        if os.WIFSIGNALED(status):
            self.signal = os.WTERMSIG(status)
        else:
            self.exit_code = os.WEXITSTATUS(status)
        # Its memory is not told: a new process begins with the high-water mark of the one it came from.
        times = (int(spent.ru_utime * 1e6), int(spent.ru_stime * 1e6))
        self.usage = (*times, 0, spent.ru_inblock, spent.ru_oublock, 0)

    def _take(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word in _MARKS:
            setattr(self, _MARKS[word], True)
        elif word == "exited" and _is_number(rest):
            self.exit_code = int(rest)
        elif word == "signalled" and _is_number(rest):
            self.signal = int(rest)
        elif word == "usage" and len(rest) < _MAX_USAGE and _are_numbers(rest):
            numbers = tuple(map(int, rest.split(" ")))
            self.usage = numbers if len(numbers) == 6 else None
        elif word == "full":
            self.is_full |= rest != "layer"
            self.is_layer_full |= rest == "layer"
        elif word in _OF_THE_GUARD:
            self.guarded.append(line)
        elif word == "limit":
            self.exceeded = self.exceeded or rest
        elif word == "violation" and len(self.violations) < _MOST_VIOLATIONS:
            self.violations.append(rest)
        elif word == "failed" and self.failure is None:
            phase, number, detail = ([*rest.split(" ", 2), "", "", ""])[:3]
            self.failure = (phase, int(number) if _is_number(number) else 0, detail)
        else:
            self._take_heard(word, rest)

    def _take_heard(self, word: str, rest: str) -> None:
        """What came by the filter's listener."""
        if word == "said":
            piece = _unhex(rest)
            self.said = (self.said + piece)[-_MAX_BYTES:]
            self._fresh = (self._fresh + piece)[-_MAX_BYTES:]
        elif word == "refused" and (call := _read_call(rest)) is not None:
            self.refused.append(call)
        elif word == "traced" and (call := _read_call(rest)) is not None:
            self.traced.append(call)
        elif word == "times" and _are_numbers(rest) and rest.count(" ") == 1:
            number, count = map(int, rest.split(" "))
            self.times[number] = count

    @property
    def is_told(self) -> bool:
        """Whether all is said about a command of a kept sandbox; what it left may go on."""
        return self.usage is not None or self.failure is not None

    def error(self) -> CorralError | None:
        """The reason why the command did not run, if it did not."""
        if self.failure is not None and self.failure[0] == "module":
            from corral.runtime.module_report import explain_module

            return explain_module(self.failure[2])
        if self.failure is not None:
            return _explain(*self.failure)
        if self.started or self.timed_out or self.exceeded:
            return None
        return SetupError(
            "launcher",
            "the launcher ended before it started the command",
            why="it reported nothing; it may be broken, or was killed",
            fix="run `corral doctor`; reinstall corral if it finds the launcher broken",
        )


def _unhex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:  # cut off: the launcher was ended
        return b""


def _read_call(text: str) -> RefusedCall | None:
    words = text.split(" ")
    try:
        number, errno, *arguments = (int(word, 16) for word in words[:8])
    except ValueError:
        return None
    claims = tuple(_unhex(word).decode("utf-8", "surrogateescape") for word in words[8:])
    return RefusedCall(number, errno, tuple(arguments), claims) if len(arguments) == 6 else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS


def _are_numbers(text: str) -> bool:
    return text.isascii() and all(map(str.isdigit, text.split(" ")))


def _explain(phase: str, number: int, detail: str) -> SetupError:
    cause = os.strerror(number) if number else ""
    why = ": ".join(part for part in (detail, cause) if part) or "no reason was given"
    if phase == "exec":
        missing = number in {errno_names.ENOENT, errno_names.ENOTDIR}
        fix = "check the name; programs outside the granted paths can be added with --read"
        if " " in detail.strip():
            fix = "this looks like a shell line: use `corral run -c 'LINE'`"
        return SetupError(
            "exec",
            f"{detail or 'the command'} could not be started",
            why=cause,
            fix=fix if missing else "check that it is a program and executable",
            exit_status=127 if missing else 126,
        )
    if number == errno_names.ESTALE:
        return path_changed(detail)
    fix = _FIXES.get(phase, "run `corral doctor`")
    return SetupError(phase, f"the sandbox could not be set up (phase {phase})", why=why, fix=fix)
