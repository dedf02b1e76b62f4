"""Protect what the host may run later: find it inside the writable paths, whether or not it exists yet."""

from __future__ import annotations

import posixpath

from corral.git_formats.search import find_worktrees
from corral.model.errors import PolicyError
from corral.model.plan import PathKind, Search, Shield, WatchedName
from corral.model.policy import FsAccess
from corral.model.rules.pattern import is_pattern, literal
from corral.planning.git import caller_paths, enclosing_worktree, git_directories, hook_paths, named_paths
from corral.planning.patterns import PatternScope, find_matches, is_within, protecting_globs, read_patterns
from corral.planning.resolve import is_beneath, resolved_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from corral.model.backend import Host
    from corral.model.plan import ResolvedPath, ResolvedPolicy
    from corral.model.policy import Policy
    from corral.planning.git import Known
    from corral.planning.patterns import Match
    from corral.planning.resolve import Resolver

GIT = ".git/"
#: Files by which other worktrees find the repository; git itself writes them once.
_WORKTREE_FILES = ("commondir", "gitdir", "config.worktree")


class Protection:
    """Collects shields (something is there), watches (nothing is there yet, or only a link) and pins."""

    def __init__(self, resolver: Resolver, roots: tuple[str, ...], known: Known | None = None) -> None:
        self._resolver = resolver
        self._roots = roots
        self.known: Known = {} if known is None else known  # git configurations that were read
        self.shields: dict[str, Shield] = {}
        self.watches: dict[tuple[str, str], WatchedName] = {}
        self.pins: dict[str, ResolvedPath] = {}
        self.protected: set[str] = set()  # all that was asked for, and what it leads to
        self.closed: dict[str, None] = {}  # directories that nobody can look into: held as a whole
        self.unchanging: set[str] = set()  # shields that somebody asked for who did not mean git's settings

    def add(self, path: str, label: str, *, may_have_copy: bool = False) -> None:
        """Protect a path, every link that leads to it, and what it leads to, where they are writable.

        `may_have_copy`: it is held for git's sake alone, so harmless settings may find their way into it.
        """
        held = self._hold(path, label)
        if held and not may_have_copy:
            self.unchanging.add(held)

    def _hold(self, path: str, label: str) -> str:
        """The path of the shield that came of it, or nothing."""
        self.protected.add(path)
        root = self._root_of(path)
        if root and root != path:
            held = self._cover(root, path, label)
            if held is not None:
                return held
        target, links = self._resolver.follow(path)
        self.protected.add(target.path)
        for link in links:
            self.hold_link(link, label)
        root = self._root_of(target.path)
        return (self._cover(root, target.path, label) or "") if root and root != target.path else ""

    def _root_of(self, path: str) -> str:
        return max((root for root in self._roots if is_beneath(path, root)), key=len, default="")

    def hold_link(self, link: str, label: str) -> None:
        """Keep a link as it is, if it lies in a writable path."""
        root = self._root_of(link)
        if root:
            parent, name = posixpath.split(link)
            self._pin(root, parent)
            self._watch(parent, name, label, self._resolver.resolve_link(link))

    def _cover(self, root: str, path: str, label: str) -> str | None:
        """Shield what is there; watch the first missing name on the way. None if a link is on the way.

        Else the path of the shield, or nothing.
        """
        here = root
        for part in path[len(root) + 1 :].split("/"):
            parent, here = here, f"{here}/{part}"
            stat = self._resolver.look(here)
            if self._resolver.is_unknown(here):
                raise _closed(parent)  # to take it for missing would mean to take it away
            if stat is None:
                self._pin(root, parent)
                self._watch(parent, part, label if here == path else here[len(root) + 1 :])
                return ""
            if stat.is_link:
                return None
            if not stat.is_directory:
                break  # a file where a directory was expected (`.git` of a worktree) is held itself
        self._pin(root, posixpath.dirname(here))
        stat = self._resolver.look(here)
        if stat is not None and not stat.is_directory and stat.names > 1:
            raise _second_name(here)
        self.shields[here] = Shield(resolved_path(here, here, stat))
        return here

    def hold_closed(self, path: str) -> None:
        """Keep a directory that cannot be looked into as it is, whatever lies inside: a shield covers it all.

        Its mode, too: who could open it would find what is protected inside.
        """
        root = self._root_of(path)
        if root and root != path:
            self._pin(root, posixpath.dirname(path))
            self.shields[path] = Shield(resolved_path(path, path, self._resolver.look(path)))
            self.closed[path] = None

    def _pin(self, root: str, directory: str) -> None:
        """Hold every directory from here up to the root in its place."""
        while directory != root:
            self.pins[directory] = resolved_path(directory, directory, self._resolver.look(directory))
            directory = posixpath.dirname(directory)

    def add_file(self, path: str, label: str) -> None:
        """Protect a path only if it is a file: a word that merely looks like one is nothing to hold."""
        if self._resolver.resolve(path).kind is PathKind.FILE:
            self.add(path, label)

    def _watch(self, directory: str, name: str, label: str, link_text: str = "") -> None:
        stat = self._resolver.look(directory)
        if stat is not None and stat.is_directory:
            root = min((root for root in self._roots if is_beneath(directory, root)), key=len)
            made = f"{directory}/{name}/" == f"{root}/{GIT}" and not link_text
            watch = WatchedName(
                root, directory, stat.device, stat.inode, name, label, link_text, is_repository=made
            )
            self.watches.setdefault((directory, name), watch)


