"""Laws of what engines are told, on random trees and rules.

- every grant, denial, shield and pin is a mount, and is looked for from inside, wherever its path appears; or
  it lies beneath something denied
- nothing is mounted inside a path of the host but what is there: no engine has to make anything on the host
- mounts go from shallow to deep, and no place is mounted twice
"""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from corral.backends.engine.mounts import DENIED, Views, build_places, is_beneath, link_views
from corral.linux.spec import ExpectFlag
from corral.model.container import Container
from corral.model.errors import CorralError
from corral.model.plan import Command, PathKind
from corral.model.policy import FsAccess, Policy
from corral.model.rules.capability import PolicyDraft, parse_capability
from corral.planning.build import build
from corral.planning.resolved_policy import resolve_policy
from support.examples import examples
from support.trees import ROOT, hosts, paths

SCRATCH, ABI = "/scratch", 7
_rules = st.lists(st.tuples(st.sampled_from(["read", "write", "deny"]), paths), max_size=4)
_workspaces = st.sampled_from(["", "/workspace", "/inside/deep"])


@st.composite
def placed_plans(draw: st.DrawFn):
    """A host, a plan on it, and its places."""
    host, rules, workspace = draw(hosts), draw(_rules), draw(_workspaces)
    draft = PolicyDraft(Policy())
    for words in (f"write:{ROOT}", "protect:.git/hooks", "protect:config"):
        draft.add(parse_capability(f"filesystem:{words}"))
    for verb, path in rules:
        draft.add(parse_capability(f"filesystem:{verb}:{path}"), optional=True)
    policy = draft.build()
    try:
        resolved = resolve_policy(policy, ROOT, host)
        container = Container(workspace=workspace)
        plan = build(policy, Command(("x",), ROOT), resolved, host, run_id="1", container=container)
    except CorralError:
        assume(False)
    views = Views(resolved, workspace, link_views(resolved))
    return host, plan, views, build_places(plan, views, SCRATCH, ABI)


@examples(150)
@given(placed_plans())
def test_every_rule_is_a_mount_that_is_looked_for(case) -> None:
    _, plan, views, placed = case
    by_path = {place.path: place for place in placed}
    hidden = [place.path for place in placed if place.rank == DENIED]
    wanted = [(grant.target, grant.access is FsAccess.READ) for grant in plan.resolved.grants]
    wanted += [(shield.target, True) for shield in plan.shields] + [(pin, False) for pin in plan.pins]

    for target, read_only in wanted:
        for view in views.of(target.path):
            if any(is_beneath(view.inside, path) for path in hidden):
                continue
            place = by_path[view.inside]
            assert place.source == target.path
            assert (place.expect.device, place.expect.inode) == (target.device, target.inode)
            assert ExpectFlag.MOUNT_POINT in place.expect.flags
            if read_only:
                assert place.read_only and ExpectFlag.READ_ONLY in place.expect.flags
    for target in plan.resolved.denied:
        if target.kind is PathKind.MISSING:
            continue
        for view in views.of(target.path):
            above = [path for path in hidden if is_beneath(view.inside, path)]
            assert above
            if view.inside in by_path:
                place = by_path[view.inside]
                assert place.source.startswith(f"{SCRATCH}/nothing") and place.read_only
                assert ExpectFlag.OTHER in place.expect.flags
                assert (place.expect.device, place.expect.inode) == (target.device, target.inode)


@examples(150)
@given(placed_plans())
def test_no_engine_has_to_make_a_place_on_the_host(case) -> None:
    host, _, _, placed = case
    for place in placed:
        above = [other for other in placed if place.path.startswith(f"{other.path}/")]
        if not above:
            continue
        nearest = max(above, key=lambda other: len(other.path))
        there = host.lstat(nearest.source + place.path[len(nearest.path) :])
        assert there is not None and not there.is_link
        assert there.is_directory == place.is_directory


@examples(150)
@given(placed_plans())
def test_mounts_go_from_shallow_to_deep_and_each_place_is_mounted_once(case) -> None:
    *_, placed = case
    depths = [place.path.count("/") for place in placed]

    assert depths == sorted(depths)
    assert len({place.path for place in placed}) == len(placed)


@examples(150)
@given(placed_plans())
def test_a_writable_place_is_one_that_the_policy_grants(case) -> None:
    _, plan, _, placed = case
    writable = [grant.target.path for grant in plan.resolved.grants if grant.access is FsAccess.WRITE]
    for place in placed:
        if not place.read_only:
            assert any(is_beneath(place.source, path) for path in writable)
