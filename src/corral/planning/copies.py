"""Which git configurations a command may have a copy of, to change that instead of the shielded file."""

from __future__ import annotations

import posixpath

from corral.model.plan import MOST_COPIED_BYTES, ConfigCopy, PathKind
from corral.model.policy import FsAccess
from corral.planning.resolve import is_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from corral.model.backend import Host
    from corral.model.plan import ResolvedPolicy, Shield
    from corral.planning.resolve import Resolver

_CONFIG = "/.git/config"
#: Each costs a directory, a file and a mount; the configurations of further repositories are read-only.
MOST_COPIES = 256


def find_copies(
    resolved: ResolvedPolicy,
    host: Host,
    resolver: Resolver,
    shields: Collection[Shield],
    roots: Iterable[str],
    *,
    unchanging: Collection[str] = (),
) -> tuple[tuple[ConfigCopy, ...], str]:
    """The copies, and the directory to keep them in; none if there is no such directory.

    `unchanging` are shields that the policy has for another reason than git: a rule that makes them
    read-only, or protects them by a name or pattern of its own. Nothing gets into those.

    TRUST: a name alone makes no configuration of a file, but it bounds what a forged `.git` pointer leads to:
    what comes out of a copy are settings of git, for a file that git reads.
    """
    writable = tuple(roots)
    place = host.copies_directory()
    if not place or _would_be_planted(resolver, place, writable):
        return (), ""
    found: list[ConfigCopy] = []
    shielded = {shield.target.path for shield in shields}
    for shield in shields:
        target = shield.target
        if len(found) == MOST_COPIES:
            break
        if not target.path.endswith(_CONFIG) or target.kind is not PathKind.FILE:
            continue
        if target.path in unchanging:
            continue
        is_alone = shielded.isdisjoint(_above(target.path))
        if is_alone and _is_writable(resolved, target.path) and _is_readable(host, target.path):
            root = max((root for root in writable if is_beneath(target.path, root)), key=len)
            found.append(ConfigCopy(len(found), target, root))
    return tuple(found), place if found else ""


def _above(path: str) -> Iterator[str]:
    """The directories that a path lies in."""
    while path != "/":
        path = posixpath.dirname(path)
        yield path


def _would_be_planted(resolver: Resolver, place: str, roots: Iterable[str]) -> bool:
    """Whether corral's own directory is yet to be made, in a writable path: the guard would take it away."""
    return any(is_beneath(place, root) for root in roots) and resolver.look(posixpath.dirname(place)) is None


def _is_writable(resolved: ResolvedPolicy, path: str) -> bool:
    """Whether a command could write there, were it not protected: else nothing is taken over either."""
    if any(is_beneath(path, denial.path) for denial in resolved.denied):
        return False
    above = [grant for grant in resolved.grants if is_beneath(path, grant.target.path)]
    deepest = max(above, key=lambda grant: len(grant.target.path), default=None)
    if deepest is None or deepest.access is not FsAccess.WRITE:
        return False
    return not any(
        is_beneath(path, area) and len(area) > len(deepest.target.path) for area in resolved.private
    )


def _is_readable(host: Host, path: str) -> bool:
    return 0 < len(host.read_text(path, MOST_COPIED_BYTES)) < MOST_COPIED_BYTES