def _closed(path: str) -> PolicyError:
    return PolicyError(
        "closed-directory",
        f"{path} cannot be protected",
        why="its mode keeps even its owner from looking inside, where there may be a repository",
        fix=f"open it (`chmod u+rx {path}`), or waive fs.protect",
    )


def _second_name(path: str) -> PolicyError:
    return PolicyError(
        "hard-linked",
        f"{path} cannot be protected",
        why="it has a second name (a hard link), by which it could still be changed",
        fix=f"make it a separate copy (`cp -p {path} x && mv x {path}`), or waive fs.protect",
    )


def writable_roots(resolved: ResolvedPolicy) -> list[str]:
    """The directories that are granted for writing."""
    return [
        grant.target.path
        for grant in resolved.grants
        if grant.access is FsAccess.WRITE and grant.target.kind is PathKind.DIRECTORY
    ]


def narrowed_roots(resolved: ResolvedPolicy) -> dict[str, tuple[str, ...]]:
    """Writable grants that were narrowed -> what they were narrowed from."""
    return {
        grant.target.path: grant.within
        for grant in resolved.grants
        if grant.access is FsAccess.WRITE and grant.within
    }


def protect(
    host: Host,
    resolver: Resolver,
    roots: Iterable[str],
    names: Iterable[str],
    nested: Iterable[str],
    *,
    closed: Iterable[str] = (),
    narrowed: Mapping[str, tuple[str, ...]] = {},
    known: Known | None = None,
) -> Protection:
    """Find every protected path of the writable roots. `nested` are repositories inside them, `closed` are
    directories in which some may lie.

    What was protected in a wider grant stays protected in what a narrower policy leaves of it.
    """
    writable = tuple(roots)
    protection = Protection(resolver, writable, known)
    for path in closed:
        protection.hold_closed(path)
    ordered = [literal(name) for name in sorted(names) if not is_pattern(name)]
    within_git = [name.removeprefix(GIT) for name in ordered if name.startswith(GIT)]
    tops = dict.fromkeys((*writable, *(top for tops in narrowed.values() for top in tops)))
    for root in tops:
        for name in ordered:
            path = f"{root}/{name}"
            if path not in writable or path in narrowed:  # else somebody wrote down that this very path is
                protection.add(path, name, may_have_copy=name == f"{GIT}config")
        if within_git:
            _protect_bare(host, resolver, protection, root, within_git)
    for name in ordered:  # the caller's own such files may be links into a workspace
        own = posixpath.join(host.home, name)
        if not name.startswith(GIT) and resolver.resolve(own).path not in {own, *tops}:
            protection.add(own, f"{name} of your home")
    for path in host.corral_files():
        protection.add(path, "corral's own files")
    if within_git:
        _protect_callers(host, protection, (*tops, *nested))
        for worktree in (*tops, *nested):
            _protect_repository(host, protection, worktree, posixpath.join(worktree, ".git"), within_git)
        _protect_worktrees(host, resolver, protection, (*tops, *nested), within_git)
    return protection


