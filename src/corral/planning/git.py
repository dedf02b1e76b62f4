"""What git would run or trust: read from its own files, as text, without running git."""

from __future__ import annotations

import posixpath

from corral.git_formats.config import MalformedConfig, read_config
from corral.git_formats.keys import harmless_remotes, names_program_or_path
from corral.git_formats.pointer import read_path, read_pointer
from corral.model.errors import PolicyError
from corral.model.record import Record
from corral.planning.resolve import is_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from corral.git_formats.config import ConfigEntry
    from corral.model.backend import Host
    from corral.planning.resolve import Resolver

    Settings = tuple[tuple[ConfigEntry, str], ...]  # with what `names_program_or_path` says of each
    #: Configurations that were read, by their paths. One plan reads each of them once.
    Known = dict[str, Settings]

_MOST_BYTES = 1 << 20
_MOST_PATH_BYTES = 8192  # of a file that names one
_MOST_INCLUDES = 64
_TEMPLATES = "init.templatedir"  # of new repositories, with their hooks
#: What ends a word of a shell line.
_BETWEEN_WORDS = str.maketrans(dict.fromkeys("\n\t;&|()<>{}$`'\"=,", " "))


def _settings(host: Host, file: str, known: Known | None) -> Settings:
    """Every setting of a git configuration and what it leads to; none if there is no such file."""
    if known is None:
        return _read_settings(host, file)
    if file not in known:
        known[file] = _read_settings(host, file)
    return known[file]


def _read_settings(host: Host, file: str) -> Settings:
    entries = _entries(host, file)
    remotes = harmless_remotes(entries)
    return tuple((entry, names_program_or_path(entry, remotes)) for entry in entries)


def _entries(host: Host, file: str) -> tuple[ConfigEntry, ...]:
    """As git reads them."""
    data = host.read_text(file, _MOST_BYTES).encode("utf-8", "surrogateescape")
    if len(data) >= _MOST_BYTES:
        raise _unreadable(file, "it is larger than 1 MiB")
    try:
        return read_config(data)
    except MalformedConfig as problem:
        raise _unreadable(file, f"git says the same: {problem}") from problem


def _unreadable(file: str, why: str) -> PolicyError:
    return PolicyError(
        "git-config",
        f"{file} cannot be read, so what it has git run cannot be protected",
        why=why,
        fix="correct the file (`git config --list` says where it is wrong), or waive fs.protect",
    )


class NamedPaths(Record):
    """What a repository's configuration leads to."""

    trees: tuple[str, ...]  # hook directories and included files, whether or not they are there
    programs: tuple[str, ...]  # words that may be programs: filters, monitors, aliases, drivers


def named_paths(host: Host, worktree: str, git_directory: str, known: Known | None = None) -> NamedPaths:
    """Everything that git would read or run because the configuration, or one it includes, says so."""
    trees: list[str] = []
    programs: list[str] = []
    pending = [posixpath.join(git_directory, "config"), posixpath.join(git_directory, "config.worktree")]
    for file in pending:  # grows while it is gone through
        for entry, kind in _settings(host, file, known):
            for value in filter(None, dict.fromkeys((entry.value, entry.older_value))):
                if kind == "hooks":
                    trees += _hook_places(worktree, git_directory, _expand(host, file, value))
                elif kind == "include":
                    trees.append(_include(host, pending, file, value))
                elif kind == "program":
                    programs += _possible_programs(host, file, worktree, value)
    return NamedPaths(tuple(dict.fromkeys(map(posixpath.normpath, trees))), tuple(dict.fromkeys(programs)))


def _hook_places(worktree: str, git_directory: str, value: str) -> tuple[str, ...]:
    """Where git looks for hooks: from the top of the worktree; in its own directory where it receives."""
    usual = posixpath.join(worktree, value)
    if not value.strip("./"):
        return (usual,)  # a directory above: to hold all of it would leave nothing to work in
    return (usual, posixpath.join(git_directory, value))


def _include(host: Host, pending: list[str], file: str, value: str) -> str:
    """Read an included file as well; what a condition says is taken for true."""
    included = posixpath.normpath(posixpath.join(posixpath.dirname(file), _expand(host, file, value)))
    if included not in pending:
        if len(pending) >= _MOST_INCLUDES:
            raise _unreadable(file, f"more than {_MOST_INCLUDES} files are included")
        pending.append(included)
    return included


def _possible_programs(host: Host, file: str, worktree: str, value: str) -> Iterator[str]:
    """The words of a value that may be paths. The whole of it may be one, with blanks in it."""
    for word in dict.fromkeys((value, *value.removeprefix("!").translate(_BETWEEN_WORDS).split())):
        if "/" in word and "://" not in word and "\0" not in word:
            yield posixpath.normpath(posixpath.join(worktree, _expand(host, file, word)))


def git_directories(host: Host, worktree: str) -> tuple[str, ...]:
    """Where git looks for the configuration of a worktree: its own directory, and where a `.git` file leads.

    Nothing is granted by this, so a pointer need not be believed: what it names is protected, no more.
    """
    own = posixpath.join(worktree, ".git")
    named = read_pointer(_read(host, own))
    if not named:
        return (own,)
    private = posixpath.normpath(posixpath.join(worktree, named))
    common = read_path(_read(host, posixpath.join(private, "commondir")))
    return (own, private, *([posixpath.normpath(posixpath.join(private, common))] if common else []))


def _read(host: Host, path: str) -> bytes:
    return host.read_text(path, _MOST_PATH_BYTES).encode("utf-8", "surrogateescape")


def enclosing_worktree(resolver: Resolver, directory: str) -> str:
    """The worktree that a directory lies in, if its top is further up; empty if there is none."""
    while directory != "/":
        directory = posixpath.dirname(directory)
        if resolver.look(posixpath.join(directory, ".git")) is not None:
            return directory
    return ""


