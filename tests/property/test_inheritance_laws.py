"""Laws of inheritance: a child never gets more than its parent has, and what it does not get is said."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from corral.model.policy import Policy, Response
from corral.model.rules.capability import capabilities_of
from corral.model.rules.pattern import is_pattern
from corral.model.rules.reach import LEVELS, FsAccess, Reach
from support.policies import grants, policies

parents = policies()
requests = policies()


def _with_the_demands_of(parent: Policy, request: Policy) -> Policy:
    """A request as the child would hold it if none of its authority were cut."""

    def completed(kind: str) -> Any:
        asked, above = getattr(request, kind), getattr(parent, kind)
        return asked.replace(
            **{field: getattr(above, field) for field in asked._fields if getattr(asked, field) is None}
        )

    return request.replace(
        limits=completed("limits"),
        defaults=completed("defaults"),
        protect=request.protect | parent.protect,
        deny_syscalls=request.deny_syscalls | parent.deny_syscalls,
        response=parent.response if request.response is Response.DENY else request.response,
    )


@given(parents, requests)
def test_a_child_is_within_its_parent_and_within_what_it_asked_for(parent: Policy, request: Policy) -> None:
    child = parent.grant(request).policy

    assert child <= parent
    assert child <= request


@given(parents, requests, policies(grants))
def test_a_grandchild_is_within_everyone_above_it(parent: Policy, request: Policy, further: Policy) -> None:
    child = parent.grant(request).policy
    grandchild = child.grant(further).policy

    assert grandchild <= child
    assert grandchild <= parent
    assert grandchild == parent.grant(request & further).policy


@given(parents, requests)
def test_nothing_is_cut_if_and_only_if_all_was_permitted(parent: Policy, request: Policy) -> None:
    asked, most = request.defaults, parent.defaults
    pairs = [(getattr(asked, field), getattr(most, field)) for field in asked._fields]
    # A limit of the parent's holds in the place of a default, but a wider default was asked for in vain.
    has_defaults = all(None in {wanted, bound} or wanted <= bound for wanted, bound in pairs)
    is_permitted = has_defaults and _with_the_demands_of(parent, request) <= parent
    assert (parent.grant(request).cuts == ()) == is_permitted


@given(parents, requests)
def test_a_request_for_what_is_left_is_granted_in_full(parent: Policy, request: Policy) -> None:
    child = parent.grant(request).policy

    assert parent.grant(child).cuts == ()
    assert parent.grant(child).policy == child


@given(parents, requests)
def test_what_was_not_cut_the_child_has(parent: Policy, request: Policy) -> None:
    given_ = parent.grant(request)
    cut = {each.capability for each in given_.cuts}
    held = capabilities_of(given_.policy)
    reach, wanted = Reach(given_.policy), Reach(request)
    for capability in set(capabilities_of(request)) - cut:
        if capability.kind == "filesystem" and capability.verb in {"read", "write"}:
            if is_pattern(capability.target):  # it makes what is writable read-only, and grants nothing
                continue
            level = min(LEVELS[FsAccess(capability.verb)], wanted.access(capability.target))
            assert reach.access(capability.target) >= level
        elif capability.kind in {"module", "syscall", "process", "memory", "pids", "output"}:
            assert capability in held


@given(parents, requests)
def test_what_is_kept_of_a_cut_is_less_and_the_child_has_it(parent: Policy, request: Policy) -> None:
    given_ = parent.grant(request)
    reach = Reach(given_.policy)
    for cut in given_.cuts:
        assert cut.capability in capabilities_of(request)
        assert cut.why
        for kept in cut.kept:
            assert kept.kind == cut.capability.kind
            if kept.kind == "filesystem":
                assert reach.access(kept.target) >= LEVELS[FsAccess(kept.verb)]