def check_narrowed(narrowed: Iterable[str], protection: Protection) -> None:
    """Raise PolicyError for a grant that a narrowed policy makes of a path which the wider one protects."""
    for root in narrowed:
        for path in protection.protected:
            if is_beneath(root, path):
                raise PolicyError(
                    "grant-protected",
                    f"{root} cannot be granted for writing",
                    why=f"a wider policy protects {path}, and a narrower one cannot undo that",
                    fix="leave the rule out, or grant it in every policy that is combined",
                )


def hold_links(resolved: ResolvedPolicy, resolver: Resolver, roots: Iterable[str]) -> Protection:
    """Hold the links in writable paths that lead to a stricter one: else the next run would hold another."""
    held = Protection(resolver, tuple(roots))
    read = (grant.target for grant in resolved.grants if grant.access is FsAccess.READ)
    for target in (*resolved.denied, *read):
        if target.requested == target.path:
            continue  # no link led there; should one be there by now, the launcher finds another object
        for link in resolver.follow(target.requested)[1]:
            held.hold_link(link, target.requested)
    for link in resolved.denied_links:
        stat = resolver.look(link)
        if stat is not None and stat.is_link:
            held.hold_link(link, link)
    return held


def protect_matches(
    host: Host, policy: Policy, resolved: ResolvedPolicy, protection: Protection, resolver: Resolver
) -> tuple[Search, ...]:
    """Protect what fulfils a pattern in the writable paths; returns where it has to be looked for later."""
    if not any(map(is_pattern, policy.protect)) and not read_patterns(policy):
        return ()
    roots = writable_roots(resolved)
    scope = PatternScope(resolved.workspace, resolved.home, (), frozenset(), tuple(roots))
    searches = []
    hidden = {target.path for target in resolved.denied}
    granted = {grant.target.path: grant for grant in resolved.grants}
    tops = _pattern_tops(resolved)
    for root in roots:
        grant = granted[root]
        around = [top for top in tops if is_within(root, top)]
        globs, above = protecting_globs(policy, root, around, scope, resolver)
        protection.protected.update(above)
        if not globs:
            continue
        closed = frozenset(path for path in (*granted, *resolved.private, *hidden) if is_within(path, root))
        matches = find_matches(host, root, globs, closed)
        for match in matches:
            if match.path not in closed:
                protection.add(match.path, match.texts[0])
        known = frozenset(match.path for match in matches)
        target = grant.target
        searches.append(Search(root, target.device, target.inode, globs, known | closed, closed))
    for top in (top for top in tops if top not in roots):
        globs, _ = protecting_globs(
            policy, top, [each for each in tops if is_within(top, each)], scope, resolver
        )
        if roots and globs:
            _protect_targets(
                find_matches(host, top, globs, {*tops, *roots, *hidden}), roots, protection, resolver
            )
    return tuple(searches)


def _pattern_tops(resolved: ResolvedPolicy) -> tuple[str, ...]:
    """Where patterns begin: what is granted by name, and what grants were narrowed from."""
    named = [
        grant.target.path
        for grant in resolved.grants
        if grant.target.kind is PathKind.DIRECTORY and not grant.is_system
    ]
    return tuple(dict.fromkeys((*named, *(top for grant in resolved.grants for top in grant.within))))


def _protect_targets(
    matches: Iterable[Match], roots: Iterable[str], protection: Protection, resolver: Resolver
) -> None:
    """Protect what links outside of writable paths lead to in them. Raises PolicyError for a whole one."""
    for match in matches:
        if match.is_link:
            real = resolver.resolve(match.path).path
            held = next((root for root in roots if is_beneath(root, real)), "")
            if held:
                raise PolicyError(
                    "grant-protected",
                    f"{held} cannot be granted for writing",
                    why=f"the link {match.path} leads there, and {match.texts[0]} makes it read-only",
                    fix="leave the grant out, or the pattern",
                )
            protection.add(match.path, match.texts[0])


