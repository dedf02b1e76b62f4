"""Guard: takes away what appears under a protected name while a command runs.

No mount can cover a name that does not exist, and making a placeholder would litter the workspace.
So corral waits at the directory (inotify) and moves whatever appears into quarantine, at once and
again when everything is over. The command is told nothing; the result is.
"""

from __future__ import annotations

import ctypes
import os
import struct

from corral.model.feature import Feature
from corral.model.violation import Evidence, Violation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from corral.model.plan import Watch

_IN_CREATE, _IN_MOVED_TO, _IN_DELETE, _IN_MOVED_FROM = 0x100, 0x80, 0x200, 0x40
_IN_ONLYDIR, _IN_DONT_FOLLOW = 0x01000000, 0x02000000
_MASK = _IN_CREATE | _IN_MOVED_TO | _IN_DELETE | _IN_MOVED_FROM | _IN_ONLYDIR | _IN_DONT_FOLLOW
_EVENT = struct.Struct("iIII")

#: A command that keeps trying is ended: it must not find the moment between appearing and vanishing.
PATIENCE = 8


class Guard:
    """Watches the directories of one run. INVARIANT: it only ever touches the watched names."""

    def __init__(self, watches: Iterable[Watch], quarantine: str) -> None:
        self._watches: dict[int, tuple[int, dict[str, Watch]]] = {}
        self._quarantine = quarantine
        self.violations: list[Violation] = []
        self.descriptor = -1
        by_directory: dict[str, list[Watch]] = {}
        for watch in watches:
            by_directory.setdefault(watch.directory, []).append(watch)
        if by_directory:
            self._open(by_directory)

    def _open(self, by_directory: dict[str, list[Watch]]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        for directory, watches in by_directory.items():
            # The directory is held open: a rename of it does not lead the guard elsewhere.
            handle = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            number = libc.inotify_add_watch(self.descriptor, os.fsencode(directory), _MASK)
            if number < 0:
                os.close(handle)
                raise OSError(ctypes.get_errno(), "inotify_add_watch", directory)
            self._watches[number] = (handle, {watch.name: watch for watch in watches})

    def react(self) -> None:
        """Handle what the kernel has reported since the last time."""
        try:
            raw = os.read(self.descriptor, 65_536)
        except BlockingIOError:
            return
        at = 0
        while at < len(raw):
            number, _mask, _cookie, length = _EVENT.unpack_from(raw, at)
            name = os.fsdecode(raw[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0"))
            at += _EVENT.size + length
            handle, watches = self._watches.get(number, (-1, {}))
            if name in watches:
                self._inspect(handle, watches[name])
            elif number < 0:  # the queue overflowed: look at everything
                self.sweep()

    def sweep(self) -> None:
        """Look at every watched name, reported or not."""
        for handle, watches in self._watches.values():
            for watch in watches.values():
                self._inspect(handle, watch)

    @property
    def is_exhausted(self) -> bool:
        """Whether the command has tried too often."""
        return len(self.violations) >= PATIENCE

    def close(self) -> None:
        """Give the descriptors back."""
        for handle, _ in self._watches.values():
            os.close(handle)
        self._watches = {}
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _inspect(self, handle: int, watch: Watch) -> None:
        try:
            present = os.readlink(watch.name, dir_fd=handle)
        except FileNotFoundError:
            present = None
        except OSError:
            present = ""  # there is something, and it is not a link
        if present == (watch.link_text or None):
            return
        if present is not None:
            self._take_away(handle, watch)
        if watch.link_text:
            os.symlink(watch.link_text, watch.name, dir_fd=handle)

    def _take_away(self, handle: int, watch: Watch) -> None:
        kept = os.path.join(self._quarantine, f"{len(self.violations)}-{watch.name}")
        fate = f"it was moved to {kept}"
        try:
            os.makedirs(self._quarantine, mode=0o700, exist_ok=True)
            os.rename(watch.name, kept, src_dir_fd=handle)
        except FileNotFoundError:
            return  # gone again by itself
        except OSError:
            fate = _remove(handle, watch.name)
        self.violations.append(
            Violation(
                Feature.FS_PROTECT,
                os.path.join(watch.directory, watch.name),
                Evidence.OBSERVED,
                f"{watch.label} is protected and must not be made by the command; {fate}",
            )
        )


def _remove(handle: int, name: str) -> str:
    """Remove what cannot be moved (another file system), without following a link on the way."""
    import shutil

    try:
        os.unlink(name, dir_fd=handle)
    except IsADirectoryError:
        shutil.rmtree(name, ignore_errors=True, dir_fd=handle)
    return "it was removed"
