"""Freeze everything in a sandbox, and write down what was found there, for its owner to look at.

INVARIANT: what is frozen does not run again: nobody sends it SIGCONT, and its end is SIGKILL.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import time

from corral.limits.tree import descendants
from corral.untrusted_files.quarantine import make_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from corral.model.event import Event
    from corral.runtime.launcher.server import SandboxServer

_SECONDS = 2.0
_PAUSE_SECONDS = 0.001
#: Stopped, stopped by a tracer, dead, or in a call of the system that no signal but SIGKILL interrupts: it
#: stops before it returns.
_STILL = frozenset("TtZXD")
_MOST_PROCESSES, _MOST_FILES_OF_ONE, _MOST_TEXT = 256, 64, 4096
_MOST_COPIED, _MOST_COPIED_BYTES, _MOST_DEPTH = 4096, 64 << 20, 64
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Frozen:
    """All descendants of a process, stopped. Descriptors hold them, so that no other is ended later."""

    def __init__(self, root: int, *, with_root: bool = False) -> None:
        """Raises OSError if one cannot be stopped; whoever calls ends everything then.

        `with_root`: and the process itself, where it would end what it sees stopped.
        """
        self._root = root
        self._held: dict[int, int] = {}
        if with_root:
            self._held[root] = os.pidfd_open(root)
            signal.pidfd_send_signal(self._held[root], signal.SIGSTOP)
        deadline = time.monotonic() + _SECONDS
        try:
            # A process that has a signal pending makes no other one: whoever was made before is found next.
            while not (self._stop_new() and all(map(_is_still, self._held))):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"not everything stopped within {_SECONDS:g} seconds")
                time.sleep(_PAUSE_SECONDS)
            if not self._held.keys() - {root}:  # else a kernel that tells of no children would freeze nobody
                raise ProcessLookupError("nothing was found to be stopped")
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(self._held)

    def kill(self) -> None:
        """End them all."""
        for descriptor in self._held.values():
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """Release them, as they are."""
        while self._held:
            _, descriptor = self._held.popitem()
            os.close(descriptor)

    def _stop_new(self) -> bool:
        """Whether there was nobody who had not been stopped before."""
        new = [pid for pid in descendants(self._root) if pid not in self._held]
        for pid in new:
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(pid)
                # Its number may be another's by now, who is nobody's business.
                if _parent(pid) not in {self._root, *self._held, *new}:
                    os.close(descriptor)
                    continue
                self._held[pid] = descriptor
                signal.pidfd_send_signal(descriptor, signal.SIGSTOP)
        return not new


def freeze_kept(kept: SandboxServer) -> Frozen:
    """Everything in a kept sandbox, with its first process where that is the launcher's own.

    Raises OSError, as `Frozen`.
    """
    return Frozen(kept.inner, with_root=kept.launch.outer is not None)


def isolate(
    root: int, event: Event, directory: str, areas: Iterable[int] = (), private: Iterable[str] = ()
) -> str:
    """Freeze what a process has started and keep what there is to see; says what became of it.

    `areas` are descriptors of directories that the launcher has given, each with all `private` areas by their
    numbers. Whoever calls ends everything afterwards, in any case.
    """
    try:
        frozen = Frozen(root)
    except OSError as problem:
        return f"it could not be frozen and was ended at once: {problem.strerror or problem}"
    try:
        ordered = sorted(private, key=lambda path: (path.count("/"), path))
        names = [f"areas-0/{number} is {path}" for number, path in enumerate(ordered) if areas]
        return record_evidence(directory, [event.describe(), *names], frozen.pids, areas)
    finally:
        frozen.close()


def record_evidence(directory: str, words: Iterable[str], pids: Iterable[int], areas: Iterable[int]) -> str:
    """Write down what is frozen and copy what lies in its private areas; says what became of it."""
    if not directory:
        return "nothing of it could be kept: there is no home to keep it in"
    try:
        make_private(directory)
        path = os.path.join(directory, "processes.txt")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(path, flags, 0o600), "w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(f"{line}\n" for line in words)
            file.writelines(_describe_processes(pids))
        copies = _Copies()
        for number, area in enumerate(areas):
            copies.copy(os.open(".", _DIRECTORY, dir_fd=area), os.path.join(directory, f"areas-{number}"))
    except OSError as problem:
        return f"not all of it could be kept in {directory}: {problem.strerror}"
    return f"what ran, and copies of its private files, are in {directory}{copies.note()}"


def _describe_processes(pids: Iterable[int]) -> Iterator[str]:
    for count, pid in enumerate(sorted(pids)):
        if count == _MOST_PROCESSES:
            yield "... and more\n"
            return
        place = f"/proc/{pid}"
        yield f"\nprocess {pid}, child of {_parent(pid)}\n"
        for name in ("exe", "cwd"):
            yield f"  {name}: {_link(f'{place}/{name}')}\n"
        yield f"  argv: {_arguments(place)}\n"
        with contextlib.suppress(OSError):
            numbers = sorted(map(int, os.listdir(f"{place}/fd")))
            for number in numbers[:_MOST_FILES_OF_ONE]:
                yield f"  file {number}: {_link(f'{place}/fd/{number}')}\n"


def _arguments(place: str) -> str:
    try:
        with open(f"{place}/cmdline", "rb") as file:
            words = file.read(_MOST_TEXT).rstrip(b"\0").split(b"\0")
    except OSError as problem:
        return f"unknown ({problem.strerror})"
    return " ".join(ascii(os.fsdecode(word)) for word in words)


def _link(path: str) -> str:
    try:
        return ascii(os.readlink(path))
    except OSError as problem:
        return f"unknown ({problem.strerror})"


class _Copies:
    """Plain files beneath directories, so many and no more; neither links nor modes come along."""

    def __init__(self) -> None:
        self._files, self._bytes = _MOST_COPIED, _MOST_COPIED_BYTES
        self._left_out = 0

    def note(self) -> str:
        return f" ({self._left_out} files left out: too many or too large)" if self._left_out else ""

    def copy(self, handle: int, target: str, depth: int = 0) -> None:
        """What lies in a directory, whose descriptor is closed."""
        try:
            os.mkdir(target, 0o700)
            with os.scandir(handle) as entries:
                for entry in entries:
                    place = os.path.join(target, entry.name)
                    if entry.is_file(follow_symlinks=False):
                        self._copy_file(handle, entry.name, place)
                    elif entry.is_dir(follow_symlinks=False) and depth < _MOST_DEPTH:
                        with contextlib.suppress(OSError):  # the command may have closed it to us
                            self.copy(os.open(entry.name, _DIRECTORY, dir_fd=handle), place, depth + 1)
        finally:
            os.close(handle)

    def _copy_file(self, handle: int, name: str, target: str) -> None:
        with contextlib.suppress(OSError):
            source = os.open(name, _FILE, dir_fd=handle)
            with open(source, "rb") as file:
                found = os.fstat(source)
                if not stat.S_ISREG(found.st_mode) or not self._files or found.st_size > self._bytes:
                    self._left_out += 1
                    return
                self._files -= 1
                self._bytes -= found.st_size
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                with open(os.open(target, flags, 0o600), "wb") as copy:
                    copy.write(file.read(found.st_size))


def _parent(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[1]) if len(fields) > 1 else 0


def _is_still(pid: int) -> bool:
    fields = _stat(pid)
    return not fields or fields[0] in _STILL


def _stat(pid: int) -> list[str]:
    """From behind the name; nothing if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []
