"""Laws of resolving paths and rules."""

from __future__ import annotations

from pathlib import PurePosixPath

from hypothesis import given
from hypothesis import strategies as st

from corral.model.errors import PolicyError
from corral.model.plan import PathKind
from corral.model.policy import FsAccess, FsRule, Policy
from corral.planning.resolve import Resolver, depth, is_beneath
from corral.planning.resolved_policy import resolve_policy
from support.trees import ROOT, hosts, paths

rules = st.lists(
    st.builds(FsRule, paths, st.sampled_from([FsAccess.READ, FsAccess.WRITE, FsAccess.DENY]), st.just(True)),
    max_size=6,
)
plain = st.lists(st.sampled_from(["home", "homeevil", "a", "b"]), max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)


def _ancestors(path: str) -> list[str]:
    return [str(parent) for parent in PurePosixPath(path).parents][:-1]


@given(hosts, paths)
def test_a_resolved_path_has_no_link_in_it(host, path) -> None:
    found = Resolver(host).resolve(path)
    stats = [host.lstat(part) for part in _ancestors(found.path)]
    if found.kind is not PathKind.MISSING:  # where links go round in a circle, the answer is one of them
        stats.append(host.lstat(found.path))

    assert not any(stat is not None and stat.is_link for stat in stats)
    assert ".." not in found.path.split("/")


@given(hosts, paths)
def test_resolving_twice_is_resolving_once(host, path) -> None:
    found = Resolver(host).resolve(path)
    again = Resolver(host).resolve(found.path)

    assert (again.path, again.kind, again.inode) == (found.path, found.kind, found.inode)


@given(hosts, paths)
def test_what_a_resolved_path_says_is_what_is_there(host, path) -> None:
    found = Resolver(host).resolve(path)
    stat = host.lstat(found.path)

    assert (found.kind is PathKind.MISSING) == (stat is None or stat.is_link)
    if found.kind is not PathKind.MISSING:
        assert (found.device, found.inode) == (stat.device, stat.inode)
        assert (found.kind is PathKind.DIRECTORY) == stat.is_directory


@given(plain, plain)
def test_being_beneath_is_decided_by_components(path, ancestor) -> None:
    assert is_beneath(path, ancestor) == PurePosixPath(path).is_relative_to(ancestor)


@given(plain, plain)
def test_what_lies_beneath_is_at_least_as_deep(path, ancestor) -> None:
    if is_beneath(path, ancestor):
        assert depth(path) >= depth(ancestor)


@given(hosts, rules)
def test_denials_beat_grants_at_any_depth_and_useless_grants_are_refused(host, wanted) -> None:
    try:
        resolved = resolve_policy(Policy(fs=tuple(wanted)), ROOT, host)
    except PolicyError as refused:
        assert refused.code in {"grant-beneath-deny", "grant-too-wide"}
        return
    resolver = Resolver(host)
    denied = {resolver.resolve(rule.path).path for rule in wanted if rule.access is FsAccess.DENY}

    for grant in resolved.grants:
        assert not any(is_beneath(grant.target.path, denial) for denial in denied)
    for denial in denied:
        inside = any(is_beneath(denial, grant.target.path) for grant in resolved.grants)
        assert (denial in {target.path for target in resolved.denied}) == inside


@given(hosts, rules)
def test_a_grant_beneath_a_denial_is_refused_or_if_optional_left_out(host, wanted) -> None:
    resolver = Resolver(host)
    found = [(resolver.resolve(rule.path), rule) for rule in wanted]
    denials = [target for target, rule in found if rule.access is FsAccess.DENY]
    grants = [
        target
        for target, rule in found
        if rule.access is not FsAccess.DENY and target.kind is not PathKind.MISSING
        if not rule.optional or target.path == ROOT
    ]
    contradiction = any(is_beneath(grant.path, denial.path) for grant in grants for denial in denials)

    try:
        resolved = resolve_policy(Policy(fs=tuple(wanted)), ROOT, host)
    except PolicyError as refused:
        # The same path may be granted twice, once as an option: the explicit rule may be the one that counts.
        assert contradiction or refused.code in {"grant-too-wide", "grant-through-link"}
    else:
        kept = [grant.target.path for grant in resolved.grants]
        assert not any(is_beneath(path, denial.path) for path in kept for denial in denials)


@given(hosts, rules)
def test_write_access_that_was_granted_is_never_lost(host, wanted) -> None:
    """Two names of one path: the stronger grant counts, in whatever order they come.

    An optional one that a link of the workspace has a say in is left out; any other such is refused.
    """
    resolver = Resolver(host)
    try:
        resolved = resolve_policy(Policy(fs=tuple(wanted)), ROOT, host)
        backwards = resolve_policy(Policy(fs=tuple(reversed(wanted))), ROOT, host)
    except PolicyError:
        return
    writable = [resolver.follow(rule.path) for rule in wanted if rule.access is FsAccess.WRITE]
    denied = [resolver.resolve(rule.path).path for rule in wanted if rule.access is FsAccess.DENY]

    for target, links in writable:
        is_denied = any(is_beneath(target.path, path) for path in denied)  # which counts more
        if target.kind is not PathKind.MISSING and not links and not is_denied:
            assert any(
                is_beneath(target.path, grant.target.path) and grant.access is FsAccess.WRITE
                for grant in resolved.grants
            )
    assert {(g.target.path, g.access) for g in resolved.grants} == {
        (g.target.path, g.access) for g in backwards.grants
    }


@given(hosts, rules)
def test_grants_come_from_shallow_to_deep(host, wanted) -> None:
    try:
        resolved = resolve_policy(Policy(fs=tuple(wanted)), ROOT, host)
    except PolicyError:
        return
    depths = [depth(grant.target.path) for grant in resolved.grants]

    assert depths == sorted(depths)
