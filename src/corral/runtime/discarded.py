"""Find what a command wrote where nobody expects it to vanish: in the home, or beside the workspace.

TRUST: the command chose every name and may have made as many as its areas hold. No link is followed, and no
more is looked at than is told. Nothing of the host is looked at: whoever reads the event may be the
command's author, and must not learn from it what exists outside.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import stat

from corral.model.event import Event, EventKind
from corral.model.feature import Feature
from corral.model.rules.pattern import escape
from corral.model.violation import Evidence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.plan import Plan, ResolvedPolicy

#: Where everybody knows that nothing stays; what lies beside the workspace there is told all the same.
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")
#: In a home: what programs write there for themselves, and make anew.
_CACHES = frozenset(
    {
        *(".bundle", ".cache", ".cargo", ".config", ".dbus", ".dotnet", ".gem", ".gnupg", ".gradle", ".ivy2"),
        *(".java", ".lesshst", ".local", ".m2", ".node-gyp", ".npm", ".nuget", ".nv", ".pki", ".pnpm-store"),
        *(".pyenv", ".rnd", ".rustup", ".viminfo", ".wget-hsts", ".yarn", "go"),
    }
)
_MOST_ENTRIES, _MOST_DEPTH = 10_000, 64
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def find_discarded(plan: Plan, areas: int) -> Iterator[Event]:
    """One event for each private area that holds what may have been meant to stay.

    `areas` is a descriptor of the directory that has them all, by the numbers that the launcher gave them.
    """
    resolved = plan.resolved
    own = _own_files(resolved)
    ordered = sorted(resolved.private, key=lambda path: (path.count("/"), path))
    for number, area in enumerate(ordered):
        with contextlib.suppress(OSError):  # the command may have closed it to us
            handle = os.open(str(number), _DIRECTORY, dir_fd=areas)
            first, count = "", 0
            for path in _Walk(resolved, area, own).files(handle, area):
                first, count = min(first or path, path), count + 1
            if first:
                yield _event(plan, first, count)


def _own_files(resolved: ResolvedPolicy) -> dict[str, bytes]:
    """What was there before the command, with its content."""
    own = {file.path: file.content for file in resolved.private_files}
    own |= {link.path: b"" for link in resolved.links}
    # The launcher makes an empty file to mount a granted one on, such as the pyvenv.cfg of a virtualenv.
    return own | {grant.target.path: b"" for grant in resolved.grants}


class _Walk:
    """Through one area, for a bounded number of entries."""

    def __init__(self, resolved: ResolvedPolicy, area: str, own: dict[str, bytes]) -> None:
        self._resolved = resolved
        self._is_temporary = area in _TEMPORARY
        self._own = own
        self._left = _MOST_ENTRIES

    def files(self, handle: int, path: str, depth: int = 0) -> Iterator[str]:
        """Files and links beneath a directory, whose descriptor is closed."""
        below = []
        try:
            with os.scandir(handle) as entries:
                for entry in entries:
                    self._left -= 1
                    if self._left < 0:
                        return
                    place = posixpath.join(path, entry.name)
                    if entry.is_dir(follow_symlinks=False):
                        below.append((entry.name, place))
                    elif self._is_told(handle, entry.name, place):
                        yield place
            for name, place in below:
                if depth < _MOST_DEPTH and self._is_entered(place):
                    with contextlib.suppress(OSError):
                        yield from self.files(os.open(name, _DIRECTORY, dir_fd=handle), place, depth + 1)
        finally:
            os.close(handle)

    def _is_told(self, handle: int, name: str, place: str) -> bool:
        if self._is_temporary and not _is_beside(place, self._resolved.workspace):
            return False
        if place not in self._own:
            return not _is_cache(place, self._resolved.home)
        return _content(handle, name) != self._own[place] and bool(self._own[place])

    def _is_entered(self, place: str) -> bool:
        if place in self._resolved.private or _is_cache(place, self._resolved.home):
            return False
        is_above = _is_in(self._resolved.workspace, place)
        return not self._is_temporary or is_above or _is_beside(place, self._resolved.workspace)


def _event(plan: Plan, first: str, count: int) -> Event:
    rest = "was 1 more file" if count == 2 else f"were {count - 1} more files"
    more = "" if count == 1 else f", and so {rest}"
    resolved, place = plan.resolved, _place_to_grant(plan.resolved, first)
    reason = f"it was written to a private area of the sandbox, and was deleted with it{more}"
    is_repository = place and first == f"{place}/.git"
    if is_repository:  # at the top of a grant nobody may make one: git would be led there
        place = _unless_too_wide(resolved, posixpath.dirname(place))
        reason += "; a worktree or repository inside the workspace stays"
    elif place and _is_protected(plan, posixpath.relpath(first, place)):
        place, reason = "", f"{reason}; the host runs or trusts such a file, so make it outside"
    elif not place:
        reason += "; write into the workspace instead"
    hint = f"filesystem:write:{escape(place)}" if place and place.isprintable() else ""
    risk = "everything there can be changed" if place and _is_in(resolved.workspace, place) else ""
    return Event(EventKind.DISCARDED, Feature.FS_PRIVATE, first, Evidence.OBSERVED, reason, hint, risk)


def _is_protected(plan: Plan, name: str) -> bool:
    """Whether it would be removed at the top of a grant."""
    return any(_is_in(name, one) for one in plan.policy.protect)


def _place_to_grant(resolved: ResolvedPolicy, first: str) -> str:
    """The directory that would have kept it, as far as the names alone tell; empty where that is too much."""
    place = posixpath.dirname(first)
    while (
        not _is_in(resolved.workspace, posixpath.dirname(place)) and posixpath.dirname(place) != resolved.home
    ):
        above = posixpath.dirname(place)
        if above == place:
            return ""
        place = above
    return _unless_too_wide(resolved, place)


def _unless_too_wide(resolved: ResolvedPolicy, place: str) -> str:
    is_too_wide = place in {"/", "/home", "/Users", *_TEMPORARY} or _is_in(resolved.home, place)
    is_hidden = posixpath.basename(place).startswith(".")
    return "" if is_too_wide or is_hidden else place


def _is_beside(place: str, workspace: str) -> bool:
    """Whether it lies beside the workspace, or a directory above that, but not at the top of an area."""
    above = posixpath.dirname(workspace)
    while above.count("/") > 1 and above not in _TEMPORARY:
        if _is_in(place, above) and not _is_in(workspace, place):
            return True
        above = posixpath.dirname(above)
    return False


def _is_cache(place: str, home: str) -> bool:
    if not place.startswith(f"{home}/"):
        return False
    name = place[len(home) + 1 :].partition("/")[0]
    return name in _CACHES or name.endswith("history")


def _is_in(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


def _content(handle: int, name: str) -> bytes | None:
    """What is in a file, if that can be said; one that is larger has other content for sure."""
    with contextlib.suppress(OSError):
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=handle)
        try:
            if stat.S_ISREG(os.fstat(file).st_mode):
                return os.read(file, 65_536)
        finally:
            os.close(file)
    return None
