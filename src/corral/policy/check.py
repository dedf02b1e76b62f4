"""Check a policy that a program has put together: the same bounds as for one that was written as text."""

from __future__ import annotations

from corral.model.errors import PolicyError
from corral.model.feature import Feature
from corral.model.policy import Defaults, EnvPolicy, FsAccess, Limits, NetPolicy
from corral.model.rules.path_text import name_within, path_or_pattern
from corral.model.rules.pattern import check_escapes, is_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from corral.model.policy import Policy

_MOST = 2.0**63


def check_policy(policy: Policy) -> None:
    """Raise PolicyError for values that cannot mean anything."""
    for problem in _problems(policy):
        raise PolicyError(
            "impossible-policy",
            "invalid policy",
            why=problem,
            fix="build it from capabilities, which are checked as they are read: corral.build_policy",
        )


def _problems_of_pattern(text: str, canonical: Callable[[str], str]) -> Iterator[str]:
    """A program may have spelled a pattern in its own way: what is compared later must be spelled in one."""
    try:
        check_escapes(text)
        if is_pattern(text) and canonical(text) != text:
            yield f"the pattern {text!r} has to be written {canonical(text)!r}"
    except ValueError as problem:
        yield str(problem)


def _problems_of_paths(policy: Policy) -> Iterator[str]:
    for rule in policy.fs:
        if "\0" in rule.path or not rule.path:
            yield f"{rule.path!r} is not a path"
        yield from _problems_of_pattern(rule.path, path_or_pattern)
        if rule.access is FsAccess.WRITE and is_pattern(rule.path):
            yield f"{rule.path!r} is a pattern, and only whole paths are granted"
    for path in policy.private:
        if is_pattern(path):
            yield f"{path!r} is a pattern, and only whole paths can be private"
    for path in policy.read_only:
        yield from _problems_of_pattern(path, path_or_pattern)
    for name in policy.protect:
        if is_pattern(name):
            yield from _problems_of_pattern(name, name_within)
        elif "\0" in name or not set(name.split("/")).isdisjoint({"", ".", ".."}):
            yield f"{name!r} is not a plain relative path"


def _problems(policy: Policy) -> Iterator[str]:
    kinds = (("limits", Limits), ("defaults", Defaults), ("net", NetPolicy), ("env", EnvPolicy))
    for name, kind in kinds:
        value = getattr(policy, name)
        if not isinstance(value, kind):
            yield f"{name} is {value!r}, which is not a corral.{kind.__name__}"
            return
    for limits, field in [
        *((policy.limits, field) for field in Limits._fields),
        *((policy.defaults, field) for field in Defaults._fields),
    ]:
        value = getattr(limits, field)
        if value is not None and not (isinstance(value, int | float) and 0 < value < _MOST):
            yield f"{field} is {value!r}"
    yield from _problems_of_paths(policy)
    for name in policy.requires:
        if name not in tuple(Feature):
            yield f"it requires {name!r}, and there is no such feature"
    for name, value in policy.env.fixed:
        if not name or "=" in name or "\0" in name + value:
            yield f"{name!r} cannot be set in an environment"
