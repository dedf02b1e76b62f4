"""A git directory as a trial left it: what the layers have, over what the host has. Or the host's alone.

TRUST: what is in the layers was made by a command. Nothing is opened but directories and files that are
files, one name at a time, and no more of them than anybody has.
"""

from __future__ import annotations

import errno
import os
import stat

from corral.trials.layer import LayerStack, open_parent, open_stack
from corral.untrusted_files.steps import open_beneath, open_regular, read_bounded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from corral.trials.layer import Entry
    from corral.trials.record import TrialRecord

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_DEPTH = 32
_MOST_NAMES = 200_000


class GitView:
    """One directory. `stack` is None where no layer has it, `host` is -1 where nothing of the host shows."""

    def __init__(self, stack: LayerStack | None, host: int) -> None:
        self._stack, self.host = stack, host

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._stack is not None:
            self._stack.close()
        if self.host >= 0:
            os.close(self.host)

    @property
    def is_layered(self) -> bool:
        return self._stack is not None

    def has_in_layer(self, name: str) -> bool:
        """Whether the trial has written or removed it."""
        if self._stack is None:
            return False
        entry = self._stack.entry(name)
        return entry.status is not None or entry.is_opaque

    def is_replaced(self, name: str) -> bool:
        """Whether nothing of the host's shows at a name any more, or through it."""
        return self.host < 0 or (self._stack is not None and self._stack.entry(name).is_opaque)

    def names(self) -> list[str]:
        """What is there, whatever it is."""
        found = set(os.listdir(self.host)) if self.host >= 0 else set()
        if self._stack is not None:
            for entry in self._stack.entries():
                (found.add if entry.status is not None else found.discard)(entry.name)
        return sorted(found)

    def has(self, name: str) -> bool:
        return self._kind(name) != 0

    def is_directory(self, name: str) -> bool:
        return stat.S_ISDIR(self._kind(name))

    def is_file(self, name: str) -> bool:
        return stat.S_ISREG(self._kind(name))

    def _kind(self, name: str) -> int:
        entry = self._entry(name)
        if entry is not None:
            return entry.status.st_mode if entry.status is not None else 0
        try:
            return os.stat(name, dir_fd=self.host, follow_symlinks=False).st_mode if self.host >= 0 else 0
        except FileNotFoundError:
            return 0

    def _entry(self, name: str) -> Entry | None:
        """What the layers say of a name; None if the host's shows through."""
        if self._stack is None:
            return None
        entry = self._stack.entry(name)
        if entry.problem:
            raise OSError(errno.EINVAL, entry.problem, name)
        return entry if entry.status is not None or entry.is_opaque else None

    def open(self, name: str) -> int:
        """A file, for reading. Raises OSError."""
        entry = self._entry(name)
        if entry is None:
            return open_regular(self.host, name, os.O_RDONLY)
        if self._stack is None or entry.status is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return self._stack.open_file(entry)

    def read(self, name: str, most: int) -> bytes | None:
        """A file; None if there is none. Raises OSError for what is no file, or larger."""
        if not self.has(name):
            return None
        handle = self.open(name)
        try:
            return read_bounded(handle, most)
        finally:
            os.close(handle)

    def enter(self, name: str) -> GitView:
        """A directory in it. Raises OSError."""
        entry = self._entry(name)
        if entry is not None and (entry.status is None or not stat.S_ISDIR(entry.status.st_mode)):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)
        if entry is None:
            return GitView(None, os.open(name, _DIRECTORY, dir_fd=self.host))
        assert self._stack is not None
        inner = -1
        if self.host >= 0 and not entry.is_opaque:
            try:
                inner = os.open(name, _DIRECTORY, dir_fd=self.host)
            except (FileNotFoundError, NotADirectoryError):
                inner = -1
        return GitView(self._stack.enter(entry), inner)

    def only_layer(self) -> GitView:
        """The same directory without what the host has."""
        return GitView(self._stack.copy() if self._stack is not None else None, -1)

    def files(self, name: str) -> Iterator[tuple[str, GitView, str]]:
        """All files beneath a directory: path, the directory that has it (open meanwhile), name there."""
        yield from self._files(name, f"{name}/", [_MOST_NAMES], 0)

    def _files(
        self, name: str, above: str, left: list[int], depth: int
    ) -> Iterator[tuple[str, GitView, str]]:
        if not self.is_directory(name):
            return
        with self.enter(name) as inner:
            for each in inner.names():
                left[0] -= 1
                if left[0] < 0 or depth > _MOST_DEPTH:
                    raise OSError(errno.EFBIG, "there is more in it than anybody has", above)
                if inner.is_directory(each):
                    yield from inner._files(each, f"{above}{each}/", left, depth + 1)
                elif inner.is_file(each):
                    yield f"{above}{each}", inner, each


def open_host(record: TrialRecord, repository: str) -> GitView:
    """A git directory of the host's. Raises OSError."""
    return GitView(None, open_beneath(record.root, f"{record.root}/{repository}"))


def open_inside(record: TrialRecord, repository: str) -> GitView:
    """The same as the trial left it; `is_layered` says whether it wrote anything there. Raises OSError."""
    with open_stack(record.layers) as stack:
        try:
            parent, entry = open_parent(stack, repository)
        except NotADirectoryError:  # no layer has the directory above
            return open_host(record, repository)
        with parent:
            if entry.problem:
                raise OSError(errno.EINVAL, entry.problem, repository)
            if entry.status is None and not entry.is_opaque:
                return open_host(record, repository)
            if entry.status is None or not stat.S_ISDIR(entry.status.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, "the trial has removed or replaced it", repository)
            below = parent.enter(entry)
            try:
                return GitView(below, -1 if entry.is_opaque else open_host(record, repository).host)
            except OSError:
                below.close()
                raise
