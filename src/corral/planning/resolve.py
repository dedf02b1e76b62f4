"""Resolve a path: find out what it really is on this host, link by link."""

from __future__ import annotations

import posixpath

from corral.model.errors import PolicyError
from corral.model.plan import Link, PathKind, ResolvedPath
from corral.model.rules.pattern import literal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.backend import Host
    from corral.model.probe import Stat

_MAX_LINKS = 40  # as the kernel: path_resolution(7)


class Resolver:
    """Looks at each path once, so that one plan sees one state of the host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._seen: dict[str, Stat | None] = {}
        self._followed: dict[str, tuple[ResolvedPath, tuple[str, ...]]] = {}
        self._unknown: set[str] = set()
        self.links: dict[str, Link] = {}

    def resolve(self, requested: str) -> ResolvedPath:
        """Return what is at an absolute path; the links on the way are kept in `links`."""
        return self.follow(requested)[0]

    def follow(self, requested: str) -> tuple[ResolvedPath, tuple[str, ...]]:
        """Return what is at an absolute path, and the links that led there."""
        known = self._followed.get(requested)
        if known is None:
            known = self._followed[requested] = self._walk(requested)
        return known

    def _walk(self, requested: str) -> tuple[ResolvedPath, tuple[str, ...]]:
        real, pending = "/", _parts(requested)
        followed: list[str] = []
        stat = self.look("/")
        while pending:
            part = pending.pop(0)
            if part == "..":
                real = posixpath.dirname(real)
                stat = self.look(real)
                continue
            real = f"{real}/{part}" if real != "/" else f"/{part}"
            stat = self.look(real)
            if stat is None and ".." not in pending:
                missing = posixpath.join(real, *pending)
                return ResolvedPath(missing, requested, PathKind.MISSING, 0, 0), tuple(followed)
            if stat is not None and stat.is_link:
                followed.append(real)
                if len(followed) > _MAX_LINKS:  # the kernel gives up as well: nothing can be reached there
                    return ResolvedPath(real, requested, PathKind.MISSING), tuple(followed)
                text = self._follow(real)
                pending = _parts(text) + pending
                real = "/" if text.startswith("/") else posixpath.dirname(real)
                stat = self.look(real)
        return resolved_path(real, requested, stat), tuple(followed)

    def look(self, path: str) -> Stat | None:
        """The status of a path itself, remembered; None for what is not there or cannot be seen."""
        seen = self._seen
        if path in seen:
            return seen[path]
        stat = self._host.lstat(path)
        if stat is not None and stat.is_unknown:
            self._unknown.add(path)
            stat = None
        seen[path] = stat
        return stat

    def is_unknown(self, path: str) -> bool:
        """Whether a path that was looked at may be there all the same."""
        return path in self._unknown

    def resolve_link(self, path: str) -> str:
        """The text of a link, without going there."""
        return self._host.readlink(path)

    def _follow(self, path: str) -> str:
        if path not in self.links:
            self.links[path] = Link(path, self._host.readlink(path))
        return self.links[path].text


def resolved_path(path: str, requested: str, stat: Stat | None) -> ResolvedPath:
    """A resolved path from the status that was seen there."""
    if stat is None:
        return ResolvedPath(path, requested, PathKind.MISSING, 0, 0)
    kind = PathKind.DIRECTORY if stat.is_directory else PathKind.FILE
    return ResolvedPath(path, requested, kind, stat.device, stat.inode)


def expand(text: str, workspace: str, home: str) -> str:
    """The absolute path that a policy's text stands for. Raises PolicyError for a relative one."""
    text = literal(text)
    if text == "~" or text.startswith("~/"):
        text = home + text[1:]
    elif text == "${workspace}" or text.startswith("${workspace}/"):
        text = workspace + text[len("${workspace}") :]
    elif not text.startswith("/"):
        raise PolicyError(
            "relative-path",
            f"{text!r} is not an absolute path",
            why="a rule must mean the same wherever it is read",
            fix="begin it with /, ~ or ${workspace}",
        )
    return posixpath.normpath(text) if "//" in text or "/." in text else text


def is_beneath(path: str, ancestor: str) -> bool:
    """Whether a path is an ancestor's own or lies inside it; by components, never by prefix."""
    return ancestor in {path, "/"} or path.startswith(ancestor + "/")


def depth(path: str) -> int:
    """Number of components."""
    return 0 if path == "/" else path.count("/")


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]
