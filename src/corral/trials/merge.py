"""Merge: where host and trial have changed the same file, put both together.

For that one has to know how the file was before: by what git's index had when the trial began, or by a copy
that shares its blocks with the file (`originals.py`). What comes of it is written into the trial's own layer:
then there is no conflict any more, and it is applied like all else. Stopped anywhere, the same merge can be
made again.

TRUST: the trial's file was made by a command. Git reads three files of corral's own, and runs nothing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from corral.git_formats.index import MalformedIndex
from corral.git_formats.index_entries import read_entries
from corral.model.record import Record
from corral.trials.change import EntryKind
from corral.trials.git.program import GitFailed, GitProgram
from corral.trials.git.state import GitBases
from corral.trials.git.view import open_host
from corral.trials.layer import open_parent, open_stack
from corral.trials.originals import original_path
from corral.trials.stamp import stamp_of
from corral.untrusted_files.removal import remove_tree
from corral.untrusted_files.steps import open_regular, read_bounded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from corral.git_formats.index_entries import IndexEntries
    from corral.trials.base import Bases
    from corral.trials.change import TrialChange
    from corral.trials.host_tree import HostTree
    from corral.trials.record import TrialRecord
    from corral.trials.stamp import Stamp

_PLACE = "merge"
_MOST_BYTES = 16 << 20
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_REGULAR = {0o100644, 0o100755}


class Version(Record):
    content: bytes
    mode: int


class Unmergeable(Exception):
    """Why two versions of a file cannot be put together."""


def merge_conflicts(
    record: TrialRecord, bases: Bases, tree: HostTree, changes: Iterable[TrialChange], paths: Collection[str]
) -> dict[str, str]:
    """Merge some paths, or none of them; returns what cannot be, and why. Raises OSError."""
    merger = _Merger(record, tree)
    by_path = {change.path: change for change in changes}
    merged: dict[str, tuple[Stamp, Version]] = {}
    problems: dict[str, str] = {}
    try:
        for path in sorted(paths):
            try:
                merged[path] = merger.merge(by_path[path])
            except (Unmergeable, GitFailed, MalformedIndex) as problem:
                problems[path] = f"it cannot be merged: {problem}"
        if not problems:
            for path, (stamp, version) in merged.items():
                merger.put(path, version)
                bases.note([(path, stamp)])  # ORDER: last; what is in the layer follows from this very file
    finally:
        remove_tree(record.directory, _PLACE)
    return problems


class _Merger:
    def __init__(self, record: TrialRecord, tree: HostTree) -> None:
        self._record, self._tree = record, tree
        self._git = GitProgram((record.root,))
        self._place = os.path.join(record.directory, _PLACE)
        self._indexes: dict[str, IndexEntries] = {}
        remove_tree(record.directory, _PLACE)
        os.mkdir(self._place, 0o700)

    def merge(self, change: TrialChange) -> tuple[Stamp, Version]:
        """What comes of a file, and the host's that was merged. Raises Unmergeable, GitFailed."""
        if change.kind is not EntryKind.FILE or change.before is not EntryKind.FILE:
            raise Unmergeable("only a file that both have can be")
        base = self._base(change.path)
        stamp, ours = self._ours(change.path)
        theirs = self._theirs(change.path)
        content = self._merged(ours.content, base.content, theirs.content)
        is_mode_theirs = (theirs.mode ^ base.mode) & 0o100
        return stamp, Version(content, theirs.mode if is_mode_theirs else ours.mode & 0o777)

    def _merged(self, *versions: bytes) -> bytes:
        if any(b"\0" in content for content in versions):
            raise Unmergeable("it is not a text")
        paths = []
        for name, content in zip(("ours", "base", "theirs"), versions, strict=True):
            paths.append(os.path.join(self._place, name))
            with open(paths[-1], "wb") as file:
                file.write(content)
        try:
            return self._git.run(self._place, ("merge-file", "-p", "-q", *paths))
        except GitFailed as problem:
            if "status" in str(problem):
                raise Unmergeable("both have changed the same lines") from None
            raise

    def _ours(self, path: str) -> tuple[Stamp, Version]:
        directory, name = self._tree.parent(path)
        handle = open_regular(directory, name, os.O_RDONLY)
        try:
            status = os.fstat(handle)
            version = Version(_read(handle), status.st_mode)
            if stamp_of(os.fstat(handle)) != stamp_of(status):
                raise Unmergeable("it is being changed")
            return stamp_of(status), version
        finally:
            os.close(handle)

    def _theirs(self, path: str) -> Version:
        with open_stack(self._record.layers) as stack:
            parent, entry = open_parent(stack, path)
            with parent:
                handle = parent.open_file(entry)
                try:
                    return Version(_read(handle), os.fstat(handle).st_mode & 0o777)
                finally:
                    os.close(handle)

    def _base(self, path: str) -> Version:
        try:
            handle = os.open(original_path(self._record, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return self._base_in_git(path)
        try:
            return Version(_read(handle), os.fstat(handle).st_mode)
        finally:
            os.close(handle)

    def _base_in_git(self, path: str) -> Version:
        fitting = [each for each in self._record.repositories if path.startswith(each.removesuffix(".git"))]
        if not fitting:
            raise Unmergeable("how it was before is not known: it is in no git repository")
        repository = max(fitting, key=len)
        if repository not in self._indexes:
            data = GitBases(self._record).index(repository)
            self._indexes[repository] = read_entries(data) if data else {}
        inner = path[len(repository.removesuffix(".git")) :]
        entry = self._indexes[repository].get((os.fsencode(inner), 0))
        if entry is None or entry.mode not in _REGULAR:
            raise Unmergeable("how it was before is not known: git does not track it")
        with open_host(self._record, repository) as host:
            words = ("cat-file", "blob", entry.object_id.hex())
            content = self._git.run(f"/proc/self/fd/{host.host}", words, kept=(host.host,))
        return Version(content, entry.mode)

    def put(self, path: str, version: Version) -> None:
        """Into the trial's own layer, where a fork may have no directories yet; whole, or not at all."""
        new = os.path.join(self._place, "merged")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        handle = os.open(new, _NEW, 0o600)
        with open(handle, "wb") as file:
            file.write(version.content)
            os.fchmod(file.fileno(), version.mode)
        *above, name = path.split("/")
        directory = os.open(self._record.layers[0], _DIRECTORY)
        try:
            for depth, part in enumerate(above):
                inner = self._enter(directory, part, "/".join(above[: depth + 1]))
                os.close(directory)
                directory = inner
            os.rename(new, name, dst_dir_fd=directory)
        finally:
            os.close(directory)

    def _enter(self, directory: int, name: str, path: str) -> int:
        try:
            return os.open(name, _DIRECTORY, dir_fd=directory)
        except FileNotFoundError:
            with open_stack(self._record.layers) as stack:
                parent, entry = open_parent(stack, path)
                with parent:
                    status = entry.status or os.stat(
                        os.path.join(self._record.root, path), follow_symlinks=False
                    )
            os.mkdir(name, stat.S_IMODE(status.st_mode) & 0o777, dir_fd=directory)
            return os.open(name, _DIRECTORY, dir_fd=directory)


def _read(handle: int) -> bytes:
    try:
        return read_bounded(handle, _MOST_BYTES)
    except OSError as problem:
        if problem.errno == errno.EFBIG:
            raise Unmergeable("it is too large") from None
        raise