def _protect_bare(
    host: Host, resolver: Resolver, protection: Protection, root: str, names: list[str]
) -> None:
    """A root that is itself a git directory, or that could be made to look like one."""
    for name in ("HEAD", "objects"):
        if resolver.look(posixpath.join(root, name)) is None:
            label = f"{name} (it would make a repository of the directory)"
            protection.add(posixpath.join(root, name), label)
            return
    _protect_repository(host, protection, root, root, names)


def _protect_repository(
    host: Host, protection: Protection, worktree: str, git_directory: str, names: list[str]
) -> None:
    for name in names:
        protection.add(posixpath.join(git_directory, name), f"{GIT}{name}", may_have_copy=name == "config")
    registered = posixpath.join(git_directory, "worktrees")
    for entry in host.subdirectories(registered):
        for name in _WORKTREE_FILES:
            protection.add(posixpath.join(registered, entry, name), f"{GIT}worktrees/{entry}/{name}")
    _protect_named(host, protection, worktree, git_directory)


def _protect_named(host: Host, protection: Protection, worktree: str, git_directory: str) -> None:
    """What the configuration of a git directory has git read or run in a worktree."""
    label = "(named in a git configuration)"
    named = named_paths(host, worktree, git_directory, protection.known)
    hooks = posixpath.join(git_directory, "hooks")
    for path in (*named.trees, *hook_paths(host, worktree, git_directory, protection.known)):
        protection.add(path, f"{posixpath.basename(path)} {label}")
    for path in named.programs:
        protection.add_file(path, f"{posixpath.basename(path)} {label}")
    for directory in (hooks, *named.trees):
        for name in host.links(directory):  # a hook may be a link to a file of the worktree
            protection.add(posixpath.join(directory, name), f"{name} (a hook)")


def _protect_callers(host: Host, protection: Protection, worktrees: Iterable[str]) -> None:
    """The caller's own git configuration, and what it leads to."""
    named = caller_paths(host, worktrees, protection.known)
    for path in named.trees:
        protection.add(path, f"{posixpath.basename(path)} (your git configuration)")
    for path in named.programs:
        protection.add_file(path, f"{posixpath.basename(path)} (named in your git configuration)")


def _protect_worktrees(
    host: Host, resolver: Resolver, protection: Protection, worktrees: Iterable[str], names: list[str]
) -> None:
    """Worktrees whose configuration lies elsewhere, and those that a writable path lies in."""
    enclosing: dict[str, None] = {}  # many repositories lie in one
    for worktree in worktrees:
        elsewhere = git_directories(host, worktree)[1:]
        for directory in elsewhere[
            :-1
        ]:  # what a linked worktree has for itself: hooks are not looked for there
            _protect_named(host, protection, worktree, directory)
        for directory in elsewhere[-1:]:
            _protect_repository(host, protection, worktree, directory, names)
        if worktree.endswith("/.git"):  # the repository of a linked worktree, which has a worktree of its own
            _protect_named(host, protection, posixpath.dirname(worktree), worktree)
        enclosing[enclosing_worktree(resolver, worktree)] = None
    for around in filter(None, enclosing):
        for directory in git_directories(host, around):
            _protect_named(host, protection, around, directory)


def find_repositories(
    host: Host,
    resolver: Resolver,
    root: str,
    give_up: Callable[[str], None],
    leave_closed: Callable[[str], None],
) -> tuple[str, ...]:
    """Directories below a root that hold a git repository of their own; see `find_worktrees`."""

    def has_git(path: str) -> bool:
        stat = resolver.look(path)
        if stat is not None and stat.is_closed:
            leave_closed(path)
            return False
        return resolver.look(posixpath.join(path, ".git")) is not None

    top = resolver.look(root)
    if top is not None and top.is_closed:
        raise _closed(root)
    return tuple(find_worktrees(root, host.subdirectories, has_git, give_up))