def hook_paths(host: Host, worktree: str, git_directory: str, known: Known | None = None) -> tuple[str, ...]:
    """Hook directories that the caller's own configuration names, relative to a worktree or its directory."""
    values = (
        _expand(host, file, value)
        for file, entry, _ in _caller_config(host, known)
        for value in filter(None, dict.fromkeys((entry.value, entry.older_value)))
        if entry.name == "core.hookspath"
    )
    places = (place for value in values for place in _hook_places(worktree, git_directory, value))
    return tuple(dict.fromkeys(map(posixpath.normpath, places)))


def relative_hook_paths(host: Host, worktrees: Iterable[str], known: Known | None = None) -> tuple[str, ...]:
    """Hook directories that are in every worktree, also in one that a command makes.

    The caller's configuration names them, or that of a repository, whose worktrees have it in common. Where a
    name is relative to the git directory, it is below `.git` here; in other git directories it is the rest.
    """
    marked = "/any worktree"
    named = [*hook_paths(host, marked, f"{marked}/.git", known)]
    for worktree in worktrees:
        for directory in git_directories(host, worktree):
            for top in (marked, f"{marked}/.git"):
                named += named_paths(host, top, directory, known).trees
    inside = (path for path in named if path.startswith(f"{marked}/"))
    return tuple(dict.fromkeys(path[len(marked) + 1 :] for path in inside))


def caller_files(host: Host, known: Known | None = None) -> list[str]:
    """The caller's own configuration and what it includes, whether or not these are there."""
    env = host.environment()
    xdg = env.get("XDG_CONFIG_HOME", "")
    config = xdg if xdg.startswith("/") else posixpath.join(host.home, ".config")
    usual = (posixpath.join(config, "git", "config"), posixpath.join(host.home, ".gitconfig"))
    named = env.get("GIT_CONFIG_GLOBAL", "")
    pending = [*usual, *([named] if named.startswith("/") else [])]
    for path in pending:  # grows while it is gone through
        for entry, kind in _settings(host, path, known):
            if kind == "include" and entry.value:
                _include(host, pending, path, entry.value)
    return pending


def _caller_config(host: Host, known: Known | None = None) -> Iterator[tuple[str, ConfigEntry, str]]:
    known = {} if known is None else known
    for path in caller_files(host, known):
        for entry, kind in _settings(host, path, known):
            yield path, entry, kind


def caller_paths(host: Host, worktrees: Iterable[str], known: Known | None = None) -> NamedPaths:
    """What git reads or runs in these worktrees because the caller's own configuration says so, hooks apart.

    These files may lie in one of them: who keeps such files in a repository works there.
    """
    trees, programs = caller_files(host, known), list[str]()
    tops = tuple(worktrees)
    for file, entry, kind in _caller_config(host, known):
        value = entry.value or ""
        if entry.name == _TEMPLATES:
            trees += filter(posixpath.isabs, (_expand(host, file, value),))
        elif kind == "program":
            for worktree in tops:
                programs += _possible_programs(host, file, worktree, value)
    return NamedPaths(tuple(dict.fromkeys(map(posixpath.normpath, trees))), tuple(dict.fromkeys(programs)))


def linked_repository(host: Host, resolver: Resolver, worktree: str) -> str:
    """The common directory of the repository that a linked worktree belongs to; empty if it is none.

    TRUST: the `.git` file lies in the workspace, where anyone may have written it. It is believed only if
    it leads, without a link and out of the workspace, to a directory that points back at this very file:
    a forger inside cannot write that pointer.
    """
    pointer = posixpath.join(worktree, ".git")
    named = read_pointer(_read(host, pointer))
    if not named:
        return ""
    private = posixpath.normpath(posixpath.join(worktree, named))
    if is_beneath(private, worktree) or resolver.resolve(private).path != private:
        return ""
    back = read_path(_read(host, posixpath.join(private, "gitdir")))
    common = read_path(_read(host, posixpath.join(private, "commondir")))
    if not common or posixpath.normpath(posixpath.join(private, back)) != pointer:
        return ""
    shared = posixpath.normpath(posixpath.join(private, common))
    # A directory that merely holds `worktrees` is not a repository, whatever the files in there say.
    marks = (f"{shared}/HEAD", f"{shared}/objects", f"{shared}/refs", f"{private}/HEAD")
    is_whole = (
        shared.endswith(".git")
        and posixpath.dirname(private) == f"{shared}/worktrees"
        and resolver.resolve(shared).path == shared
        and all(resolver.look(mark) is not None for mark in marks)
    )
    return shared if is_whole and not is_beneath(shared, worktree) else ""


def identity(host: Host, is_denied: Callable[[str], bool] = lambda _file: False) -> str:
    """A git configuration with the caller's name and address and nothing else; empty if unknown.

    Of files that are denied, nothing is in it.
    """
    known: dict[str, str] = {}
    for file, entry, _ in _caller_config(host):
        if is_denied(file):
            continue
        if entry.name in {"user.name", "user.email", "init.defaultbranch"} and entry.value:
            known[entry.name] = entry.value
    lines = []
    for key, value in sorted(known.items()):
        section, _, name = key.partition(".")
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'[{section}]\n\t{name} = "{quoted}"\n')
    return "".join(lines)


def _expand(host: Host, file: str, value: str) -> str:
    """A path as git takes it. The home of somebody else is nothing that the host is asked for."""
    if value == "~" or value.startswith("~/"):
        return posixpath.join(host.home, value[2:])
    if value.startswith("~") and "/" in value:
        raise _unreadable(file, f"{value!r} is in another user's home; write out its path")
    return value
