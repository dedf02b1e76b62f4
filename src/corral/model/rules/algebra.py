"""The algebra of policies: `meet` is what both permit, `is_within` whether one permits no more than another.

The order is about what reaches the host: a private area or a variable that is set is no authority. Lower
limits, more protected names and more denied system calls permit less; so no policy is below all others, and
`Policy()`, which limits nothing, is below those alone that demand nothing either.

There is no join. Authority is given by whoever has it, never computed from what two others have.
"""

from __future__ import annotations

from corral.model.network.endpoint import (
    Endpoint,
    denial_covers,
    grant_covers,
    host_covers,
    is_address,
    read_endpoint,
)
from corral.model.policy import Defaults, EnvPolicy, Limits, NetMode, NetPolicy, Policy
from corral.model.rules.reach import Reach, is_within_files, meet_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    T = TypeVar("T")


def meet(a: Policy, b: Policy) -> Policy:
    """The widest policy that permits nothing which a or b does not; in canonical form."""
    files = meet_files(a, b)
    return Policy(
        name=a.name if a.name == b.name else "custom",
        fs=files.fs,
        private=files.private,
        read_only=files.read_only,
        protect=a.protect | b.protect,
        tools=a.tools and b.tools,
        net=meet_net(a.net, b.net),
        limits=_meet_limits(a.limits, b.limits),
        defaults=_meet_defaults(a.defaults, b.defaults),
        env=_meet_env(a.env, b.env),
        deny_syscalls=a.deny_syscalls | b.deny_syscalls,
        spawn=a.spawn and b.spawn,
        debug=a.spawn and b.spawn and a.debug and b.debug,
        publish=a.publish & b.publish,
        modules=a.modules & b.modules,
        response=max(a.response, b.response, key=lambda response: response.severity),
        requires=a.requires | b.requires,
    )


def is_within(a: Policy, b: Policy) -> bool:
    """Whether all that a permits is permitted by b too, as far as their texts tell."""
    return (
        is_within_files(a, b)
        and _protects_as_much(a, b)
        and a.tools <= b.tools
        and is_within_net(a.net, b.net)
        and all(_at_most(_limit(a, field), _limit(b, field)) for field in Limits._fields)
        and all(_at_most(_default(a, field), getattr(b.defaults, field)) for field in Defaults._fields)
        and all(_is_covered(name, b.env.passed, name_covers) for name in a.env.passed)
        and a.deny_syscalls >= b.deny_syscalls
        and a.spawn <= b.spawn
        and (a.spawn and a.debug) <= b.debug
        and a.publish <= b.publish
        and a.modules <= b.modules
        and a.response.severity >= b.response.severity
        and a.requires >= b.requires
    )


def _protects_as_much(a: Policy, b: Policy) -> bool:
    """A protected name shields what lies beneath it. Who writes nothing need not protect anything."""
    return not Reach(a).writes() or all(
        any(f"{name}/".startswith(f"{shield}/") for shield in a.protect) for name in b.protect
    )


def meet_net(a: NetPolicy, b: NetPolicy) -> NetPolicy:
    """The connections that both permit; NONE where there are none left, which is the stronger promise."""
    deny = _widest(a.deny | b.deny, host_covers)
    if "*" in deny or NetMode.NONE in {a.mode, b.mode}:
        return NetPolicy(NetMode.NONE, deny=deny)
    if a.mode is b.mode is NetMode.FULL:
        return NetPolicy(NetMode.FULL, deny=deny)
    ours, theirs = _endpoints(a), _endpoints(b)
    if a.mode is NetMode.FULL or b.mode is NetMode.FULL:
        # An address may be that of a name which is denied to whoever has all the rest.
        bound = b if a.mode is NetMode.LIMITED else a
        met = {each for each in ours or theirs if not (bound.deny and is_address(each.host))}
    else:
        pairs = [_meet_endpoints(one, other, has_denied=bool(deny)) for one in ours for other in theirs]
        met = {endpoint for endpoint in pairs if endpoint is not None}
    reached = {endpoint for endpoint in met if not _is_covered(endpoint.host, deny, denial_covers)}
    if not reached:
        return NetPolicy(NetMode.NONE, deny=deny)
    allow = frozenset(str(endpoint) for endpoint in _widest(reached, Endpoint.covers))
    return NetPolicy(NetMode.LIMITED, allow, deny, fronting=_permits_fronting(a) and _permits_fronting(b))


