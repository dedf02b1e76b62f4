"""One git directory: what in it would make the host's git run a program, or write outside, for a command.

Git writes almost anywhere in its directory, so a command that works with git may. What it leaves there is
looked at when everything has ended: links (git writes through them), hooks and settings (git runs what they
name), unfinished work (`exec` lines), the index (paths that lead into a git directory).
"""

from __future__ import annotations

import os
import posixpath

from corral.git_check.files import (
    changed_ns,
    has_entry,
    inside,
    is_git_directory,
    is_gone,
    link_text,
    names_of,
)
from corral.git_check.hazard import Hazard, inner_repository, not_a_file
from corral.git_check.hooks import named_places
from corral.git_check.index import SECOND_NAME, TOO_LARGE, filled, read_whole_index
from corral.git_check.pointers import is_in_modules
from corral.git_check.tracked import way_to
from corral.git_check.work import TooMuchWork, Work
from corral.git_formats.config import MalformedConfig, read_config, without
from corral.git_formats.index import MalformedIndex
from corral.git_formats.keys import OBJECT_FORMAT, harmless_remotes, has_extensions, hash_length, is_harmless
from corral.git_formats.pointer import read_path
from corral.git_formats.sequencer import NAMES, is_judged_by_its_head, is_state, unsafe_state
from corral.untrusted_files.folding import GitNames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from corral.git_check.files import Entry
    from corral.git_check.hooks import WorktreeHooks
    from corral.git_check.pointers import Pointers
    from corral.git_check.remembered import Identity
    from corral.git_check.tracked import Tracked
    from corral.git_formats.config import ConfigEntry as Setting


_EXCERPT = 60

#: What mounts and the guard keep as it was in a repository that is planned with.
_HELD = frozenset({"config", "config.worktree", "commondir", "hooks"})
_CONFIGS = frozenset({"config", "config.worktree"})
_UNFINISHED = frozenset({"rebase-merge", "rebase-apply", "sequencer"})
_WORKTREE = "core.worktree"
_ALTERNATES = frozenset({"objects/info/alternates", "objects/info/http-alternates"})
_MOST_DEPTH = 64
_NAMES = GitNames(
    *(*_HELD, *NAMES, ".git", "index", "gitdir", "refs", "worktrees", "modules"),
    *("info", "pack", "alternates", "http-alternates", "multi-pack-index.d"),
)


