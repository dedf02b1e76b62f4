"""Check a policy that a program has put together: the same bounds as for one that was written as text."""

from __future__ import annotations

from corral.model.errors import PolicyError
from corral.model.policy import Defaults, EnvPolicy, Limits, NetPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.policy import Policy

_MOST = 2.0**63


def check_policy(policy: Policy) -> None:
    """Raise PolicyError for values that cannot mean anything."""
    for problem in _problems(policy):
        raise PolicyError(
            "impossible-policy",
            "the policy cannot be enforced by anyone",
            why=problem,
            fix="build it from capabilities, which are checked as they are read: corral.build_policy",
        )


def _problems(policy: Policy) -> Iterator[str]:
    kinds = (("limits", Limits), ("defaults", Defaults), ("net", NetPolicy), ("env", EnvPolicy))
    for name, kind in kinds:
        value = getattr(policy, name)
        if not isinstance(value, kind):
            yield f"{name} is {value!r}, which is no corral.{kind.__name__}"
            return
    for limits, field in [
        *((policy.limits, field) for field in Limits._fields),
        *((policy.defaults, field) for field in Defaults._fields),
    ]:
        value = getattr(limits, field)
        if value is not None and not (isinstance(value, int | float) and 0 < value < _MOST):
            yield f"{field} is {value!r}"
    for rule in policy.fs:
        if "\0" in rule.path or not rule.path:
            yield f"{rule.path!r} is not a path"
    for name in policy.protect:
        if "\0" in name or not set(name.split("/")).isdisjoint({"", ".", ".."}):
            yield f"{name!r} is not a plain relative path"
    for name, value in policy.env.fixed:
        if not name or "=" in name or "\0" in name + value:
            yield f"{name!r} cannot be set in an environment"