def is_within_net(a: NetPolicy, b: NetPolicy) -> bool:
    """Whether b permits every connection that a does.

    One pattern has to be covered by one pattern: no number of narrower ones makes up a wider one.
    """
    if a.mode is NetMode.NONE or "*" in a.deny:
        return True
    if a.mode is NetMode.FULL:
        return b.mode is NetMode.FULL and all(_is_covered(host, a.deny, host_covers) for host in b.deny)
    if a.fronting and not _permits_fronting(b):
        return False
    theirs = _endpoints(b)
    return all(
        _is_granted(endpoint, b, theirs)
        and not _is_covered(endpoint.host, b.deny, denial_covers)
        and all(_is_covered(host, a.deny, host_covers) for host in b.deny if host_covers(endpoint.host, host))
        for endpoint in _endpoints(a)
        if not _is_covered(endpoint.host, a.deny, denial_covers)
    )


def _permits_fronting(net: NetPolicy) -> bool:
    return net.fronting or net.mode is NetMode.FULL


def _is_granted(endpoint: Endpoint, net: NetPolicy, granted: set[Endpoint]) -> bool:
    if net.deny and is_address(endpoint.host):
        return any(each.covers(endpoint) and each.host == endpoint.host for each in granted)
    return net.mode is NetMode.FULL or _is_covered(endpoint, granted, Endpoint.covers)


def _endpoints(net: NetPolicy) -> set[Endpoint]:
    return {read_endpoint(text) for text in net.allow} if net.mode is NetMode.LIMITED else set()


def _meet_endpoints(a: Endpoint, b: Endpoint, *, has_denied: bool) -> Endpoint | None:
    """Part by part: neither of tcp:db:443 and https:* covers the other, and https:db is in both."""
    scheme = _narrower(a.scheme, b.scheme, lambda wide, narrow: wide in {narrow, "tcp"})
    host = _narrower(a.host, b.host, lambda wide, narrow: grant_covers(wide, narrow, has_denied=has_denied))
    return Endpoint(scheme, host, a.port) if scheme and host and a.port == b.port else None


def _limit(policy: Policy, field: str) -> float | None:
    found: float | None = getattr(policy.limits, field)
    return found


def _default(policy: Policy, field: str) -> float | None:
    """What holds in the place of a default: a limit that is set holds on every host."""
    found = (getattr(policy.defaults, field), getattr(policy.limits, field, None))
    return min((value for value in found if value is not None), default=None)


def _at_most(value: float | None, bound: float | None) -> bool:
    return bound is None or (value is not None and value <= bound)


def _meet_limits(a: Limits, b: Limits) -> Limits:
    pairs = {field: (getattr(a, field), getattr(b, field)) for field in Limits._fields}
    return Limits(
        **{field: ours if _at_most(ours, theirs) else theirs for field, (ours, theirs) in pairs.items()}
    )


def _meet_defaults(a: Defaults, b: Defaults) -> Defaults:
    pairs = {field: (getattr(a, field), getattr(b, field)) for field in Defaults._fields}
    return Defaults(
        **{field: ours if _at_most(ours, theirs) else theirs for field, (ours, theirs) in pairs.items()}
    )


def _meet_env(a: EnvPolicy, b: EnvPolicy) -> EnvPolicy:
    """Where both set one variable, the value that sorts first: no better reason is the same in any order."""
    ours, theirs = dict(a.fixed), dict(b.fixed)
    fixed = {
        name: min(side[name] for side in (ours, theirs) if name in side) for name in sorted({*ours, *theirs})
    }
    return EnvPolicy(meet_names(a.passed, b.passed), tuple(fixed.items()))


def meet_names(a: frozenset[str], b: frozenset[str]) -> frozenset[str]:
    """The variables that both pass."""
    pairs = [_narrower(one, other, name_covers) for one in a for other in b]
    return _widest({name for name in pairs if name is not None}, name_covers)


def name_covers(pattern: str, name: str) -> bool:
    """Whether a name or pattern of variables stands for everything that another one stands for."""
    if pattern == name:
        return True
    return pattern.endswith("*") and name.removesuffix("*").startswith(pattern[:-1])


def _narrower(a: T, b: T, covers: Callable[[T, T], bool]) -> T | None:
    """Patterns either nest or have nothing in common."""
    return b if covers(a, b) else a if covers(b, a) else None


def _is_covered(item: T, patterns: Iterable[T], covers: Callable[[T, T], bool]) -> bool:
    return any(covers(pattern, item) for pattern in patterns)


def _widest(items: Iterable[T], covers: Callable[[T, T], bool]) -> frozenset[T]:
    """Without those that another one covers."""
    found = frozenset(items)
    return frozenset(item for item in found if not any(covers(by, item) for by in found if by != item))
