"""Laws of policies: `&` is the greatest lower bound of the order `<=`, and says what both permit."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from corral.model.network.endpoint import Endpoint, host_covers, read_endpoint
from corral.model.policy import FsAccess, NetMode, NetPolicy, Policy
from corral.model.rules.reach import Reach
from support.policies import connections, grants, nets, paths, policies, rules, variables

some = policies()
#: Without denials more is left to compare.
generous = policies(grants)
either = st.one_of(some, generous)
file_policies = st.builds(
    Policy, fs=st.lists(rules, max_size=4).map(tuple), private=st.frozensets(paths, max_size=1)
)


def _equivalent(a: Policy, b: Policy) -> bool:
    return a <= b and b <= a


@given(either, either)
def test_the_meet_does_not_depend_on_the_order(a: Policy, b: Policy) -> None:
    assert a & b == b & a


@given(either, either, either)
def test_the_meet_of_three_is_the_same_whichever_two_come_first(a: Policy, b: Policy, c: Policy) -> None:
    assert (a & b) & c == a & (b & c)


@given(either, either)
def test_a_meet_met_with_itself_or_with_its_sides_stays_the_same(a: Policy, b: Policy) -> None:
    both = a & b

    assert both & both == both
    assert both & a & b == both


@given(either)
def test_a_policy_met_with_itself_permits_the_same(a: Policy) -> None:
    assert _equivalent(a & a, a)


@given(either, either)
def test_the_meet_is_never_wider_than_either_side(a: Policy, b: Policy) -> None:
    assert a & b <= a
    assert a & b <= b


@given(either, either, either)
def test_what_is_below_both_is_below_the_meet(a: Policy, b: Policy, c: Policy) -> None:
    below = c & a & b  # a policy that is below both by chance is rare

    assert below <= a & b
    if c <= a and c <= b:
        assert c <= a & b


@given(file_policies, file_policies, file_policies)
def test_what_reaches_fewer_files_than_both_reaches_fewer_than_the_meet(
    a: Policy, b: Policy, c: Policy
) -> None:
    assert (c <= a and c <= b) == (c <= a & b)


@given(either)
def test_every_policy_is_within_itself(a: Policy) -> None:
    assert a <= a


@given(file_policies, file_policies, file_policies)
def test_being_within_is_handed_on(a: Policy, b: Policy, c: Policy) -> None:
    if a <= b and b <= c:
        assert a <= c


@given(either, either, either)
def test_being_within_is_handed_on_along_a_chain_of_meets(a: Policy, b: Policy, c: Policy) -> None:
    assert (a & b & c) <= (a & b) <= a
    assert (a & b & c) <= a


@given(either, either)
def test_being_within_is_to_lose_nothing_in_the_meet(a: Policy, b: Policy) -> None:
    assert (a <= b) == _equivalent(a & b, a)
    assert a & b <= b and _equivalent(a & b & b, a & b)


@given(some, some, paths)
def test_a_path_is_open_to_the_meet_as_far_as_to_both(a: Policy, b: Policy, path: str) -> None:
    assert Reach(a & b).access(path) == min(Reach(a).access(path), Reach(b).access(path))


@given(some, some)
def test_no_denial_and_no_private_area_is_ever_lost(a: Policy, b: Policy) -> None:
    denied = {rule.path for rule in (*a.fs, *b.fs) if rule.access is FsAccess.DENY}

    assert {rule.path for rule in (a & b).fs if rule.access is FsAccess.DENY} == denied
    assert (a & b).private == a.private | b.private


@given(generous, generous)
def test_a_grant_remembers_every_wider_grant_that_it_comes_from(a: Policy, b: Policy) -> None:
    for rule in (a & b).fs:
        sources = {Reach(side).nearest(rule.path).path for side in (a, b)}

        assert set(rule.within) == sources - {rule.path}
        assert list(rule.within) == sorted(rule.within)


def _permits(net: NetPolicy, connection: tuple[str, str, int]) -> bool:
    wanted = Endpoint(*connection)
    if net.mode is NetMode.NONE or any(host_covers(host, wanted.host) for host in net.deny):
        return False
    return net.mode is NetMode.FULL or any(read_endpoint(text).covers(wanted) for text in net.allow)


@given(nets, nets, connections)
def test_a_connection_is_open_to_the_meet_if_it_is_to_both(
    a: NetPolicy, b: NetPolicy, connection: tuple[str, str, int]
) -> None:
    both = (Policy(net=a) & Policy(net=b)).net

    assert _permits(both, connection) == (_permits(a, connection) and _permits(b, connection))


@given(nets, nets, connections)
def test_what_one_network_permits_a_wider_one_permits(
    a: NetPolicy, b: NetPolicy, connection: tuple[str, str, int]
) -> None:
    assume(Policy(net=a) <= Policy(net=b))

    assert _permits(b, connection) or not _permits(a, connection)


@given(nets)
def test_a_network_that_permits_nothing_is_none(a: NetPolicy) -> None:
    met = (Policy(net=a) & Policy(net=a)).net

    assert (met.mode is NetMode.NONE) == (Policy(net=a) <= Policy())


@given(some, some, variables)
def test_a_variable_passes_the_meet_if_it_passes_both(a: Policy, b: Policy, name: str) -> None:
    value = {name: "x"}

    assert (a & b).env.choose(value) == {
        key: text for key, text in a.env.choose(value).items() if b.env.choose({key: text})
    }


@given(some)
def test_the_empty_policy_is_below_those_that_demand_nothing(a: Policy) -> None:
    """It is not below all: who limits or denies something is stricter than a policy that says nothing."""
    demanding = a.deny_syscalls or any(
        value is not None for value in (*a.limits._values(), *a.defaults._values())
    )

    assert (Policy() <= a) == (not demanding)


@given(some, some)
def test_what_sets_the_same_may_be_compared_by_hash_and_digest(a: Policy, b: Policy) -> None:
    assert hash(a & b) == hash(b & a)
    assert (a & b).digest() == (b & a).digest()