class GitDirectory:
    """Looked at by descriptor. `is_held`: its hooks and settings cannot have changed.

    `worktree` is where its index belongs. `pointers` says where paths may lead that are named in here, and is
    told which worktrees the git directories in here have. `since_ns` is when commands began, `objects` where
    objects were then, as far as there is a then. `work` counts; what is `left_out` is not looked at.
    """

    def __init__(
        self,
        path: str,
        handle: int,
        worktree: str,
        pointers: Pointers,
        since_ns: int,
        *,
        work: Work,
        is_held: bool,
        hooks: WorktreeHooks,
        left_out: Collection[str] = (),
        objects: Mapping[str, Identity] | None = None,
    ) -> None:
        self._path, self._handle, self._worktree = path, handle, worktree
        self._pointers, self._since_ns, self._is_held = pointers, since_ns, is_held
        self._hooks, self._work = hooks, work
        self._left_out, self._objects_before = left_out, objects
        self.gitlinks: tuple[str, ...] = ()  # directories in which git would run
        self.tracked: tuple[Tracked, ...] = ()  # where git removes files that an index has
        self.seen: list[str] = []  # what the last look depended on, as paths in here
        self.depends_on_others = False  # on what is not in here
        self.objects: dict[str, Identity] = {}
        self.failure: Exception | None = None  # which ended the last look

    def _may_lead_to(self, place: str, text: str) -> bool:
        """Whether git may follow a path that the file at this place names.

        As it is written, since a link may be on the way.
        """
        self.depends_on_others = True
        path = os.path.join(self._path, os.path.dirname(place), text)
        self._work.look_up(self._on_host(place), path)
        return self._pointers.lead_inside(path)

    def _on_host(self, place: str) -> str:
        return f"{self._path}/{place}".rstrip("/")

    def hazards(self) -> list[Hazard]:
        """Everything that git would run, follow or be led by; less of it if that is too much work, or fails.

        What has been found is told all the same.
        """
        self.gitlinks, self.tracked, self.seen = (), (), []
        self.depends_on_others, self.failure = False, None
        found = []
        try:
            length = self._hash_length(self._handle, "")
            whole = self._repository(self._handle, "", self._worktree, length, is_held=self._is_held)
            for hazard in whole:
                found.append(hazard)
                self._work.take_away(self._on_host(posixpath.dirname(hazard.place)))
        except TooMuchWork:
            pass  # which whoever counts sees as well
        except Exception as problem:
            self.failure = problem
        return found

    def _list(self, handle: int, place: str) -> list[Entry]:
        path = self._on_host(place)
        return [] if path in self._left_out else self._work.list(handle, path, _NAMES)

    def _read(self, handle: int, place: str, *, only_head: bool = False) -> bytes | None:
        """A file, by its directory and its place in here."""
        directory, name = posixpath.split(place)
        read = self._work.read_head if only_head else self._work.read
        return read(handle, self._on_host(directory), name)

    def _identity(self, handle: int, place: str) -> bytes:
        return self._work.identity(handle, self._on_host(place))

    def _inside(self, handle: int, name: str) -> Iterator[int]:
        return inside(handle, name, may_open=self._pointers.may_open)

    def _subdirectories(self, handle: int, place: str) -> Iterator[tuple[int, str]]:
        for name, is_directory, _ in self._list(handle, place):
            if is_directory:
                for inner in self._inside(handle, name):
                    yield inner, name

    def _repository(
        self, handle: int, prefix: str, worktree: str, length: int, *, is_held: bool
    ) -> Iterator[Hazard]:
        """A git directory: the one itself, that of a linked worktree, that of a submodule.

        The names of its objects have so many bytes.
        """
        self.seen.append(prefix)
        own = () if is_held else named_places(self._config(handle, prefix.rstrip("/")))
        for hazard in self._hooks.hazards(self._on_host(prefix), handle, self._work, own):
            yield hazard.replace(place=prefix + hazard.place)
        self.depends_on_others |= bool(own) or self._hooks.are_in(handle)  # on those of worktrees
        for name, is_directory, is_file in self._list(handle, prefix):
            if is_held and name in _HELD:
                continue
            place = prefix + name
            if name == ".git":
                yield inner_repository(handle, place)
            elif is_directory:
                yield from self._go_on(self._enter(handle, prefix, name, length, is_held=is_held))
            elif is_file and name in _CONFIGS:
                self.seen.append(place)
                yield from self._settings(handle, place)
            elif is_file and name == "index":
                self.seen.append(place)
                yield from self._index(handle, place, worktree, length)
            elif is_file and name in {"commondir", "gitdir"}:
                self.seen.append(place)
                yield from self._pointer(handle, place, worktree)
            elif is_file and name == "MERGE_RR" and self._leads_out(worktree, handle, place):
                yield Hazard(place, "git would copy files from elsewhere", self._identity(handle, place))
            else:
                yield from self._file(handle, prefix, name, is_file=is_file)

    def _go_on(self, part: Iterator[Hazard]) -> Iterator[Hazard]:
        """What a part has; if it fails, that ends it and nothing else."""
        try:
            yield from part
        except TooMuchWork:
            raise
        except Exception as problem:
            self.failure = self.failure or problem

    def _enter(self, handle: int, prefix: str, name: str, length: int, *, is_held: bool) -> Iterator[Hazard]:
        for inner in self._inside(handle, name):
            yield from self._directory(inner, prefix, name, length, is_held=is_held)

    def _directory(
        self, handle: int, prefix: str, name: str, length: int, *, is_held: bool
    ) -> Iterator[Hazard]:
        place = prefix + name
        if name == "hooks":
            yield from self._own_hooks(handle, place)
        elif name == "objects":
            yield from self._files(handle, prefix, name, only=("info", "pack"))
            yield from self._objects(handle, place)
        elif name == "worktrees":
            yield from self._files(handle, prefix, name, only=())
            for inner, entry in self._subdirectories(handle, place):
                worktree = self._worktree_of(inner, f"{place}/{entry}")
                yield from self._repository(inner, f"{place}/{entry}/", worktree, length, is_held=False)
        elif name == "modules":
            yield from self._modules(handle, place, is_held=is_held)
        else:
            yield from self._inner(handle, prefix, name)

    def _objects(self, handle: int, place: str) -> Iterator[Hazard]:
        """Only those directories of objects in which something is new: git touches what it finds there.

        In these no entry is believed by its own time, which is as old as it was in another directory. Nor are
        they themselves, if that which they are in was not here before.
        """
        path, status = self._on_host(place), os.fstat(handle)
        here = self.objects[path] = (status.st_dev, status.st_ino)
        is_new = self._objects_before is not None and self._objects_before.get(path) != here
        for name, is_directory, _ in self._list(handle, place):
            if not is_directory or name in {"info", "pack"}:
                continue
            self.seen.append(f"{place}/{name}")
            if len(name) != 2:
                yield Hazard(f"{place}/{name}", "git has no such directory of objects")
            elif is_new or changed_ns(handle, name) >= self._since_ns:
                for inner in self._inside(handle, name):
                    for entry, is_inner_directory, is_file in self._list(inner, f"{place}/{name}"):
                        if is_inner_directory:
                            yield Hazard(f"{place}/{name}/{entry}", "git has no directory there")
                        elif not is_file:
                            yield not_a_file(inner, f"{place}/{name}/{entry}", entry)

    def _files(
        self, handle: int, prefix: str, name: str, only: tuple[str, ...] | None = None
    ) -> Iterator[Hazard]:
        """Everything in a directory and below; of its subdirectories perhaps only some are entered."""
        self.seen.append(prefix + name)
        if name.count("/") > _MOST_DEPTH:
            yield Hazard(prefix + name, "git has no directory as deep as that")
            return
        here, is_refs = self._on_host(prefix + name), f"{name}/".startswith("refs/")
        for entry, is_directory, is_file in self._list(handle, prefix + name):
            if entry == ".git":
                yield inner_repository(handle, f"{prefix}{name}/{entry}")
            elif is_refs and is_file and self._work.is_reference(handle, here, entry):
                self.seen.append(f"{prefix}{name}/{entry}")
            elif not is_directory:
                yield from self._file(handle, prefix, f"{name}/{entry}", is_file=is_file)
            elif only is None or entry in only:
                for inner in self._inside(handle, entry):
                    yield from self._inner(inner, prefix, f"{name}/{entry}")

    def _inner(self, handle: int, prefix: str, name: str) -> Iterator[Hazard]:
        """A directory of a git directory. In that of a submodule, older git takes it for another one's."""
        if is_in_modules(prefix) and is_git_directory(handle):
            yield from self._module(handle, prefix + name, is_held=False)
        else:
            yield from self._files(handle, prefix, name)

    def _file(self, handle: int, prefix: str, path: str, *, is_file: bool) -> Iterator[Hazard]:
        """What is no directory, by its path in its git directory: no link, nothing that git would act on."""
        name = posixpath.basename(path)
        if not is_file:
            yield not_a_file(handle, prefix + path, name)
        elif path in _ALTERNATES:
            self.seen.append(prefix + path)
            content = self._read(handle, prefix + path) or self._identity(handle, prefix + path)
            yield Hazard(prefix + path, "git would look for objects elsewhere, and touch them", content)
        elif is_state(path):
            self.seen.append(prefix + path)
            yield from self._state(handle, prefix, path)

    def _state(self, handle: int, prefix: str, path: str) -> Iterator[Hazard]:
        name = posixpath.basename(path)
        data = self._read(handle, prefix + path, only_head=is_judged_by_its_head(path))
        if data is None:
            yield Hazard(prefix + path, TOO_LARGE, self._identity(handle, prefix + path))
            return
        why = unsafe_state(path, data)
        if not why and names_of(handle, name) > 1:
            why = SECOND_NAME
        if why:
            is_list = path.endswith("todo")
            steps = [line for line in data.split(b"\n") if unsafe_state(path, line)] if is_list else []
            content = b"\n".join(steps) or data
            yield Hazard(prefix + path, why, content, is_unfinished=path.partition("/")[0] in _UNFINISHED)

    def _own_hooks(self, handle: int, place: str) -> Iterator[Hazard]:
        self.seen.append(place)
        for name, _, is_file in self._list(handle, place):
            if is_file:
                self.seen.append(f"{place}/{name}")
            if not name.endswith(".sample") or not is_file:
                content = self._read(handle, f"{place}/{name}") if is_file else link_text(handle, name)
                content = content or self._identity(handle, f"{place}/{name}")
                yield Hazard(f"{place}/{name}", "git would run it", content)

    def _modules(self, handle: int, place: str, *, is_held: bool) -> Iterator[Hazard]:
        """Git directories of submodules, at the depth that their names have.

        INVARIANT: no name ends the search that does not end git's: it takes a directory with a HEAD, but
        without objects and refs, for a part of a name.
        """
        yield from self._files(handle, "", place, only=())
        for inner, name in self._subdirectories(handle, place):
            here = f"{place}/{name}"
            if is_git_directory(inner):
                yield from self._module(inner, here, is_held=is_held)
            elif here.count("/") > _MOST_DEPTH:
                yield Hazard(here, "git has no directory as deep as that")
            else:
                if has_entry(inner, "HEAD"):
                    why = "it would be that of a submodule, but for what is missing beside it"
                    yield Hazard(f"{here}/HEAD", why, self._identity(inner, f"{here}/HEAD"))
                yield from self._modules(inner, here, is_held=is_held)

    def _module(self, handle: int, place: str, *, is_held: bool) -> Iterator[Hazard]:
        worktree = self._worktree_of_module(handle, place)
        length = self._hash_length(handle, f"{place}/")
        yield from self._repository(handle, f"{place}/", worktree, length, is_held=is_held)

    def _worktree_of_module(self, handle: int, place: str) -> str:
        """Where a submodule has its files, by its own configuration, if these say the same."""
        named = self._named_worktrees(handle, place)
        return self._agreed(place, named[0]) if len(named) == 1 else ""

    def _named_worktrees(self, handle: int, place: str) -> list[str]:
        """Every value of `core.worktree`, as any version of git reads it."""
        entries = (entry for entry in self._config(handle, place) if entry.name == _WORKTREE)
        return list(dict.fromkeys(text for entry in entries for text in entry.readings))

    def _worktree_of(self, handle: int, place: str) -> str:
        """Where a linked worktree is, as its git directory says, if the worktree says the same."""
        worktree = self._registered(handle, place)
        self.tracked += way_to(worktree, self._on_host(f"{place}/gitdir"), self._pointers)
        return self._agreed(place, worktree)

    def _registered(self, handle: int, place: str) -> str:
        """Where a linked worktree is as its git directory says; empty if not as git writes it."""
        path = read_path(self._read(handle, f"{place}/gitdir".lstrip("/")) or b"")
        is_plain = path.endswith("/.git") and os.path.normpath(path) == path
        return path.removesuffix("/.git") if is_plain and path.startswith("/") else ""

    def _claimed(self, handle: int, place: str) -> list[str]:
        """Where git would have the files by `core.worktree` or `gitdir`, whether or not they say the same."""
        named = [*self._named_worktrees(handle, place), *filter(None, (self._registered(handle, place),))]
        return [os.path.normpath(os.path.join(self._path, place, text)) for text in named]

    def _agreed(self, place: str, worktree: str) -> str:
        """INVARIANT: each leads to the other. Then git takes paths of the index for the same as we do."""
        if not worktree or not self._may_lead_to(f"{place}/x", worktree):
            return ""
        path = os.path.normpath(os.path.join(self._path, place, worktree))
        return path if self._pointers.agree(path, self._on_host(place)) else ""

    def _pointer(self, handle: int, place: str, worktree: str) -> Iterator[Hazard]:
        """Where a linked worktree has its repository, and where the repository has the worktree."""
        name = posixpath.basename(place)
        data = self._read(handle, place)
        path = read_path(data or b"")
        is_linked = place.split("/")[-3:-2] == ["worktrees"] and names_of(handle, name) == 1
        if name == "commondir":
            is_fine = path == "../.."
        else:  # a worktree that was removed may be named; git takes blanks at the end off
            is_named = bool(self._registered(handle, posixpath.dirname(place)))
            is_fine = bool(worktree) or (is_named and self._may_lead_to(place, path) and is_gone(path))
        if not is_linked or not is_fine:
            content = self._identity(handle, place) if data is None else data
            yield Hazard(place, f"it would lead git to {path[:_EXCERPT]!r}", content)

    def _leads_out(self, worktree: str, handle: int, place: str) -> bool:
        """Whether a conflict that git remembers is, by a link, in a file outside of the worktree."""
        self.seen.append(place)
        records = self._read(handle, place) or b""
        paths = (os.fsdecode(record.partition(b"\t")[2]) for record in records.split(b"\0") if record)
        return not all(worktree and self._may_lead_to(place, os.path.join(worktree, path)) for path in paths)

    def _settings(self, handle: int, place: str) -> Iterator[Hazard]:
        """A configuration that a command has made: what cannot run anything, or lead anywhere, may stay.

        By another of its names it could be written as something else is.
        """
        name = posixpath.basename(place)
        data, names = self._read(handle, place), names_of(handle, name)
        if data is None:
            yield Hazard(place, TOO_LARGE, self._identity(handle, place))
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
            if (not is_harmless(entry, remotes) and not self._is_place_of_submodule(handle, place, entry))
            or (entry.name == OBJECT_FORMAT and not has_extensions(entries))
        }
        if refused or names > 1:
            what = ", ".join(dict.fromkeys(refused.values()))
            why = f"git would run, or follow, what it says: {what}" if refused else SECOND_NAME
            yield Hazard(place, why, data, without(data, lambda entry: entry.start in refused))

    def _is_place_of_submodule(self, handle: int, place: str, entry: Setting) -> bool:
        """By this setting git finds the worktree of a submodule whose git directory is in here."""
        above = posixpath.dirname(place)
        if entry.name != _WORKTREE or not is_in_modules(above):
            return False
        named = self._named_worktrees(handle, above)
        is_one = len(named) == 1 and entry.readings == (named[0],) and named[0].isprintable()
        return is_one and bool(self._worktree_of_module(handle, above))

    def _index(self, handle: int, place: str, worktree: str, length: int) -> Iterator[Hazard]:
        try:
            above = self._on_host(posixpath.dirname(place))
            content, directories = read_whole_index(self._work, handle, above, length)
        except MalformedIndex as problem:
            self.depends_on_others = True  # on the other part of a split one, perhaps
            why = f"it is not an index that corral understands: {problem}"
            yield Hazard(place, why, self._identity(handle, place))
            return
        self.depends_on_others |= bool(content.shared)
        for path in (*content.gitlinks, *content.sparse):
            self._work.look_up(self._on_host(place), f"{worktree}/{path}")
        self.depends_on_others |= bool(content.sparse)
        unsafe = (*content.unsafe, *filled(worktree, content.sparse, self._pointers))
        if unsafe:
            why = f"git would write, or enter, {unsafe[0]!r}"
            yield Hazard(place, why, "\0".join(unsafe).encode("utf-8", "surrogateescape"))
        claimed = self._claimed(handle, posixpath.dirname(place))
        places = [top for top in dict.fromkeys((worktree, *claimed)) if top]
        self.gitlinks += tuple(os.path.join(top, path) for top in places for path in content.gitlinks)
        self.tracked += tuple((self._on_host(place), top, directories) for top in places if directories)

    def _hash_length(self, handle: int, prefix: str) -> int:
        """How many bytes the names of objects have, as the configuration of a repository says."""
        return hash_length(self._config(handle, prefix.rstrip("/")))

    def _config(self, handle: int, place: str) -> tuple[Setting, ...]:
        try:
            return read_config(self._read(handle, f"{place}/config".lstrip("/")) or b"")
        except MalformedConfig:
            return ()
