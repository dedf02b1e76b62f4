"""What git would run or trust: read from its own files, as text, without running git."""

from __future__ import annotations

import posixpath

from corral.model.record import Record
from corral.planning.resolve import is_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.backend import Host
    from corral.planning.resolve import Resolver

_LIMIT = 65_536
_MAX_INCLUDES = 16
_MAX_WORDS = 8
#: Sections whose values are names and addresses, never programs.
_NO_PROGRAMS = frozenset({"remote", "url", "branch", "submodule", "user", "http", "https"})


def parse_config(text: str) -> Iterator[tuple[str, str]]:
    """Yield (section.key, value) of a git configuration, keys lower-cased; what is odd is passed over."""
    section = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("["):
            words = line[1:].partition("]")[0].split()
            section = words[0].lower() if words else ""
            line = line.partition("]")[2].strip()
        name, equals, value = line.partition("=")
        if equals and section and not line.startswith(("#", ";")):
            yield f"{section}.{name.strip().lower()}", _value(value)


def _value(text: str) -> str:
    """A value as git reads it: quotes taken off, escapes undone, a comment at its end left out."""
    kept, quoted, characters = [], False, iter(text.strip())
    for character in characters:
        if character == "\\":
            kept.append(next(characters, ""))
        elif character == '"':
            quoted = not quoted
        elif character in "#;" and not quoted:
            break
        else:
            kept.append(character)
    return "".join(kept).strip()


class NamedPaths(Record):
    """What a repository's configuration leads to."""

    trees: tuple[str, ...]  # hook directories and included files, whether or not they are there
    programs: tuple[str, ...]  # words that may be programs: filters, monitors, aliases, drivers


def named_paths(host: Host, worktree: str, git_directory: str) -> NamedPaths:
    """Everything that git would read or run because the configuration, or one it includes, says so."""
    trees: list[str] = []
    programs: list[str] = []
    pending = [posixpath.join(git_directory, "config"), posixpath.join(git_directory, "config.worktree")]
    for file in pending:  # grows while it is gone through
        for key, value in parse_config(host.read_text(file, _LIMIT)):
            section = key.partition(".")[0]
            if key == "core.hookspath":
                trees.append(posixpath.join(worktree, _expand(host, value)))
            elif key in {"include.path", "includeif.path"}:
                included = posixpath.normpath(posixpath.join(posixpath.dirname(file), _expand(host, value)))
                trees.append(included)
                if included not in pending and len(pending) < _MAX_INCLUDES:
                    pending.append(included)
            elif section not in _NO_PROGRAMS:
                programs += _possible_programs(host, worktree, value)
    return NamedPaths(tuple(map(posixpath.normpath, trees)), tuple(programs))


def _possible_programs(host: Host, worktree: str, value: str) -> Iterator[str]:
    for word in value.removeprefix("!").split()[:_MAX_WORDS]:
        plain = word.strip("'\"")
        if "/" in plain and "://" not in plain:
            yield posixpath.normpath(posixpath.join(worktree, _expand(host, plain)))


def git_directories(host: Host, worktree: str) -> tuple[str, ...]:
    """Where git looks for the configuration of a worktree: its own directory, and where a `.git` file leads.

    Nothing is granted by this, so a pointer need not be believed: what it names is protected, no more.
    """
    own = posixpath.join(worktree, ".git")
    first, _, named = host.read_text(own, 4096).strip().partition(":")
    if first != "gitdir" or not named.strip():
        return (own,)
    private = posixpath.normpath(posixpath.join(worktree, named.strip()))
    common = host.read_text(posixpath.join(private, "commondir"), 4096).strip()
    return (own, private, *([posixpath.normpath(posixpath.join(private, common))] if common else []))


def enclosing_worktree(resolver: Resolver, directory: str) -> str:
    """The worktree that a directory lies in, if its top is further up; empty if there is none."""
    while directory != "/":
        directory = posixpath.dirname(directory)
        if resolver.look(posixpath.join(directory, ".git")) is not None:
            return directory
    return ""


def hook_paths(host: Host, worktree: str) -> tuple[str, ...]:
    """Hook directories that the caller's own configuration names, relative to a worktree."""
    return tuple(
        posixpath.normpath(posixpath.join(worktree, _expand(host, value)))
        for key, value in _caller_config(host)
        if key == "core.hookspath" and value
    )


def _caller_config(host: Host) -> Iterator[tuple[str, str]]:
    env = host.environment()
    xdg = env.get("XDG_CONFIG_HOME", "")
    config = xdg if xdg.startswith("/") else posixpath.join(host.home, ".config")
    usual = (posixpath.join(config, "git", "config"), posixpath.join(host.home, ".gitconfig"))
    named = env.get("GIT_CONFIG_GLOBAL", "")
    for path in (*usual, *([named] if named.startswith("/") else [])):
        yield from parse_config(host.read_text(path, _LIMIT))


def linked_repository(host: Host, resolver: Resolver, worktree: str) -> str:
    """The common directory of the repository that a linked worktree belongs to; empty if it is none.

    TRUST: the `.git` file lies in the workspace, where anyone may have written it. It is believed only if
    it leads, without a link and out of the workspace, to a directory that points back at this very file:
    a forger inside cannot write that pointer.
    """
    pointer = posixpath.join(worktree, ".git")
    first, _, named = host.read_text(pointer, 4096).strip().partition(":")
    if first != "gitdir" or not named.strip():
        return ""
    private = posixpath.normpath(posixpath.join(worktree, named.strip()))
    if is_beneath(private, worktree) or resolver.resolve(private).path != private:
        return ""
    back = host.read_text(posixpath.join(private, "gitdir"), 4096).strip()
    common = host.read_text(posixpath.join(private, "commondir"), 4096).strip()
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


def identity(host: Host) -> str:
    """A git configuration with the caller's name and address and nothing else; empty if unknown."""
    known: dict[str, str] = {}
    for key, value in _caller_config(host):
        if key in {"user.name", "user.email", "init.defaultbranch"} and value:
            known[key] = value
    lines = []
    for key, value in sorted(known.items()):
        section, _, name = key.partition(".")
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'[{section}]\n\t{name} = "{quoted}"\n')
    return "".join(lines)


def _expand(host: Host, value: str) -> str:
    return posixpath.join(host.home, value[2:]) if value.startswith("~/") else value
