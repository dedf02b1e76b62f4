"""Build the resolved policy of a plan: a policy's paths on this host, checked and in order."""

from __future__ import annotations

import posixpath

from corral.model.errors import PolicyError
from corral.model.feature import Feature
from corral.model.plan import Grant, Link, PathKind, PrivateFile, ResolvedPolicy
from corral.model.policy import FsAccess, FsRule, NetMode
from corral.model.record import Record
from corral.model.rules.pattern import descend, is_pattern, relative_parts
from corral.planning.bounds import find_ceilings, hold_within, most_read
from corral.planning.defaults import resolve_defaults
from corral.planning.git import identity, linked_repository
from corral.planning.homes import hide_homes, is_system
from corral.planning.patterns import PatternScope, is_denied, place_patterns, read_patterns, seek_denied
from corral.planning.refuse import (
    check_denials,
    check_grant,
    check_private,
    check_second_names,
    check_workspace,
    find_read_only,
    too_wide,
)
from corral.planning.require import required_features, with_named
from corral.planning.resolve import Resolver, depth, expand, is_beneath
from corral.planning.second_mounts import check_second_mounts, find_unmappable
from corral.planning.tools import find_tools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from corral.model.backend import Host
    from corral.model.plan import MountView, ResolvedPath
    from corral.model.policy import Policy
    from corral.model.rules.pattern import Glob
    from corral.planning.patterns import Sought


def resolve_policy(
    policy: Policy, workspace: str, host: Host, hidden: Collection[str] = ()
) -> ResolvedPolicy:
    """Resolve every path of a policy. Raises PolicyError for rules that cannot hold.

    `hidden` is what homes hide, whatever the policy says: `~/.ssh`, where `~` is every home.
    """
    resolver = Resolver(host)
    kept = [rule for rule in hold_within(policy, workspace, host, resolver) if not is_pattern(rule.path)]
    found = _find_access(policy, kept, workspace, host, resolver=resolver, hidden=hidden)
    granted, denied, sought = found.granted, found.denied, found.sought
    within = tuple(target for target in denied if _is_inside_any(target.path, granted))
    granted |= dict.fromkeys(_read_at_most(policy, found.scope, resolver), FsAccess.READ)
    areas = sorted(expand(text, workspace, host.home) for text in policy.private)
    private = _free_areas(areas, (*granted, *denied), within)
    check_private(private, granted, host)
    limits, defaults = resolve_defaults(policy, host)
    ceilings = find_ceilings(kept, workspace, host, resolver)
    narrowed = most_read(policy, workspace, host, granted=granted, denied=denied, private=private)
    granted |= dict.fromkeys(narrowed, FsAccess.READ)
    listed = (
        Grant(target, access, ceilings.get(target.path, ()), is_system=target.path in found.system)
        for target, access in granted.items()
    )
    grants = _without_repetition(sorted(listed, key=_by_depth), private)
    read = [grant.target for grant in grants if grant.access is FsAccess.READ]
    check_second_names(find_read_only(grants), [*read, *denied], "changed", resolver.look)
    return ResolvedPolicy(
        grants=tuple(grants),
        links=_links_between(resolver, grants, private),
        denied=within,
        private=private,
        private_files=_private_files(host, private, policy, found),
        net=policy.net,
        limits=limits,
        defaults=defaults,
        deny_syscalls=policy.deny_syscalls,
        spawn=policy.spawn,
        debug=policy.debug,
        published=_published(policy),
        workspace=workspace,
        home=host.home,
        uid=host.uid,
        gid=host.gid,
        scratch=host.temporary_directory(),
        profiles=_profiles(host),
        requires=with_named(
            policy,
            required_features(policy, grants, private=bool(private), denied=bool(within or sought.searches))
            | _for_own_files(grants, host),
            [field for field, _ in defaults],
            is_root=host.uid == 0,
        ),
        private_in_grants=_inside_grants(private, granted, host),
        hidden=frozenset(target.path for target in within if target.path in found.secret),
        searches=sought.searches,
        denied_by=tuple((match.path, match.texts[0]) for match in sought.matches),
        denied_mounts=found.mounts,
        denied_links=tuple(match.path for match in sought.matches if match.is_link),
        idle=(*_idle(kept, workspace, host, within), *sought.idle),
        misled=sought.misled,
        unmappable=_unmappable(policy, grants, host),
    )


def _unmappable(policy: Policy, grants: list[Grant], host: Host) -> tuple[tuple[str, str], ...]:
    """Asked only where it matters: what a command with ids of its own could not write."""
    if Feature.PROC_IDENTITY.value not in policy.requires or host.uid != 0:
        return ()
    return find_unmappable((g.target.path for g in grants if g.access is FsAccess.WRITE), host)


