"""Protect what the host may run later: find it inside the writable paths, whether or not it exists yet."""

from __future__ import annotations

import posixpath

from corral.model.plan import Shield, Watch
from corral.planning.git import redirected_paths
from corral.planning.resolve import is_beneath, resolved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from corral.model.backend import Host
    from corral.model.plan import ResolvedPath
    from corral.planning.resolve import Resolver

_MAX_DEPTH = 3
_MAX_DIRECTORIES = 256
_NEVER_ENTERED = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", "target", "dist"})


class Protection:
    """Collects shields (something is there) and watches (nothing is there yet, or only a link)."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self.shields: dict[str, Shield] = {}
        self.watches: dict[tuple[str, str], Watch] = {}

    def add(self, root: str, path: str, label: str) -> None:
        """Protect one path inside a writable root. No link below the root is followed: it is held itself."""
        pins: list[ResolvedPath] = []
        here = root
        for part in posixpath.relpath(path, root).split("/"):
            parent, here = here, posixpath.join(here, part)
            stat = self._resolver.look(here)
            if stat is None or stat.is_link:
                text = self._resolver.resolve_link(here) if stat is not None else ""
                self._watch(parent, part, label, text)
                return
            pins.append(resolved(here, here, stat))
        target = pins.pop()
        self.shields[target.path] = Shield(target, tuple(pins))

    def _watch(self, directory: str, name: str, label: str, link_text: str) -> None:
        stat = self._resolver.look(directory)
        if stat is not None and stat.is_directory:
            watch = Watch(directory, stat.device, stat.inode, name, label, link_text)
            self.watches.setdefault((directory, name), watch)


def protect(
    host: Host, resolver: Resolver, roots: Iterable[str], names: Iterable[str], nested: Iterable[str]
) -> Protection:
    """Find every protected path of the writable roots. `nested` are repositories inside them."""
    protection = Protection(resolver)
    writable = tuple(roots)
    ordered = sorted(names)
    for root in writable:
        for name in ordered:
            protection.add(root, posixpath.join(root, name), name)
        for path in host.corral_files():
            if is_beneath(path, root):
                protection.add(root, path, "corral's own files")
    repositories = [(root, root) for root in writable] + list(_with_root(nested, writable))
    for root, worktree in repositories:
        _protect_repository(host, protection, root, worktree, ordered)
    return protection


def _protect_repository(
    host: Host, protection: Protection, root: str, worktree: str, names: list[str]
) -> None:
    git_directory = posixpath.join(worktree, ".git")
    if worktree != root:
        for name in names:
            if name.startswith(".git/"):
                protection.add(root, posixpath.join(worktree, name), name)
    for path in redirected_paths(host, worktree, git_directory):
        if is_beneath(path, root) and path != root:
            protection.add(root, path, f"{posixpath.basename(path)} (named in .git/config)")


def _with_root(nested: Iterable[str], roots: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for repository in nested:
        for root in roots:
            if is_beneath(repository, root):
                yield root, repository


def find_repositories(host: Host, resolver: Resolver, root: str) -> tuple[str, ...]:
    """Directories below a root that hold a git repository of their own; the search is bounded."""
    found, queue, looked = [], [(root, 0)], 0
    while queue and looked < _MAX_DIRECTORIES:
        directory, level = queue.pop(0)
        looked += 1
        for name in host.subdirectories(directory):
            path = posixpath.join(directory, name)
            if name in _NEVER_ENTERED:
                continue
            if resolver.look(posixpath.join(path, ".git")) is not None:
                found.append(path)
            if level + 1 < _MAX_DEPTH:
                queue.append((path, level + 1))
    return tuple(found)
