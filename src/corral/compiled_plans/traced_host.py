"""A host that remembers what it was asked: all that a plan was made from, to be looked at again later."""

from __future__ import annotations

import os
import stat as stat_bits

from corral.linux.compiled import (
    CLOSED,
    EXECUTABLE,
    ObjectKind,
    SeenLink,
    SeenMounts,
    SeenNothing,
    SeenObject,
    SeenSilence,
    SeenStamp,
    SeenText,
)
from corral.model.enforcer import CGROUP1, CGROUP2
from corral.planning.second_mounts import MOUNTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from corral.linux.compiled import Seen
    from corral.model.backend import Host
    from corral.model.enforcer import Enforcer
    from corral.model.launch import Launch
    from corral.model.plan import FileStamp, MountView
    from corral.model.probe import Entries, LaunchTrial, ModuleRunner, Stat, ToolRun


#: Those that take no other process to make; systemd would have to be asked.
_OWN_GROUPS = frozenset({CGROUP1, CGROUP2})


class Trace:
    """What was seen, each once: the first answer is what was planned with."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], Seen] = {}

    @property
    def seen(self) -> tuple[Seen, ...]:
        """All of it, in the order in which it was asked for."""
        return tuple(self._seen.values())

    @property
    def newest_ns(self) -> int:
        """When the youngest file that was read has changed."""
        return max((seen.changed_ns for seen in self.seen if isinstance(seen, SeenStamp)), default=0)

    def note_object(self, path: str, found: Stat | None) -> None:
        """What a path itself is."""
        is_known = found is not None and not found.is_unknown
        self._note("object", _object(path, found) if is_known else _failure(path, follows=False))

    def note_link(self, path: str, text: str) -> None:
        """Where a link leads."""
        self._note("link", SeenLink(path, text))

    def note_content(self, path: str) -> None:
        """What the file or directory is before it is read: a change while it is read is one that counts."""
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            self._note("content", _failure(path, follows=True))
            return
        identity = (status.st_dev, status.st_ino, status.st_size)
        self._note("content", SeenStamp(path, *identity, status.st_mtime_ns, status.st_ctime_ns))

    def note_silence(self, path: str) -> None:
        """A file that may change as it likes, as long as it says nothing to corral."""
        self._note("silence", SeenSilence(path))

    def note_text(self, path: str, text: str) -> None:
        """What a file of the kernel's says."""
        self._note("text", SeenText(path, text))

    def note_mounts(self, view: MountView) -> None:
        """What planning takes from the table of mounts."""
        places, lines = ("".join(f"{text}\n" for text in texts) for texts in (view.places, view.lines))
        self._note("mounts", SeenMounts(MOUNTS, places, lines))

    def _note(self, kind: str, seen: Seen) -> None:
        self._seen.setdefault((kind, seen.path), seen)


class TracedHost:
    """Another host's answers, and a trace of them. It has the control groups that the launcher can make.

    INVARIANT: the trace has every answer about a file that planning gets. So whoever finds all of them true
    again may take the plan for the one that would be made now.
    """

    def __init__(self, host: Host, trace: Trace, *, is_stored: bool = False) -> None:
        """`is_stored`: for the entry program, which copies git configurations and is never without Python."""
        self._host = host
        self._trace = trace
        self._is_stored = is_stored
        self.platform, self.machine = host.platform, host.machine
        self.uid, self.gid, self.home = host.uid, host.gid, host.home

    @property
    def untraced(self) -> Host:
        """For the search for repositories alone: the launcher searches anew on each run."""
        return self._host

    def lstat(self, path: str) -> Stat | None:
        found = self._host.lstat(path)
        self._trace.note_object(path, found)
        return found

    def readlink(self, path: str) -> str:
        text = self._host.readlink(path)
        self._trace.note_link(path, text)
        return text

    def links(self, path: str) -> tuple[str, ...]:
        self._trace.note_content(path)
        return self._host.links(path)

    def subdirectories(self, path: str) -> tuple[str, ...]:
        self._trace.note_content(path)
        return self._host.subdirectories(path)

    def entries(self, path: str) -> Entries | None:
        self._trace.note_content(path)
        return self._host.entries(path)

    def read_text(self, path: str, limit_bytes: int) -> str:
        if path != MOUNTS:  # of which the plan has what counts: `denied_mounts`
            self._note_file(path)
        return self._host.read_text(path, limit_bytes)

    def stamp(self, path: str) -> FileStamp:
        self._note_file(path)
        return self._host.stamp(path)

    def _note_file(self, path: str) -> None:
        """A directory in its place says nothing, whatever comes and goes in it: a `.git`, for one."""
        found = self._host.lstat(path)
        if found is not None and found.is_directory:
            self._trace.note_object(path, found)
        else:
            self._trace.note_content(path)

    def environment(self) -> Mapping[str, str]:
        return self._host.environment()

    def cwd(self) -> str:
        return self._host.cwd()

    def launcher(self) -> tuple[str, str]:
        return self._host.launcher()

    def landlock_abi(self) -> int:
        return self._host.landlock_abi()

    def enforcers(self) -> tuple[Enforcer, ...]:
        return tuple(enforcer for enforcer in self._host.enforcers() if enforcer.name in _OWN_GROUPS)

    def processors(self) -> tuple[int, int]:
        return self._host.processors()

    def try_launch(self, spec: bytes) -> LaunchTrial:
        return self._host.try_launch(spec)

    def which(self, name: str) -> str:
        return self._host.which(name)

    def tool_path(self) -> str:
        return self._host.tool_path()

    def run_tool(self, argv: tuple[str, ...], *, seconds: float = 10.0) -> ToolRun:
        return self._host.run_tool(argv, seconds=seconds)

    def try_outer(self, launch: Launch) -> LaunchTrial:
        return self._host.try_outer(launch)

    def corral_files(self) -> tuple[str, ...]:
        return self._host.corral_files()

    def control_directories(self) -> tuple[str, ...]:
        return self._host.control_directories()

    def module_runner(self) -> ModuleRunner:
        return self._host.module_runner()

    def copies_directory(self) -> str:
        return self._host.copies_directory() if self._is_stored else ""

    def temporary_directory(self) -> str:
        return self._host.temporary_directory()


def _object(path: str, found: Stat | None) -> SeenObject:
    assert found is not None
    kind = (
        ObjectKind.DIRECTORY
        if found.is_directory
        else ObjectKind.LINK
        if found.is_link
        else ObjectKind.SOCKET
        if found.is_socket
        else ObjectKind.OTHER
    )
    traits = (EXECUTABLE if found.is_executable else 0) | (CLOSED if found.is_closed else 0)
    return SeenObject(path, kind, traits, found.names, found.device, found.inode)


def _failure(path: str, *, follows: bool) -> Seen:
    """How looking fails now. What has come into being meanwhile is noted as it is, and then differs."""
    try:
        status = os.stat(path) if follows else os.lstat(path)
    except ValueError:  # a NUL: no file ever has such a name
        return SeenSilence("/corral/no/such/file")
    except OSError as problem:
        return SeenNothing(path, problem.errno or 0, follows)
    is_directory = stat_bits.S_ISDIR(status.st_mode)
    kind = ObjectKind.DIRECTORY if is_directory else ObjectKind.OTHER
    return SeenObject(path, kind, 0, 0, status.st_dev, 0)  # no file has the inode 0