def _profiles(host: Host) -> str:
    """Beside what else corral keeps for itself; only macOS has need of it."""
    copies = host.copies_directory() if host.platform == "darwin" else ""
    return posixpath.join(posixpath.dirname(copies), "profiles") if copies else ""


def _free_areas(
    areas: Iterable[str], taken: Iterable[ResolvedPath], within: Collection[ResolvedPath]
) -> tuple[str, ...]:
    """Private areas where nothing else is granted or denied; a denial holds at any depth."""
    paths = {"/", *(target.path for target in taken)}
    return tuple(path for path in areas if path not in paths and not _is_inside_any(path, within))


class _Access(Record):
    """What the rules of a policy come to on this host."""

    granted: dict[ResolvedPath, FsAccess]
    denied: list[ResolvedPath]
    system: frozenset[str]  # of what is granted: what a preset brings along
    secret: frozenset[str]  # of what is denied: what homes hide
    scope: PatternScope  # where patterns hold
    sought: Sought  # what fulfils them
    mounts: MountView | None  # by which what is denied could be seen


def _find_access(
    policy: Policy,
    kept: list[FsRule],
    workspace: str,
    host: Host,
    *,
    resolver: Resolver,
    hidden: Collection[str],
) -> _Access:
    """Grants and denials by real paths, checked against each other and against what is never granted."""
    rules = [*_expanded(kept, workspace, host.home), *_implied(policy, workspace, host, resolver)]
    # TRUST: a command that reaches the socket of a named session could act in that one's sandbox.
    rules += [FsRule(path, FsAccess.DENY) for path in host.control_directories()]
    homes = hide_homes(hidden, rules, workspace, host, resolver)
    granted, denied, system = _resolve_rules([*homes.secrets, *rules], resolver, workspace, host)
    secret = {resolver.resolve(rule.path).path for rule in homes.secrets}
    secret -= {resolver.resolve(rule.path).path for rule in rules if rule.access is FsAccess.DENY}
    for target, access in granted.items():
        check_grant(target, access, host, homes)
    check_workspace(workspace, homes, hidden)
    writable = tuple(target.path for target, access in granted.items() if access is FsAccess.WRITE)
    spared = system - _named(kept, workspace, host, resolver)
    wider = _wider(kept, workspace, host)
    scope = PatternScope(workspace, host.home, tuple(granted), spared, writable, wider)
    sought = seek_denied(policy, scope, host, resolver)
    granted = _left_of(granted, system, sought)
    plain, denied = denied, _with_matches(denied, sought)
    check_denials(granted, denied, secret)
    named = [target for target in plain if target.path not in secret and _is_near(target, granted)]
    check_second_names(named, denied, "read", resolver.look)
    mounts = check_second_mounts(denied, [target.path for target in granted], host)
    return _Access(granted, denied, system, frozenset(secret), scope, sought, mounts)


def _named(rules: Iterable[FsRule], workspace: str, host: Host, resolver: Resolver) -> frozenset[str]:
    """Real paths that a narrowed policy grants in what a wider one grants by name: no preset's alone."""
    return frozenset(
        resolver.resolve(expand(rule.path, workspace, host.home)).path for rule in rules if rule.within
    )


def _wider(rules: Iterable[FsRule], workspace: str, host: Host) -> tuple[ResolvedPath, ...]:
    """What the grants of a narrowed policy are left of: names and links above them count for its patterns."""
    resolver = Resolver(host)  # of its own: links on the way there are not links to what is granted
    texts = {text for rule in rules if rule.access is not FsAccess.DENY for text in rule.within}
    found = (resolver.resolve(expand(text, workspace, host.home)) for text in sorted(texts))
    return tuple(target for target in found if target.kind is PathKind.DIRECTORY)


def _left_of(
    granted: dict[ResolvedPath, FsAccess], system: Collection[str], sought: Sought
) -> dict[ResolvedPath, FsAccess]:
    """Grants without those of a preset that lie in what a pattern denies."""
    if not sought.above:
        return granted
    return {
        target: access
        for target, access in granted.items()
        if target.path not in system or not any(is_beneath(target.path, path) for path in sought.above)
    }


def _with_matches(denied: list[ResolvedPath], sought: Sought) -> list[ResolvedPath]:
    known = {target.path for target in denied}
    return [*denied, *(target for target in sought.targets if target.path not in known)]


def _idle(
    rules: Iterable[FsRule], workspace: str, host: Host, within: Iterable[ResolvedPath]
) -> Iterator[str]:
    """Denials of paths that are not there, or that nothing is granted of."""
    there = {target.requested for target in within if target.kind is not PathKind.MISSING}
    for rule in rules:
        path = expand(rule.path, workspace, host.home) if rule.access is FsAccess.DENY else ""
        if path and path not in there:
            yield rule.path


