"""One git directory: what in it would make the host's git run a program, or write outside, for a command.

Git writes almost anywhere in its directory, so a command that works with git may. What it leaves there is
looked at when everything has ended: links (git writes through them), hooks and settings (git runs what they
name), unfinished work (`exec` lines), the index (paths that lead into a git directory).
"""

from __future__ import annotations

import os
import posixpath

from corral.git.config import MalformedConfig, read_config, without
from corral.git.index import MalformedIndex, read_index
from corral.git.keys import harmless_remotes, is_harmless
from corral.git.sequencer import is_state, unsafe_state
from corral.model.record import Record
from corral.runtime.git_files import (
    changed_ns,
    entries_of,
    has_entry,
    inside,
    link_text,
    names_of,
    read_file,
    subdirectories_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from corral.git.config import Entry as Setting
    from corral.git.index import IndexContent


_MOST_INDEX_BYTES = 1 << 30
_EXCERPT = 60

#: What mounts and the guard keep as it was in a repository that is planned with.
_HELD = frozenset({"config", "config.worktree", "commondir", "hooks"})
_CONFIGS = frozenset({"config", "config.worktree"})
_UNFINISHED = frozenset({"rebase-merge", "rebase-apply", "sequencer"})
_SECOND_NAME = "it has a second name, by which git would write it as another file"
_MOST_DEPTH = 64


class Hazard(Record):
    """Something that must not be left. What the host itself had there, with the same content, may stay."""

    place: str  # inside the git directory
    why: str
    content: bytes = b""  # what makes it one: a file, the text of a link, steps of a list
    instead: bytes | None = None  # what may stay in its place
    is_unfinished: bool = False  # git itself would remove it at the end of what it is doing


class GitDirectory:
    """Looked at by descriptor. `is_held`: its hooks and settings cannot have changed.

    `worktree` is where its index belongs. `may_lead_to` says whether a path that is named in here may be
    followed, `since_ns` when commands began. `is_module`: of a submodule, which names its worktree.
    """

    def __init__(
        self,
        path: str,
        handle: int,
        worktree: str,
        may_lead_to: Callable[[str], bool],
        since_ns: int,
        *,
        is_held: bool,
        is_module: bool = False,
    ) -> None:
        self._path = path
        self._handle = handle
        self._worktree = worktree
        self._follow = may_lead_to
        self._since_ns = since_ns
        self._is_held = is_held
        self._is_module = is_module
        self.gitlinks: tuple[str, ...] = ()  # directories in which git would run
        self.seen: list[str] = []  # what the last look depended on, as paths in here
        self.depends_on_others = False  # on what is not in here

    def _may_lead_to(self, path: str) -> bool:
        self.depends_on_others = True
        return self._follow(path)

    def hazards(self) -> list[Hazard]:
        """Everything that git would run, follow or be led by."""
        self.gitlinks, self.seen, self.depends_on_others = (), [], False
        return list(self._repository(self._handle, "", self._worktree, is_held=self._is_held))

    def _repository(self, handle: int, prefix: str, worktree: str, *, is_held: bool) -> Iterator[Hazard]:
        """A git directory: the one itself, that of a linked worktree, that of a submodule."""
        self.seen.append(prefix)
        for name, is_directory, is_file in entries_of(handle):
            if is_held and name in _HELD:
                continue
            place = prefix + name
            if is_directory:
                for inner in inside(handle, name):
                    yield from self._directory(inner, prefix, name, is_held=is_held)
            elif is_file and name in _CONFIGS:
                self.seen.append(place)
                yield from self._settings(place, read_file(handle, name), names_of(handle, name))
            elif is_file and name == "index":
                self.seen.append(place)
                yield from self._index(handle, place, worktree)
            elif is_file and name in {"commondir", "gitdir"}:
                self.seen.append(place)
                yield from self._pointer(place, name, read_file(handle, name))
            elif is_file and name == "MERGE_RR" and self._leads_out(worktree, read_file(handle, name) or b""):
                yield Hazard(place, "git would copy files from elsewhere")
            else:
                yield from self._file(handle, prefix, name, is_file=is_file)

    def _directory(self, handle: int, prefix: str, name: str, *, is_held: bool) -> Iterator[Hazard]:
        place = prefix + name
        if name == "hooks":
            yield from self._hooks(handle, place)
        elif name == "objects":
            yield from self._files(handle, prefix, name, only=("info", "pack"))
            yield from self._objects(handle, place)
            for inner, _ in subdirectories_of(handle, ("info",)):
                yield from self._alternates(place, read_file(inner, "alternates") or b"")
        elif name == "worktrees":
            yield from self._files(handle, prefix, name, only=())
            for inner, entry in subdirectories_of(handle):
                yield from self._repository(inner, f"{place}/{entry}/", _worktree_of(inner), is_held=False)
        elif name == "modules":
            yield from self._modules(handle, place, is_held=is_held)
        else:
            yield from self._files(handle, prefix, name)

    def _objects(self, handle: int, place: str) -> Iterator[Hazard]:
        """Only those directories of objects in which something is new: git touches what it finds there."""
        for name, is_directory, _ in entries_of(handle):
            if is_directory and len(name) == 2:
                self.seen.append(f"{place}/{name}")
            if is_directory and len(name) == 2 and changed_ns(handle, name) >= self._since_ns:
                for inner in inside(handle, name):
                    for entry, is_directory, is_file in entries_of(inner):  # noqa: PLW2901
                        if not is_directory and not is_file and changed_ns(inner, entry) >= self._since_ns:
                            yield _not_a_file(inner, f"{place}/{name}/{entry}", entry)

    def _alternates(self, place: str, data: bytes) -> Iterator[Hazard]:
        """Other places for objects: git sets times there, as if it had written what it found."""
        for line in os.fsdecode(data).splitlines():
            if (
                line
                and not line.startswith("#")
                and not self._may_lead_to(self._absolute(f"{place}/x", line))
            ):
                yield Hazard(
                    f"{place}/info/alternates", f"git would touch objects in {line[:_EXCERPT]!r}", data
                )
                return

    def _files(
        self, handle: int, prefix: str, name: str, only: tuple[str, ...] | None = None
    ) -> Iterator[Hazard]:
        """Everything in a directory and below; of its subdirectories perhaps only some are entered."""
        self.seen.append(prefix + name)
        if name.count("/") > _MOST_DEPTH:
            yield Hazard(prefix + name, "git has no directory as deep as that")
            return
        for entry, is_directory, is_file in entries_of(handle):
            if not is_directory:
                yield from self._file(handle, prefix, f"{name}/{entry}", is_file=is_file)
            elif only is None or entry in only:
                for inner in inside(handle, entry):
                    yield from self._files(inner, prefix, f"{name}/{entry}")

    def _file(self, handle: int, prefix: str, path: str, *, is_file: bool) -> Iterator[Hazard]:
        """What is no directory, by its path in its git directory: no link, nothing that git would act on."""
        name = posixpath.basename(path)
        if not is_file:
            yield _not_a_file(handle, prefix + path, name)
        elif is_state(path):
            self.seen.append(prefix + path)
            data = read_file(handle, name)
            why = "it is too large" if data is None else unsafe_state(path, data)
            if not why and names_of(handle, name) > 1 and not path.startswith("refs/"):
                why = _SECOND_NAME
            if why:
                steps = [line for line in (data or b"").split(b"\n") if unsafe_state(path, line)]
                is_list = path.endswith("todo") and bool(steps)
                content = b"\n".join(steps) if is_list else data or b""
                yield Hazard(prefix + path, why, content, is_unfinished=path.partition("/")[0] in _UNFINISHED)

    def _hooks(self, handle: int, place: str) -> Iterator[Hazard]:
        self.seen.append(place)
        for name, _, is_file in entries_of(handle):
            if is_file:
                self.seen.append(f"{place}/{name}")
            if not name.endswith(".sample") or not is_file:
                content = (read_file(handle, name) or b"") if is_file else link_text(handle, name)
                yield Hazard(f"{place}/{name}", "git would run it", content)

    def _modules(self, handle: int, place: str, *, is_held: bool) -> Iterator[Hazard]:
        """Git directories of submodules, at the depth that their names have."""
        yield from self._files(handle, "", place, only=())
        for inner, name in subdirectories_of(handle):
            here = f"{place}/{name}"
            if has_entry(inner, "HEAD"):
                worktree = self._worktree_of_module(inner, here)
                yield from self._repository(inner, f"{here}/", worktree, is_held=is_held)
            elif here.count("/") > _MOST_DEPTH:
                yield Hazard(here, "git has no directory as deep as that")
            else:
                yield from self._modules(inner, here, is_held=is_held)

    def _worktree_of_module(self, handle: int, place: str) -> str:
        try:
            entries = read_config(read_file(handle, "config") or b"")
        except MalformedConfig:
            return ""
        named = [entry.value for entry in entries if entry.name == "core.worktree" and entry.value]
        return os.path.normpath(os.path.join(self._path, place, named[-1] or "")) if named else ""

    def _pointer(self, place: str, name: str, data: bytes | None) -> Iterator[Hazard]:
        """Where a linked worktree has its repository, and where the repository has the worktree."""
        text = os.fsdecode(data or b"").rstrip("\n")
        if place.split("/")[-3:-2] == ["worktrees"]:
            if name == "commondir" and text == "../..":
                return
            if name == "gitdir" and text.endswith("/.git") and self._may_lead_to(self._absolute(place, text)):
                return
        yield Hazard(place, f"it would lead git to {text[:_EXCERPT]!r}", data or b"")

    def _leads_out(self, worktree: str, records: bytes) -> bool:
        """Whether a conflict that git remembers is, by a link, in a file outside of the worktree."""
        paths = (os.fsdecode(record.partition(b"\t")[2]) for record in records.split(b"\0") if record)
        return not all(worktree and self._may_lead_to(os.path.join(worktree, path)) for path in paths)

    def _absolute(self, place: str, text: str) -> str:
        """Where a path leads that a file in here names; as it is written, since a link may be on the way."""
        return os.path.join(self._path, os.path.dirname(place), text)

    def _settings(self, place: str, data: bytes | None, names: int) -> Iterator[Hazard]:
        """A configuration that a command has made: what cannot run anything, or lead anywhere, may stay.

        By another of its names it could be written as something else is.
        """
        if data is None:
            yield Hazard(place, "it is too large to be looked at")
            return
        try:
            entries = read_config(data)
        except MalformedConfig as problem:
            yield Hazard(place, f"git could not read it: {problem}", data)
            return
        remotes = harmless_remotes(entries)
        refused = {
            entry.start: entry.name
            for entry in entries
            if not is_harmless(entry, remotes) and not self._is_place_of_submodule(place, entry)
        }
        if refused or names > 1:
            what = ", ".join(dict.fromkeys(refused.values()))
            why = f"git would run, or follow, what it says: {what}" if refused else _SECOND_NAME
            yield Hazard(place, why, data, without(data, lambda entry: entry.start in refused))

    def _is_place_of_submodule(self, place: str, entry: Setting) -> bool:
        """By this setting git finds the worktree of a submodule whose git directory is in here."""
        is_module = "modules/" in f"/{place}" or self._is_module
        if entry.name != "core.worktree" or not is_module:
            return False
        return self._may_lead_to(self._absolute(place, entry.value or "/"))

    def _index(self, handle: int, place: str, worktree: str) -> Iterator[Hazard]:
        try:
            content = self._read_index(handle)
        except MalformedIndex as problem:
            yield Hazard(place, f"it is not an index that corral understands: {problem}")
            return
        sparse = [path for path in content.sparse if worktree and os.path.lexists(f"{worktree}/{path}")]
        unsafe = (*content.unsafe, *sparse)
        if unsafe:
            why = f"git would write, or enter, {unsafe[0]!r}"
            yield Hazard(place, why, "\0".join(unsafe).encode("utf-8", "surrogateescape"))
        if worktree:
            self.gitlinks += tuple(os.path.join(worktree, path) for path in content.gitlinks)

    def _read_index(self, handle: int) -> IndexContent:
        data, length = read_file(handle, "index", _MOST_INDEX_BYTES), self._hash_length(handle)
        if data is None:
            raise MalformedIndex("it is too large")
        content = read_index(data, length)
        if content.shared:
            self.depends_on_others = True
            other = read_file(handle, f"sharedindex.{content.shared}", _MOST_INDEX_BYTES)
            content = read_index(data, length, other)
        return content

    def _hash_length(self, handle: int) -> int:
        """How many bytes the names of objects have: the configuration says so."""
        config = read_file(handle, "config")
        try:
            entries = read_config(read_file(self._handle, "config") or b"" if config is None else config)
        except MalformedConfig:
            return 20
        formats = [entry.value for entry in entries if entry.name == "extensions.objectformat"]
        return 32 if formats and (formats[-1] or "").lower() == "sha256" else 20


def _worktree_of(handle: int) -> str:
    """Where the worktree of a linked one is, as its git directory says; empty if it does not."""
    text = os.fsdecode(read_file(handle, "gitdir") or b"").rstrip("\n")
    return text.removesuffix("/.git") if text.startswith("/") and text.endswith("/.git") else ""


def _not_a_file(handle: int, place: str, name: str) -> Hazard:
    text = link_text(handle, name)
    if text:
        shown = os.fsdecode(text)[:_EXCERPT]
        return Hazard(place, f"git would follow this link, to {shown!r}", text)
    return Hazard(place, "git would wait for it: it is not a file")
