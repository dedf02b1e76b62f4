"""Decide about one path: what a plan lets a command do with it, and by which of its rules."""

from __future__ import annotations

import posixpath

from corral.model.decision import Decision, Reason
from corral.model.plan import PathKind
from corral.model.policy import FsAccess
from corral.model.rules.pattern import descend, relative_parts
from corral.planning.resolve import Resolver, is_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from corral.model.backend import Host
    from corral.model.plan import Grant, Plan, Search

_STRUCTURAL = ("/proc", "/dev")
_DEVICES = frozenset(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty"))


def decide_path(plan: Plan, host: Host, path: str, *, writes: bool) -> Decision:
    """Whether a command may read a path, or write it. The path is absolute."""
    if any(is_beneath(path, top) for top in _STRUCTURAL) and not _private_at(plan, path):
        # The host's own is not asked about: inside there is another one.
        allowed = path in _DEVICES or (is_beneath(path, "/proc") and not writes)
        return Decision(allowed, Reason.STRUCTURAL, path)
    found, links = Resolver(host).follow(path)
    is_missing = found.kind is PathKind.MISSING
    for link in links:
        area = _private_at(plan, link)
        if area and link not in {made.path for made in plan.resolved.links} and _grant_at(plan, link) is None:
            return Decision(
                False, Reason.PRIVATE, found.path, area, is_missing
            )  # the link is not there inside
    allowed, reason, rule = _decide(plan, found.path, writes=writes)
    if reason is Reason.PRIVATE and not is_missing and found.path != rule:
        allowed = False  # the sandbox has nothing of this there
    return Decision(allowed, reason, found.path, rule, is_missing)


def _decide(plan: Plan, real: str, *, writes: bool) -> tuple[bool, Reason, str]:
    private = _private_at(plan, real)
    if not private and any(is_beneath(real, top) for top in _STRUCTURAL):
        return False, Reason.STRUCTURAL, ""
    for denial in plan.resolved.denied:
        if is_beneath(real, denial.path):
            is_secret = denial.path in plan.resolved.hidden
            rule = dict(plan.resolved.denied_by).get(denial.requested, denial.requested)
            return False, Reason.HIDDEN if is_secret else Reason.DENIED, rule
    pattern = _fulfilled(plan.resolved.searches, real)
    if pattern:
        return False, Reason.DENIED, pattern
    grant = _grant_at(plan, real)
    if private and (grant is None or len(private) > len(grant.target.path)):
        return True, Reason.PRIVATE, private
    if grant is None:
        return False, Reason.NOT_GRANTED, ""
    if writes and grant.access is not FsAccess.WRITE:
        return False, Reason.READ_ONLY, grant.target.requested
    pattern = _fulfilled(plan.searches, real) if writes else ""
    if pattern:
        is_name = pattern in plan.policy.protect
        return False, Reason.PROTECTED if is_name else Reason.READ_ONLY, pattern
    protected = _protected_at(plan, real) if writes else ""
    if protected:
        return False, Reason.PROTECTED, protected
    return True, Reason.GRANTED, grant.target.requested


def _fulfilled(searches: Iterable[Search], path: str) -> str:
    """A pattern that a path fulfils, or lies in what does, whether it exists or not."""
    for search in searches:
        if is_beneath(path, search.path):
            _, text, _ = descend(search.globs, relative_parts(path, search.path))
            if text:
                return text
    return ""


def _private_at(plan: Plan, path: str) -> str:
    """The deepest private area at or above a path; empty for none."""
    return max((area for area in plan.resolved.private if is_beneath(path, area)), key=len, default="")


def _grant_at(plan: Plan, path: str) -> Grant | None:
    """The deepest grant at or above a path."""
    above = [grant for grant in plan.resolved.grants if is_beneath(path, grant.target.path)]
    return max(above, key=lambda grant: len(grant.target.path), default=None)


def _protected_at(plan: Plan, path: str) -> str:
    """A protected name at or above a path, whether it exists or not."""
    names = [shield.target.path for shield in plan.shields]
    names += [posixpath.join(watch.directory, watch.name) for watch in plan.watches]
    return next((name for name in names if is_beneath(path, name)), "")