def _read_at_most(policy: Policy, scope: PatternScope, resolver: Resolver) -> list[ResolvedPath]:
    """Grants that a pattern makes read-only as a whole. Raises PolicyError for one that is meant to grant."""
    found = []
    said = {rule.path for rule in policy.fs if is_pattern(rule.path) and rule.access is FsAccess.READ}
    everywhere = scope.replace(system=frozenset())
    for text in read_patterns(policy):
        placed, above = place_patterns((text,), everywhere, resolver)
        if text in said and not placed and not above:
            raise PolicyError(
                "pattern-grants",
                f"{text} cannot be granted",
                why="only whole paths are granted; a pattern makes things read-only in what is granted",
                fix="grant the directory, and deny in it by patterns; a path with a * itself is written \\*",
            )
        tops = [match.path for match in above]
        found += [
            target
            for target in scope.grants
            if any(is_beneath(target.path, top) for top in tops) or _fulfils(target, placed)
        ]
    return found


def _fulfils(target: ResolvedPath, placed: dict[str, frozenset[Glob]]) -> bool:
    """Whether a grant inside another one is, or lies in, what patterns stand for there."""
    is_directory = target.kind is PathKind.DIRECTORY
    return any(
        descend(globs, relative_parts(target.path, top), is_directory=is_directory)[0]
        for top, globs in placed.items()
        if is_beneath(target.path, top)
    )


def _published(policy: Policy) -> tuple[tuple[int, int], ...]:
    if policy.publish and policy.net.mode is NetMode.FULL:
        raise PolicyError(
            "contradiction",
            "servers inside cannot be published with the whole network",
            why="they listen on this machine already",
            fix="leave network:publish out, or grant less than network:full",
        )
    pairs = (text.partition(":") for text in sorted(policy.publish))
    return tuple((int(outside), int(inside or outside)) for outside, _, inside in pairs)


def _expanded(rules: Iterable[FsRule], workspace: str, home: str) -> list[FsRule]:
    return [rule.replace(path=expand(rule.path, workspace, home)) for rule in rules]


def _implied(policy: Policy, workspace: str, host: Host, resolver: Resolver) -> list[FsRule]:
    """Rules that follow from others: the caller's tools, the repository of a linked worktree."""
    implied = []
    writable = tuple(
        resolver.resolve(expand(rule.path, workspace, host.home)).path
        for rule in policy.fs
        if rule.access is FsAccess.WRITE
    )
    if policy.tools:
        found = find_tools(host, resolver, workspace, writable)
        implied += [FsRule(path, FsAccess.READ, True) for path in found]
    linked = linked_repository(host, resolver, workspace) if workspace in writable else ""
    if linked:
        implied.append(FsRule(linked, FsAccess.WRITE, True))
    return implied


def _resolve_rules(
    rules: Iterable[FsRule], resolver: Resolver, workspace: str, host: Host
) -> tuple[dict[ResolvedPath, FsAccess], list[ResolvedPath], frozenset[str]]:
    """What is granted, what is denied, and which of the granted paths are the system's own.

    A denial beats what only a preset or a tool would grant.
    """
    granted: dict[str, tuple[ResolvedPath, FsRule]] = {}
    denied: dict[str, ResolvedPath] = {}
    listed = list(rules)
    writable = [rule.path for rule in listed if rule.access is FsAccess.WRITE]
    tops = {workspace, *writable, *(resolver.resolve(path).path for path in writable)}
    for rule in listed:
        target, links = resolver.follow(rule.path)
        if rule.access is FsAccess.DENY:
            denied[target.path] = target
            continue
        if target.kind is PathKind.MISSING:
            if rule.optional:
                continue
            raise PolicyError(
                "path-missing",
                f"{rule.path} cannot be granted",
                why="there is no such file or directory",
                fix="create it first, or leave the rule out",
            )
        if _is_led(rule, target, links, tops):
            if rule.optional:
                continue
            raise _leads_out(rule.path, target.path)
        if rule.access is FsAccess.WRITE and _is_own(target.path, host):
            if not rule.optional:
                raise too_wide(target, "corral itself runs from there, or keeps its rules there")
            rule = rule.replace(access=FsAccess.READ)  # noqa: PLW2901 - the rule as it can hold
        known = granted.get(target.path, (target, rule))[1]
        # Said twice: the wider access counts, and it is optional only if both are.
        stronger = rule if rule.access is FsAccess.WRITE else known
        granted[target.path] = (target, stronger.replace(optional=rule.optional and known.optional))
    kept = {
        target: rule.access
        for target, rule in granted.values()
        if not rule.optional
        or target.path == workspace  # without it there is nothing to work on: that is refused later
        or not any(is_beneath(target.path, denial) for denial in denied)
    }
    system = frozenset(
        target.path for target, rule in granted.values() if is_system(rule, target.path, workspace)
    )
    return kept, list(denied.values()), system


