"""Reach: which of the host's files a policy reaches, as far as its text tells.

Two names of one place (`~` and `/home/ann`, a link and what it leads to) are two places here. Therefore `<=`
compares what is said. A meet is safe on every host all the same, because it never forgets what narrows:
denials, private areas, `within` and `read_only`. The planner, which sees the links, holds the grants to them.

A pattern denies what fulfils it, or makes it read-only, and grants nothing. Of two patterns nobody tells
whether one stands for all that the other one does: only the same text counts, and what lies beneath it.
"""

from __future__ import annotations

import posixpath

from corral.model.policy import FsAccess, FsRule
from corral.model.record import Record
from corral.model.rules.pattern import (
    descend,
    escape,
    glob_of,
    is_floating,
    is_pattern,
    is_protected,
    literal,
    split_base,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from corral.model.policy import Policy
    from corral.model.rules.pattern import Glob

NONE, READ, WRITE = range(3)
LEVELS = {FsAccess.DENY: NONE, FsAccess.READ: READ, FsAccess.WRITE: WRITE}
ACCESS = {READ: FsAccess.READ, WRITE: FsAccess.WRITE}


class FileReach(Record):
    """The part of a policy that is about files."""

    fs: tuple[FsRule, ...]
    private: frozenset[str]
    read_only: frozenset[str]


class Reach:
    """The rules of one policy, ready to be asked about paths."""

    def __init__(self, policy: Policy) -> None:
        self.granted: dict[str, FsRule] = {}
        self.denied: dict[str, FsRule] = {}
        read = set()  # by patterns, which grant nothing
        for rule in policy.fs:
            if rule.access is not FsAccess.DENY and is_pattern(rule.path):
                read.add(rule.path)
                continue
            kind = self.denied if rule.access is FsAccess.DENY else self.granted
            path = plain(rule.path)
            kind[path] = _united(kind.get(path), rule.replace(path=path))
        self.private = frozenset(plain(path) for path in policy.private)
        self.protect = policy.protect
        self.read_only = frozenset(plain(path) for path in policy.read_only | read)
        self._denying = _Patterns(filter(is_pattern, self.denied), self)
        self._reading = _Patterns(filter(is_pattern, self.read_only), self)

    def access(self, path: str) -> int:
        """What is permitted at a path: a denial above it decides, else the nearest of all that is said."""
        if any(above in self.denied for above in upwards(path)) or self._denying.hold(path):
            return NONE
        most = READ if self._reading.hold(path) else WRITE
        for above in upwards(path):
            if above in self.granted:
                if above != path and self._is_protected_above(path):
                    most = READ
                return min(most, LEVELS[self.granted[above].access])
            if above in self.private:
                return NONE
            if above in self.read_only:
                most = READ
        return NONE

    def _is_protected_above(self, path: str) -> bool:
        """Whether a path is at or beneath a protected name of a writable grant, or of a repository in one."""
        for above in upwards(path):
            rule = self.granted.get(above)
            if rule is not None and rule.access is FsAccess.WRITE and above != path:
                names = path[len(above) :].strip("/").split("/")
                if is_protected(map(literal, names), self.protect):
                    return True
        return False

    def nearest(self, path: str) -> FsRule | None:
        """The grant that decides about a path, or None where nothing of the host is reached."""
        if self.access(path) == NONE:
            return None
        return next(self.granted[above] for above in upwards(path) if above in self.granted)

    def is_exempt(self, path: str) -> bool:
        """Whether floating patterns leave alone what is granted at a path: a preset's programs."""
        rule = next((self.granted[above] for above in upwards(path) if above in self.granted), None)
        return rule is not None and rule.optional and rule.access is FsAccess.READ and not rule.within

    def narrows_as(self, other: Reach) -> bool:
        """Whether all that patterns remove from another policy is removed here, or not reached."""
        return all(self._takes(text, other, NONE) for text in other.denied if is_pattern(text)) and all(
            self._takes(text, other, READ) for text in other.read_only if is_pattern(text)
        )

    def _takes(self, text: str, other: Reach, most: int) -> bool:
        same = self.denied.keys() if most == NONE else {*self.denied, *self.read_only}
        concerned = [path for path in self.granted if self.access(path) > most and _may_concern(text, path)]
        if any(above in same for above in upwards(text)):
            # Which paths are a preset's alone each policy says for itself.
            return not is_floating(text) or all(
                other.is_exempt(path) or not self.is_exempt(path) for path in concerned
            )
        return not concerned

    def marks(self) -> set[str]:
        """Every path that is named. Between them nothing changes: who knows these knows all."""
        return {*self.granted, *self.denied, *self.private, *self.read_only}

    def narrowing(self) -> set[str]:
        """Paths that may take writing away from a grant elsewhere, if a link or another spelling leads there.

        A read rule that a meet has made is told by its `within`: what it took away is remembered already.
        """
        own = {
            path for path, rule in self.granted.items() if rule.access is FsAccess.READ and not rule.within
        }
        return own | self.read_only

    def writes(self) -> bool:
        return any(self.access(path) == WRITE for path in self.granted)


def meet_files(a: Policy, b: Policy) -> FileReach:
    """What both permit, in canonical order."""
    sides = Reach(a), Reach(b)
    denied = sides[0].denied | sides[1].denied
    for path in sides[0].denied.keys() & sides[1].denied.keys():
        denied[path] = _united(sides[0].denied[path], sides[1].denied[path])
    granted = {}
    for path in sides[0].granted.keys() | sides[1].granted.keys():
        level = min(side.access(path) for side in sides)
        if level != NONE:
            granted[path] = _met_rule(path, ACCESS[level], sides)
    rules = sorted((*denied.values(), *granted.values()), key=lambda rule: (rule.path, rule.access.value))
    return FileReach(
        fs=tuple(rules),
        private=sides[0].private | sides[1].private,
        read_only=_met_read_only(granted, denied, sides),
    )


def is_within_files(a: Policy, b: Policy) -> bool:
    """Whether b permits at every path what a permits there."""
    inner, outer = Reach(a), Reach(b)
    return inner.narrows_as(outer) and all(
        inner.access(path) <= outer.access(path) for path in inner.marks() | outer.marks()
    )


class _Patterns:
    """Patterns of one policy, to be asked about paths as their texts spell them."""

    def __init__(self, texts: Iterable[str], reach: Reach) -> None:
        self._reach = reach
        self._anchored: list[tuple[str, Glob]] = []
        self._floating: list[Glob] = []
        for text in texts:
            if is_floating(text):
                self._floating.append(glob_of(text, text))
            else:
                anchor, _, rest = text.partition("/")
                self._anchored.append((anchor, glob_of(text, rest)))

    def hold(self, path: str) -> bool:
        """Whether a path fulfils one for sure, or lies in what does."""
        if not (self._anchored or self._floating) or is_pattern(path):
            return False
        anchor, _, rest = path.partition("/")
        names = [literal(name) for name in rest.split("/") if name]
        globs = [glob for beginning, glob in self._anchored if beginning == anchor]
        if globs and ".." not in names and descend(globs, names)[0]:
            return True
        return bool(self._floating) and any(
            bool(descend(self._floating, _names_from(path, above))[0])
            for above in upwards(path)
            if above in self._reach.granted and not self._reach.is_exempt(above)
        )


def _names_from(path: str, above: str) -> list[str]:
    """The names that lead down to a path, or its own if it is granted itself and may be a file."""
    names = [literal(name) for name in path[len(above) :].split("/") if name]
    return names or [literal(path.rpartition("/")[2])]


def _may_concern(text: str, path: str) -> bool:
    """Whether a pattern may hold for anything at or beneath a path."""
    if is_floating(text):
        return True
    anchor, _, rest = text.partition("/")
    base = escape(split_base(rest)[0])
    start = f"{anchor}/{base}" if base else anchor or "/"
    return is_beneath(path, start) or is_beneath(start, path)


def plain(path: str) -> str:
    """A path as capabilities have it: a rule that a program made may say `/a/./b/`. `~/../b` stays."""
    if is_pattern(path) or (
        "//" not in path and "/." not in path and (path == "/" or not path.endswith("/"))
    ):
        return path  # a pattern is for directories alone with a slash at its end
    anchor, _, rest = path.partition("/")
    if not anchor:
        return posixpath.normpath("/" + rest.lstrip("/"))
    steps = posixpath.normpath(rest.lstrip("/"))
    return anchor if steps == "." else f"{anchor}/{steps}"


def upwards(path: str) -> Iterator[str]:
    """A path and all above it, from the deepest; nothing is known of what is above `~` or `${workspace}`.

    What leads out of these (`~/../x`) is not beneath them, though the text begins with their name.
    """
    yield path
    while "/" in path and path != "/" and not path.endswith("/.."):
        path = path.rpartition("/")[0] or "/"
        yield path


def is_beneath(path: str, ancestor: str) -> bool:
    """Whether a path is an ancestor's own or lies inside it, as text."""
    return ancestor in upwards(path)


def _united(known: FsRule | None, rule: FsRule) -> FsRule:
    """One path, said twice by one policy: the wider access counts; it is optional only if both are."""
    if known is None:
        return rule
    wider = max(known, rule, key=lambda each: LEVELS[each.access])
    within = {*known.within, *rule.within}
    return wider.replace(optional=known.optional and rule.optional, within=tuple(sorted(within)))


def _met_rule(path: str, access: FsAccess, sides: tuple[Reach, Reach]) -> FsRule:
    """A grant at a path that both reach, one of them perhaps from further above.

    INVARIANT: whoever reaches it from above never named it, and it may be a link out of what he granted.
    So what he did name stays on record in `within`, through any number of meets.
    """
    within: set[str] = set()
    for side in sides:
        source = side.nearest(path)
        if source is not None:
            within |= {source.path, *source.within}
    optional = all(side.granted[path].optional for side in sides if path in side.granted)
    return FsRule(path, access, optional, tuple(sorted(within - {path})))


def _met_read_only(
    granted: dict[str, FsRule], denied: dict[str, FsRule], sides: tuple[Reach, Reach]
) -> frozenset[str]:
    """Read rules of either side whose effect the grants of the result do not show.

    INVARIANT: a read rule inside a writable tree is a restriction, and stays one when more is granted on top
    of the result. Where the other side does not reach its path, it cannot be a grant any more; but the path
    may be another name for something that both may write.
    """
    return frozenset(
        path
        for path in sides[0].narrowing() | sides[1].narrowing()
        if not any(above in denied for above in upwards(path))
        and not (path in granted and granted[path].access is FsAccess.READ and not granted[path].within)
    )
