"""GitState: what a git directory says: HEAD, references, stash. And how it was when a trial began."""

from __future__ import annotations

import contextlib
import json
import os

from corral.git_formats.refs import LogEntry, is_ref_name, read_log, read_packed, read_value
from corral.model.record import Record
from corral.trials.git.view import open_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from corral.trials.git.view import GitView
    from corral.trials.record import TrialRecord

HEAD, INDEX, STASH = "HEAD", "index", "refs/stash"
_NAME = "git"
_MOST_REF, _MOST_PACKED, _MOST_LOG = 4096, 64 << 20, 4 << 20
#: A larger index is not kept: that git has written it anew then counts as a change.
_MOST_KEPT_INDEX = 4 << 20
_STASH_LOG = ("logs", "refs", "stash")
#: What git keeps while it is in the middle of something; its scripts are never taken over.
UNFINISHED = (
    *("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG"),
    *("rebase-merge", "rebase-apply", "sequencer"),
)


class GitState(Record):
    head: str  # an object id, or `ref: ` and a name
    refs: dict[str, str]  # a value for each name, without the stash
    stash: tuple[LogEntry, ...] = ()  # the oldest first
    index: tuple[int, ...] = ()  # which file it is; empty if there is none


def read_state(view: GitView) -> GitState:
    """Raises OSError and MalformedRefs."""
    return _parse(_read_raw(view))


def _read_raw(view: GitView) -> dict[str, Any]:
    packed = view.read("packed-refs", _MOST_PACKED) or b""
    loose = {}
    for path, directory, name in view.files("refs"):
        if is_ref_name(path):
            loose[path] = _text(directory.read(name, _MOST_REF) or b"")
    return {
        "head": _text(view.read("HEAD", _MOST_REF) or b""),
        "packed": _text(packed),
        "loose": loose,
        "stash": _text(_read_deep(view, _STASH_LOG) if STASH in loose or STASH.encode() in packed else b""),
        "index": _stamp(view),
    }


def _parse(raw: Mapping[str, Any]) -> GitState:
    refs = read_packed(_bytes(raw["packed"]))
    for name, text in raw["loose"].items():
        refs[name] = read_value(_bytes(text))
    for name, value in raw.get("since", {}).items():
        refs[name] = value
    has_stash = bool(refs.pop(STASH, ""))
    stash = read_log(_bytes(raw["stash"])) if has_stash else ()
    present = {name: value for name, value in refs.items() if value}
    return GitState(read_value(_bytes(raw["head"])), present, stash, tuple(raw["index"]))


def _text(data: bytes) -> str:
    return data.decode("latin-1")


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")


def _read_deep(view: GitView, path: tuple[str, ...]) -> bytes:
    first, *others = path
    if not others:
        return view.read(first, _MOST_LOG) or b""
    if not view.is_directory(first):
        return b""
    with view.enter(first) as inner:
        return _read_deep(inner, tuple(others))


def _stamp(view: GitView) -> list[int]:
    """Which file the host's index is: git replaces it, and never writes in it."""
    try:
        status = os.stat("index", dir_fd=view.host, follow_symlinks=False) if view.host >= 0 else None
    except FileNotFoundError:
        return []
    return [status.st_dev, status.st_ino, status.st_ctime_ns, status.st_size] if status is not None else []


def find_repositories(root: str, worktrees: Iterable[str]) -> tuple[str, ...]:
    """Git directories of worktrees that have one of their own, relative to the root."""
    found = []
    for worktree in worktrees:
        repository = f"{worktree}/.git".lstrip("/")
        if all(os.path.lexists(os.path.join(root, repository, name)) for name in (HEAD, "objects", "refs")):
            found.append(repository)
    return tuple(found)


class GitBases:
    """How the repositories of a workspace were when a trial began, but for what was applied since."""

    def __init__(self, record: TrialRecord) -> None:
        self._record = record
        self._path = os.path.join(record.directory, _NAME)
        self._raw: dict[str, Any] = {}
        try:
            with open(self._path, encoding="ascii") as file:
                self._raw = json.load(file)
        except FileNotFoundError:
            pass

    def begin(self, repositories: Sequence[str]) -> None:
        """Look at the host's. ORDER: before the command starts."""
        if not repositories:
            return
        for repository in repositories:
            try:
                with open_host(self._record, repository) as view:
                    self._raw[repository] = _read_raw(view)
                    self._keep_index(repository, view)
            except OSError:
                continue
        self._write()

    def state(self, repository: str) -> GitState | None:
        """None for a repository that nobody looked at. Raises MalformedRefs."""
        raw = self._raw.get(repository)
        return _parse(raw) if raw is not None else None

    def index(self, repository: str) -> bytes | None:
        """The whole index that the host had; None if it was not kept."""
        try:
            with open(self._index_path(repository), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def _keep_index(self, repository: str, view: GitView) -> None:
        """Git writes an index anew whenever it has looked at files: what is in it says whether it changed."""
        try:
            data = view.read(INDEX, _MOST_KEPT_INDEX) or b""
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._index_path(repository))
            return
        with open(self._index_path(repository), "wb") as file:
            file.write(data)

    def _index_path(self, repository: str) -> str:
        return f"{self._path}-index-{self._record.repositories.index(repository)}"

    def note(self, repository: str, done: Sequence[str]) -> None:
        """Corral itself has changed these, references or HEAD, STASH, INDEX: what is there now counts."""
        raw = self._raw[repository]
        with open_host(self._record, repository) as view:
            fresh = _read_raw(view)
            if INDEX in done:
                self._keep_index(repository, view)
        refs = _parse(fresh).refs
        raw.setdefault("since", {})
        for name in done:
            if name in {HEAD, INDEX}:
                raw[name.lower()] = fresh[name.lower()]
            elif name == STASH:
                raw["stash"] = fresh["stash"]
                raw["since"][STASH] = "0" * 40 if fresh["stash"] else ""
            else:
                raw["since"][name] = refs.get(name, "")
        self._write()

    def _become(self, raw: dict[str, Any]) -> None:
        self._raw = raw
        self._write()

    def _write(self) -> None:
        with open(f"{self._path}.new", "w", encoding="ascii") as file:
            json.dump(self._raw, file)
        os.rename(f"{self._path}.new", self._path)


def copy_git_bases(record: TrialRecord, other: TrialRecord) -> None:
    """A fork began when the trial before it did."""
    bases = GitBases(record)
    GitBases(other)._become(bases._raw)
    for repository in record.repositories:
        data = bases.index(repository)
        if data is not None:
            with open(GitBases(other)._index_path(repository), "wb") as file:
                file.write(data)
