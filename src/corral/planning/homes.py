"""Find homes, and what in them a granted directory must not show: keys, logins, histories."""

from __future__ import annotations

import posixpath
from functools import lru_cache

from corral.model.plan import PathKind
from corral.model.policy import FsAccess, FsRule
from corral.model.record import Record
from corral.model.rules.pattern import is_pattern
from corral.planning.resolve import Resolver, expand, is_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from corral.model.backend import Host
    from corral.model.plan import ResolvedPolicy
    from corral.model.policy import Policy

#: Where every directory is somebody's home, also of those whom no file of this host knows.
HOMES = ("/home", "/Users")
_PASSWORDS = "/etc/passwd"
_FIRST_PERSON = 1000  # the lowest number of a user that is no service's
_MOST_BYTES = 1024 * 1024
#: Users of the system have their homes here, where nobody keeps anything of his own.
_SYSTEM_TOPS = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin"),
    *("/sys", "/usr", "/nonexistent"),
)


class Homes(Record):
    """The homes that matter to a plan, and what is denied in them. Real paths."""

    own: tuple[str, ...]  # the caller's, as the environment has it and as the host's list of users has it
    others: tuple[str, ...]
    secrets: tuple[FsRule, ...]
    services: frozenset[str] = frozenset()  # of others: where no person lives, and projects are deployed


def hide_homes(
    hidden: Iterable[str], rules: Iterable[FsRule], workspace: str, host: Host, resolver: Resolver
) -> Homes:
    """Find homes, and deny what they hide (`~/.ssh`; `~` is each home) where it lies in what the rules grant.

    What is granted by its own name is not hidden: somebody has written it down. TRUST: a rule that a meet has
    made says nothing of the kind; it may name just what the wider grant hides, and is held to that.
    """
    tops, plain, brought = {workspace: None}, set(), []
    for rule in rules:
        if rule.access is FsAccess.DENY:
            continue
        path = resolver.resolve(rule.path).path
        if rule.optional and rule.access is FsAccess.READ and not rule.within:
            brought.append(path)  # by the system or the tools: most of the rules
            continue
        tops[path] = None
        for text in rule.within:
            tops[resolver.resolve(expand(text, workspace, host.home)).path] = None
        if not rule.optional and not rule.within:
            plain.add(path)
    resolver = Resolver(host)  # of its own: what is looked at from here on are no links to what is granted
    users = _list_users(host)
    own, others = _find_homes(host, resolver, (*tops, *_in_homes(brought)), users)
    # TRUST: programs that are installed in a home lie beside its keyrings.
    tops |= dict.fromkeys(_within_homes(brought, (*own, *others)))
    secrets = [
        FsRule(path, FsAccess.DENY)
        for home in (*own, *others)
        if any(is_beneath(home, top) or is_beneath(top, home) for top in tops)
        for path in (home + name[1:] for name in hidden)
        if _is_inside(path, tops) and _is_hidden(resolver.resolve(path).path, tops, plain)
    ]
    return Homes(own, others, tuple(secrets), _of_services(users, resolver))


def find_uncovered(
    resolved: ResolvedPolicy, policy: Policy, hidden: Iterable[str], host: Host
) -> frozenset[str]:
    """What is there by now, inside a grant, and should be denied, but is not by this policy. Real paths.

    Homes come and go, and a link that is denied may lead elsewhere by now: all of it is looked at anew. What
    somebody has granted by its own name is among it, in an old plan as in a new one.
    """
    resolver = Resolver(host)
    workspace = resolved.workspace
    tops = {workspace, *(grant.target.path for grant in resolved.grants if not grant.is_system)}
    brought = [grant.target.path for grant in resolved.grants if grant.is_system]
    own, others = _find_homes(host, resolver, (*tops, *_in_homes(brought)), _list_users(host))
    tops |= set(_within_homes(brought, (*own, *others)))
    homes = [
        home for home in (*own, *others) if any(is_beneath(home, t) or is_beneath(t, home) for t in tops)
    ]
    names = [
        path for home in homes for path in (home + name[1:] for name in hidden) if _is_inside(path, tops)
    ]
    names += resolved.denied_links
    names += (target.requested for target in resolved.denied)
    names += (
        expand(rule.path, workspace, resolved.home)
        for rule in policy.fs
        if rule.access is FsAccess.DENY and not is_pattern(rule.path)
    )
    granted = {grant.target.path for grant in resolved.grants}
    denied = {target.path for target in resolved.denied}
    return frozenset(
        target.path
        for target in map(resolver.resolve, dict.fromkeys(names))
        if target.kind is not PathKind.MISSING
        and _is_at_or_in(target.path, granted)
        and not _is_at_or_in(target.path, denied)
    )


def _is_at_or_in(path: str, places: Collection[str]) -> bool:
    while path not in places and path != "/":
        path = posixpath.dirname(path)
    return path in places


def is_system(rule: FsRule, real: str, workspace: str) -> bool:
    """Whether a rule grants what the system, or the caller's tools, bring along."""
    return rule.optional and rule.access is FsAccess.READ and not is_beneath(real, workspace)


def list_homes(host: Host) -> tuple[str, ...]:
    """The caller's home, and those that the host's list of users has."""
    own, others = _find_homes(host, Resolver(host), (), _list_users(host))
    return (*own, *others)


def _within_homes(paths: Iterable[str], homes: Collection[str]) -> tuple[str, ...]:
    return tuple(path for path in paths if any(is_beneath(path, home) for home in homes))


def _in_homes(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(path for path in paths if any(path.startswith(f"{place}/") for place in HOMES))


def _list_users(host: Host) -> tuple[tuple[str, str], ...]:
    """The number and the home of every user that the host's list has.

    It is read anew each time, since homes come and go; a plan looks for new ones a second time at its end.
    """
    return _parse_users(host.read_text(_PASSWORDS, _MOST_BYTES))


@lru_cache(maxsize=2)
def _parse_users(text: str) -> tuple[tuple[str, str], ...]:
    lines = (line.split(":") for line in text.split("\n"))
    return tuple((fields[2], fields[5]) for fields in lines if len(fields) == 7)


def _find_homes(
    host: Host, resolver: Resolver, tops: Collection[str], users: Iterable[tuple[str, str]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The caller's own, and those of others."""
    own: list[str] = [host.home]
    others: list[str] = []
    for number, home in users:
        if home.startswith("/") and home != "/" and not any(is_beneath(home, top) for top in _SYSTEM_TOPS):
            (own if number == str(host.uid) else others).append(resolver.resolve(home).path)
    for place in HOMES:
        for top in tops:
            if is_beneath(place, top):
                others += [f"{place}/{name}" for name in host.subdirectories(place)]
            elif is_beneath(top, place):
                others.append(f"{place}/{top[len(place) + 1 :].partition('/')[0]}")
    return tuple(dict.fromkeys(own)), tuple(home for home in dict.fromkeys(others) if home not in own)


def _of_services(users: Iterable[tuple[str, str]], resolver: Resolver) -> frozenset[str]:
    """Homes of users that the system has made for programs."""
    return frozenset(
        resolver.resolve(home).path
        for number, home in users
        if number.isdecimal() and 0 < int(number) < _FIRST_PERSON and home.startswith("/")
    )


def _is_hidden(real: str, tops: Collection[str], plain: Collection[str]) -> bool:
    """A link may lead to where nothing is granted, or to a device, which is nothing to hide."""
    return real not in plain and _is_inside(real, tops)


def _is_inside(path: str, tops: Collection[str]) -> bool:
    return any(path != top and is_beneath(path, top) for top in tops)
