"""Hold the grants of a narrowed policy to the wider one: what a link makes of a path only the host knows.

`a & b` compares text. It says in `FsRule.within` and `Policy.read_only` what must be true of real paths.
"""

from __future__ import annotations

from corral.model.errors import PolicyError
from corral.model.plan import PathKind
from corral.model.policy import FsAccess
from corral.model.record import Record
from corral.model.rules.pattern import is_pattern, is_protected, relative_parts
from corral.planning.resolve import Resolver, expand, is_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from corral.model.backend import Host
    from corral.model.plan import ResolvedPath
    from corral.model.policy import FsRule, Policy


class _Mark(Record):
    """A place where one of the policies that were met permits less than around it."""

    text: str
    path: str
    is_private: bool  # nothing of the host is there; else it is read at most


def hold_within(policy: Policy, workspace: str, host: Host, resolver: Resolver) -> list[FsRule]:
    """The rules without those optional ones that lead out of a wider grant. Raises PolicyError for others."""
    if not any(rule.within for rule in policy.fs):
        return list(policy.fs)
    marks = list(_marks(policy, workspace, host))
    kept = []
    for rule in policy.fs:
        if is_pattern(rule.path):
            kept.append(rule)  # which grants nothing
            continue
        target = resolver.resolve(expand(rule.path, workspace, host.home))
        why = ""
        if target.kind is not PathKind.MISSING:
            for text in rule.within:
                top = resolver.resolve(expand(text, workspace, host.home)).path
                why = why or _why_outside(rule, target.path, text, top, marks)
                if rule.access is FsAccess.WRITE and _is_protected(target.path, top, policy.protect):
                    rule = rule.replace(access=FsAccess.READ)  # noqa: PLW2901 - the rule as it can hold
        if why and not rule.optional:
            raise PolicyError(
                "grant-through-link",
                f"{rule.path} cannot be granted",
                why=why,
                fix=f"grant {target.path} in every policy that is combined, if that is what is meant",
            )
        if not why:
            kept.append(rule)
    return kept


def _why_outside(rule: FsRule, real: str, text: str, top: str, marks: list[_Mark]) -> str:
    """Why a path is not what a wider policy grants at `text`; empty if it is.

    TRUST: whoever can write there can make links. A mark that the rule's text lies beneath has been taken
    into account when the policies were met; any other that the real path lies beneath has not.
    """
    from corral.model.rules.reach import is_beneath as is_said_beneath  # only a narrowed policy pays for it

    if not is_beneath(real, top):
        return f"it leads to {real}, and of what is there a wider policy grants just {text}"
    for mark in marks:
        between = mark.path != top and is_beneath(mark.path, top) and is_beneath(real, mark.path)
        narrows = mark.is_private or rule.access is FsAccess.WRITE
        if between and narrows and not is_said_beneath(rule.path, mark.text):
            return f"it leads to {real}, of which a wider policy grants less, by the name {mark.text}"
    return ""


def _is_protected(real: str, top: str, names: Collection[str]) -> bool:
    """Whether a path in a wider grant is one that this grant protects, by whatever name it was asked for."""
    return is_protected(relative_parts(real, top) if is_beneath(real, top) else (), names)


def find_ceilings(
    rules: Collection[FsRule], workspace: str, host: Host, resolver: Resolver
) -> dict[str, tuple[str, ...]]:
    """Real path of each writable grant that was narrowed -> real paths of the wider grants around it.

    A path that some rule grants by itself was written down by somebody, and has none.
    """
    found: dict[str, set[str]] = {}
    plain = set()
    for rule in rules:
        if rule.access is not FsAccess.WRITE:
            continue
        path = resolver.resolve(expand(rule.path, workspace, host.home)).path
        if not rule.within:
            plain.add(path)
        tops = (resolver.resolve(expand(text, workspace, host.home)).path for text in rule.within)
        found.setdefault(path, set()).update(tops)
    return {path: tuple(sorted(tops)) for path, tops in found.items() if tops and path not in plain}


def _marks(policy: Policy, workspace: str, host: Host) -> Iterator[_Mark]:
    resolver = Resolver(host)  # of its own: the links on the way here are not links to what is granted
    for text in sorted(policy.private):
        yield _Mark(text, expand(text, workspace, host.home), is_private=True)
    read = {rule.path for rule in policy.fs if rule.access is FsAccess.READ}
    for text in sorted(each for each in read | policy.read_only if not is_pattern(each)):
        yield _Mark(text, resolver.resolve(expand(text, workspace, host.home)).path, is_private=False)


def most_read(
    policy: Policy,
    workspace: str,
    host: Host,
    *,
    granted: Mapping[ResolvedPath, FsAccess],
    denied: Collection[ResolvedPath],
    private: Collection[str],
) -> Iterator[ResolvedPath]:
    """The places in writable grants that a wider policy lets be read only, whatever name it has for them."""
    if not policy.read_only:
        return
    resolver = Resolver(host)
    around: dict[str, FsAccess | None] = dict.fromkeys(private)
    around |= {target.path: access for target, access in granted.items()}
    for text in sorted(each for each in policy.read_only if not is_pattern(each)):
        target = resolver.resolve(expand(text, workspace, host.home))
        above = [path for path in around if is_beneath(target.path, path)]
        if target.kind is PathKind.MISSING or target.path in around or not above:
            continue
        hidden = any(is_beneath(target.path, denial.path) for denial in denied)
        if around[max(above, key=len)] is FsAccess.WRITE and not hidden:
            yield target