def _for_own_files(grants: Iterable[Grant], host: Host) -> frozenset[Feature]:
    """Corral's own files inside a writable path are protected, whatever the policy says of other names."""
    writable = [grant.target.path for grant in grants if grant.access is FsAccess.WRITE]
    holds = any(is_beneath(file, root) for file in host.corral_files() for root in writable)
    return frozenset({Feature.FS_PROTECT}) if holds else frozenset()


def _is_own(path: str, host: Host) -> bool:
    """Whether a path is, or lies in, what corral runs from. Kept caches alone are for commands."""
    own = [file for file in host.corral_files() if is_beneath(path, file)]
    return bool(own) and not any(
        is_beneath(path, f"{file}/caches") and path != f"{file}/caches" for file in own
    )


def _is_led(rule: FsRule, target: ResolvedPath, links: tuple[str, ...], tops: Collection[str]) -> bool:
    """Whether a link in the workspace, or in another writable path, has a say in what a rule grants.

    TRUST: an earlier command may have made it. For reading it may lead to where it lies; for writing a path
    has to be what it says, since what is protected, or only readable, lies there too.
    """
    if not links:
        return False
    holding = [top for top in tops if any(link.startswith(f"{top}/") for link in links)]
    return any(rule.access is FsAccess.WRITE or not is_beneath(target.path, top) for top in holding)


def _leads_out(requested: str, real: str) -> PolicyError:
    # TRUST: an earlier command may have put the link there, for a later grant to follow it.
    return PolicyError(
        "grant-through-link",
        f"{requested} cannot be granted",
        why=f"it leads to {real} by a link in the workspace or another writable path",
        fix=f"grant {real} itself, if that is what is meant",
    )


def _is_inside_any(path: str, granted: Iterable[ResolvedPath]) -> bool:
    return any(is_beneath(path, target.path) for target in granted)


def _is_near(target: ResolvedPath, granted: Iterable[ResolvedPath]) -> bool:
    """Whether another name of a file may lie in something granted: names do not cross file systems."""
    return any(grant.device == target.device for grant in granted)


def _inside_grants(private: tuple[str, ...], granted: Iterable[ResolvedPath], host: Host) -> tuple[str, ...]:
    """Wherever links lead on the host; in the sandbox there need be none, so they are not remembered."""
    resolver = Resolver(host)
    return tuple(path for path in private if _is_inside_any(resolver.resolve(path).path, granted))


def _links_between(resolver: Resolver, grants: list[Grant], private: tuple[str, ...]) -> tuple[Link, ...]:
    """Links that lead to grants and do not lie inside one: they must be made where paths are rebuilt."""
    taken = {grant.target.path for grant in grants}
    links = [
        link
        for link in resolver.links.values()
        if not any(path in taken for path in _upwards(link.path))
        and link.path not in private
        and not link.path.startswith(("/proc/", "/dev/"))
    ]
    return tuple(sorted(links, key=lambda link: (depth(link.path), link.path)))


def _without_repetition(grants: list[Grant], private: tuple[str, ...]) -> list[Grant]:
    """Leave out a grant that the one right above it gives already, unless a private area lies between.

    What was granted by name inside a directory of the system stays: an image has other such directories.
    """
    above: dict[str, Grant | None] = dict.fromkeys(private)
    kept = []
    for grant in grants:
        nearest = next((path for path in _upwards(grant.target.path) if path in above), "")
        outer = above[nearest] if nearest else None
        if outer is None or outer.access is not grant.access or outer.is_system > grant.is_system:
            kept.append(grant)
            above[grant.target.path] = grant
    return kept


def _by_depth(grant: Grant) -> tuple[int, str]:
    return depth(grant.target.path), grant.target.path


def _upwards(path: str) -> Iterator[str]:
    """A path and everything above it."""
    while path != "/":
        yield path
        path = posixpath.dirname(path)


def _private_files(
    host: Host, private: tuple[str, ...], policy: Policy, found: _Access
) -> tuple[PrivateFile, ...]:
    """The caller's name and address for git, in a private home, unless the policy denies where they stand."""
    path = posixpath.join(host.home, ".gitconfig")
    resolver = Resolver(host)  # of its own: links on the way there are not links to what is granted

    def denies(file: str) -> bool:
        return is_denied(file, found.denied, policy, found.scope, resolver)

    if host.home not in private or denies(path):
        return ()
    text = identity(host, denies)
    return (PrivateFile(path, text.encode()),) if text else ()
