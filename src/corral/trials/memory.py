"""Layers in memory: of an exact size in bytes and in files, copied into the trial's directory at the end.

The launcher makes such a layer in the sandbox and sends a descriptor of it to a socket in the trial's
directory. When nothing runs in the sandbox any more, what is in the layer is copied to where layers on disk
lie: from then on it is like any other.

TRUST: a command made everything in it, and may have sent a descriptor to somebody who still writes.
Everything is reached by descriptor, no link is followed, and no more is copied than the layer may hold.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat

from corral.model.errors import SetupError
from corral.trials.changes import MOST_DEPTH
from corral.trials.copying import copy_content
from corral.trials.layer import LayerStack, copy_marks, is_whiteout
from corral.untrusted_files.removal import remove_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.trials.layer import Entry
    from corral.trials.record import TrialRecord

_SOCKET, _UPPER, _PART = "socket", "upper", "upper.new"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OWN_FILES = 5  # of a layer itself: see launcher/overlay.c
#: What one sandbox sends is one layer; a session may have had some before it.
_MOST_LAYERS = 64


class LayerSocket:
    """Where the layers of one trial come in, as long as commands run in it."""

    def __init__(self, record: TrialRecord) -> None:
        self._directory = os.open(record.directory, _DIRECTORY)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        with contextlib.suppress(FileNotFoundError):  # of somebody who was killed
            os.unlink(_SOCKET, dir_fd=self._directory)
        # By the directory's descriptor: a path may be longer than an address.
        self._socket.bind(f"/proc/self/fd/{self._directory}/{_SOCKET}")

    def keep(self, record: TrialRecord) -> TrialRecord:
        """Copy what came into the trial's directory; returns the trial as it is then. Raises SetupError."""
        for layer in self._received():
            try:
                record = _kept(record, self._directory, layer)
            except OSError as problem:
                raise _not_kept(record, problem) from None
            finally:
                os.close(layer)
        return record

    def _received(self) -> Iterator[int]:
        with contextlib.suppress(BlockingIOError):
            for _ in range(_MOST_LAYERS):
                _, given, _, _ = socket.recv_fds(self._socket, 1, 1, socket.MSG_CMSG_CLOEXEC)
                yield from given

    def close(self) -> None:
        self._socket.close()
        with contextlib.suppress(OSError):
            os.unlink(_SOCKET, dir_fd=self._directory)
        os.close(self._directory)


def _kept(record: TrialRecord, directory: int, layer: int) -> TrialRecord:
    """INVARIANT: the trial has the whole layer or nothing of it."""
    upper = os.open(_UPPER, _DIRECTORY, dir_fd=layer)
    try:
        if not os.listdir(upper):
            return record
        used = os.fstatvfs(layer)
        remove_tree(directory, _PART)
        os.mkdir(_PART, 0o700, dir_fd=directory)
        try:
            _LayerCopy(record.size_bytes, used.f_files).copy(upper, directory, _PART)
            # ORDER: first the empty one goes; what was in it before is a lower layer by now.
            os.rmdir(_UPPER, dir_fd=directory)
            os.rename(_PART, _UPPER, src_dir_fd=directory, dst_dir_fd=directory)
        except OSError:
            remove_tree(directory, _PART)
            raise
    finally:
        os.close(upper)
    return record.replace(
        used_bytes=record.used_bytes + (used.f_blocks - used.f_bfree) * used.f_frsize,
        used_files=record.used_files + used.f_files - used.f_ffree - _OWN_FILES,
    )


class _LayerCopy:
    """Copies one layer, with whiteouts and the marks of overlayfs, and no other attribute."""

    def __init__(self, most_bytes: int, most_names: int) -> None:
        self._left, self._names = most_bytes, most_names
        self._links: dict[tuple[int, int], str] = {}  # the first name of files that have several
        self._top = -1

    def copy(self, source: int, directory: int, name: str) -> None:
        target = os.open(name, _DIRECTORY, dir_fd=directory)
        self._top = target
        try:
            with LayerStack((os.dup(source),)) as stack:
                self._directory(stack, target, "", 0)
            _take_status(os.fstat(source), target)
        finally:
            os.close(target)

    def _directory(self, stack: LayerStack, target: int, above: str, depth: int) -> None:
        if depth > MOST_DEPTH:  # it is named, and nobody works there: see `find_changes`
            return
        for entry in stack.entries():
            self._entry(stack, entry, target, f"{above}{entry.name}", depth)

    def _entry(self, stack: LayerStack, entry: Entry, target: int, path: str, depth: int) -> None:
        self._names -= 1
        if self._names < 0:
            raise OSError(errno.EFBIG, "it grows while it is copied", path)
        status = entry.status
        if status is None or is_whiteout(status):
            os.mknod(entry.name, stat.S_IFCHR, 0, dir_fd=target)
        elif stat.S_ISDIR(status.st_mode):
            os.mkdir(entry.name, 0o700, dir_fd=target)
            inner = os.open(entry.name, _DIRECTORY, dir_fd=target)
            try:
                with stack.enter(entry) as below:
                    copy_marks(below.handles[0], inner)
                    self._directory(below, inner, f"{path}/", depth + 1)
                _take_status(status, inner)
            finally:
                os.close(inner)
        elif stat.S_ISLNK(status.st_mode):
            os.symlink(stack.read_link(entry), entry.name, dir_fd=target)
        elif stat.S_ISREG(status.st_mode):
            self._file(stack, entry, status, target, path)
        elif stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode):
            os.mknod(entry.name, stat.S_IFMT(status.st_mode) | 0o600, dir_fd=target)
            os.chmod(entry.name, stat.S_IMODE(status.st_mode) & 0o777, dir_fd=target)

    def _file(self, stack: LayerStack, entry: Entry, status: os.stat_result, target: int, path: str) -> None:
        known = self._links.get((status.st_dev, status.st_ino))
        if known is not None:
            with contextlib.suppress(OSError):  # a path may be too long; then it is a file of its own
                os.link(known, entry.name, src_dir_fd=self._top, dst_dir_fd=target, follow_symlinks=False)
                return
        source = stack.open_file(entry)
        try:
            made = os.open(entry.name, _NEW, 0o600, dir_fd=target)
            try:
                now = os.fstat(source)
                self._left -= now.st_blocks * 512
                if self._left < 0:
                    raise OSError(errno.EFBIG, "it grows while it is copied", path)
                copy_content(source, made, now.st_size, now.st_blocks * 512)
                _take_status(now, made)
            finally:
                os.close(made)
        finally:
            os.close(source)
        if status.st_nlink > 1:
            self._links[status.st_dev, status.st_ino] = path


def _take_status(status: os.stat_result, target: int) -> None:
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):
            os.fchown(target, status.st_uid, status.st_gid)
    os.fchmod(target, stat.S_IMODE(status.st_mode) & 0o1777)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _not_kept(record: TrialRecord, problem: OSError) -> SetupError:
    return SetupError(
        "trial-place",
        f"what the command wrote on trial {record.identity} could not be kept",
        why=f"{record.directory}: {problem.strerror or problem}",
        fix="make room in the state directory (`corral trials --prune`), and run the command again",
        ran=True,
    )
