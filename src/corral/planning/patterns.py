"""Patterns of a policy on this host: below which directories each holds, and what fulfils it now.

A pattern is judged by where things really are. Links are not gone through, but for the plain beginning of a
pattern; a link that fulfils one itself stands for what it leads to as well.
"""

from __future__ import annotations

import posixpath

from corral.model.errors import PolicyError
from corral.model.plan import PathKind, Search
from corral.model.policy import FsAccess
from corral.model.probe import Entries
from corral.model.record import Record
from corral.model.rules.pattern import (
    ANY_DEPTH,
    descend,
    escape,
    glob_of,
    is_floating,
    is_pattern,
    literal,
    node_of,
    relative_parts,
    split_base,
)
from corral.planning.refuse import check_denied_pattern
from corral.planning.resolve import Resolver, expand, is_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from corral.model.backend import Host
    from corral.model.plan import Grant, ResolvedPath, ResolvedPolicy
    from corral.model.policy import Policy
    from corral.model.rules.pattern import Glob

#: Names that one search looks at, and paths that it may find: each is a mount or two of the sandbox.
MOST_NAMES = 500_000
MOST_MATCHES = 4096
_MOST_NAMES_FOR_NOTE = 10_000
#: Bytes of a path; the kernel takes no longer one, so what lies there can be neither listed nor hidden.
MOST_PATH_BYTES = 4094


class Match(Record):
    path: str
    texts: tuple[str, ...]  # of the patterns
    is_link: bool = False


class PatternScope(Record):
    """Where a policy's patterns hold: the granted paths, and those that floating patterns leave alone."""

    workspace: str
    home: str
    grants: tuple[ResolvedPath, ...]
    system: frozenset[str]  # real paths of what programs need, which was not granted by name
    writable: tuple[str, ...]  # real paths: a link in there may be of a command's making
    wider: tuple[ResolvedPath, ...] = ()  # what grants were narrowed from: patterns begin there all the same


def place_patterns(
    texts: Iterable[str], scope: PatternScope, resolver: Resolver
) -> tuple[dict[str, frozenset[Glob]], list[Match]]:
    """Granted directory, or a wider one -> what is to be looked for below it; and what fulfils a pattern at
    or above a grant.

    Raises PolicyError for a pattern whose beginning leads through a link that a command may have made.
    """
    found: dict[str, set[Glob]] = {}
    above: list[Match] = []
    for text in texts:
        if is_floating(text):
            _check_meant(text, scope.workspace, text.removeprefix("**/"), resolver)
        named = [target for target in scope.grants if target.path not in scope.system]
        for target in _tops([*(named if is_floating(text) else scope.grants), *scope.wider]):
            names: tuple[str, ...]
            if is_floating(text):
                names = () if target.kind is PathKind.DIRECTORY else (posixpath.basename(target.path),)
                count, _, left = descend((glob_of(text, text),), names)
                if count:
                    above.append(Match(target.path, (text,)))
            else:
                base, steps = _anchored(text, scope, resolver)
                if is_beneath(target.path, base):
                    names = relative_parts(target.path, base)
                    is_directory = target.kind is PathKind.DIRECTORY
                    count, _, left = descend((glob_of(text, steps),), names, is_directory=is_directory)
                    if count:
                        above.append(Match(posixpath.join(base, *names[:count]), (text,)))
                elif is_beneath(base, target.path):
                    lead = "/".join(map(escape, relative_parts(base, target.path)))
                    left = frozenset({glob_of(text, f"{lead}/{steps}")})
                else:
                    continue
            if left and target.kind is PathKind.DIRECTORY:
                found.setdefault(target.path, set()).update(left)
    return {path: frozenset(globs) for path, globs in found.items()}, above


def _tops(targets: Collection[ResolvedPath]) -> list[ResolvedPath]:
    """Without those that lie in another one."""
    paths = {target.path for target in targets}
    return [
        target
        for target in targets
        if not any(path != target.path and is_beneath(target.path, path) for path in paths)
    ]


def _anchored(text: str, scope: PatternScope, resolver: Resolver) -> tuple[str, str]:
    """The real directory in which a pattern begins, and its steps from there on."""
    anchor, _, rest = text.partition("/")
    plain, steps = split_base(rest)
    _check_meant(text, expand(anchor or "/", scope.workspace, scope.home), rest, resolver)
    base, links = resolver.follow(posixpath.join(expand(anchor or "/", scope.workspace, scope.home), plain))
    for link in links:
        if any(is_beneath(link, top) for top in scope.writable):
            raise PolicyError(
                "pattern-through-link",
                f"{text} cannot be held",
                why=f"it begins with the link {link}, which commands may change, and leads to {base.path}",
                fix=f"begin the pattern with {base.path} instead, or make the link a directory",
            )
    return base.path, steps


def _check_meant(text: str, place: str, steps: str, resolver: Resolver) -> None:
    """Raise PolicyError for a pattern that is also the name of something else: `app/[id]`."""
    names = literal(steps).strip("/").split("/")
    path = posixpath.join(place, *names)
    if descend((glob_of(text, steps),), names, is_directory=True)[0] or resolver.look(path) is None:
        return
    raise PolicyError(
        "pattern-ambiguous",
        f"{text} can be meant in two ways",
        why=f"it is a pattern, and {path} has that very name, which the pattern does not stand for",
        fix=f"write {escape(path)} for the path; or spell the pattern in another way",
    )


def find_matches(host: Host, path: str, globs: frozenset[Glob], closed: Collection[str] = ()) -> list[Match]:
    """All that fulfils a pattern below a directory, in order. What a match holds is not looked at.

    Raises PolicyError if there is too much to look at, or a directory that nobody can look into.
    """
    pending = [(path, node_of(globs))]
    found: list[Match] = []
    looked = 0
    while pending:
        directory, node = pending.pop()
        entries = host.entries(directory)
        if entries is None:
            _check_closed(host, directory)
            continue
        looked += len(entries.directories) + len(entries.links) + len(entries.others)
        if looked > MOST_NAMES:
            raise _too_much(f"there are more than {MOST_NAMES} names to look at below {path}", globs)
        above = "" if directory == "/" else directory
        step, known, waiting = node.step, len(found), len(pending)
        for name in entries.others:
            hit = step(name)[0]
            if hit:
                found.append(Match(f"{above}/{name}", hit))
        for name in entries.links:
            hit = step(name)[1]
            if hit:
                found.append(Match(f"{above}/{name}", hit, is_link=True))
        for name in entries.directories:
            _, hit, left = step(name)
            if hit:
                found.append(Match(f"{above}/{name}", hit))
            elif left and f"{above}/{name}" not in closed:
                pending.append((f"{above}/{name}", node_of(left)))
        reached = [*(match.path for match in found[known:]), *(inner for inner, _ in pending[waiting:])]
        if any(len(each.encode(errors="surrogateescape")) > MOST_PATH_BYTES for each in reached):
            raise _too_much(f"{directory[:80]}... goes deeper than a path can be long", globs)
        if len(found) > MOST_MATCHES:
            raise _too_much(f"more than {MOST_MATCHES} paths below {path} fulfil them", globs)
    return sorted(found, key=lambda match: match.path)


def _check_closed(host: Host, directory: str) -> None:
    """Who may not enter a directory reads nothing in it. Who may, or can permit it to himself, does."""
    stat, inside = host.lstat(directory), host.lstat(f"{directory}/.")
    if stat is None or (inside is not None and inside.is_unknown and not stat.is_closed):
        return
    raise PolicyError(
        "closed-directory",
        f"no pattern can be held in {directory}",
        why="it cannot be listed, but what is in it could still be opened by name",
        fix=f"open it (`chmod u+rx {directory}`), or deny it by its name",
    )


def _too_much(why: str, globs: Iterable[Glob]) -> PolicyError:
    texts = sorted({glob.text for glob in globs})
    return PolicyError(
        "pattern-too-much",
        f"{', '.join(texts[:3])}{' and others' if len(texts) > 3 else ''} cannot be held",
        why=why,
        fix="begin the pattern with the directory that it is meant for, or name directories instead of files",
    )


class Sought(Record):
    """What is denied by patterns: where they are held, and what they find now."""

    searches: tuple[Search, ...] = ()
    matches: tuple[Match, ...] = ()
    targets: tuple[ResolvedPath, ...] = ()  # what has to be hidden
    above: tuple[str, ...] = ()  # among the matches, those that a grant lies in
    idle: tuple[str, ...] = ()  # patterns that nothing fulfils
    misled: tuple[tuple[str, str], ...] = ()  # of these, with a link that leads to what is granted


def seek_denied(policy: Policy, scope: PatternScope, host: Host, resolver: Resolver) -> Sought:
    """Look for everything that patterns deny. Raises PolicyError for what cannot be held."""
    denials = {rule.path for rule in policy.fs if rule.access is FsAccess.DENY}
    texts = sorted(filter(is_pattern, denials))
    if not texts:
        return Sought()
    for text in texts:
        if not is_floating(text):
            check_denied_pattern(text, *_anchored(text, scope, resolver))
    placed, matches = place_patterns(texts, scope, resolver)
    above = tuple(match.path for match in matches)
    searches = []
    for path, globs in sorted(placed.items()):
        stat = resolver.look(path)
        if stat is not None:
            found = find_matches(host, path, globs)
            searches.append(
                Search(path, stat.device, stat.inode, globs, frozenset(match.path for match in found))
            )
            matches += found
    seen = Resolver(host)  # of its own: links on the way here are not links to what is granted
    targets = [target for match in matches for target in _hidden(match, seen)]
    idle = sorted(set(texts) - {text for match in matches for text in match.texts})
    links = ((text, _link_on_the_way(text, scope, host, seen)) for text in idle if not is_floating(text))
    misled = tuple((text, link) for text, link in links if link)
    return Sought(tuple(searches), tuple(matches), tuple(targets), above, tuple(idle), misled)


def _link_on_the_way(text: str, scope: PatternScope, host: Host, resolver: Resolver) -> str:
    """A link that an anchored pattern would have to go through to reach something granted; or nothing.

    It is for a note: beyond `**`, and after many names, nothing is looked for.
    """
    base, steps = _anchored(text, scope, resolver)
    named = [target.path for target in scope.grants if target.path not in scope.system]
    parts = steps.strip("/").split("/")
    places, looked = [base], 0
    for part, further in zip(parts, [*parts[1:], ""], strict=True):
        found = []
        step = node_of(frozenset({glob_of(text, part if part != ANY_DEPTH else "*")})).step
        for place in places:
            entries = host.entries(place) or Entries()
            looked += len(entries.directories) + len(entries.links)
            if looked > _MOST_NAMES_FOR_NOTE or not further:
                return ""
            above = place.rstrip("/")
            for name in (name for name in entries.links if step(name)[1]):
                real = resolver.resolve(f"{above}/{name}").path
                if any(is_beneath(real, path) or is_beneath(path, real) for path in named):
                    return f"{above}/{name}"
                found.append(real)
            found += [f"{above}/{name}" for name in entries.directories if step(name)[1]]
        if part == ANY_DEPTH:
            return ""
        places = found
    return ""


def is_denied(
    path: str, denied: Iterable[ResolvedPath], policy: Policy, scope: PatternScope, resolver: Resolver
) -> bool:
    """Whether a policy denies a file of the home, granted or not: by its path, or where that leads."""
    above, name = posixpath.split(path)
    spellings = {path, posixpath.join(resolver.resolve(above).path, name), resolver.resolve(path).path}
    for target in denied:
        if any(is_beneath(each, top) for each in spellings for top in (target.path, target.requested)):
            return True
    for rule in policy.fs:
        if rule.access is not FsAccess.DENY or not is_pattern(rule.path):
            continue
        base, steps = scope.home, rule.path
        if not is_floating(rule.path):
            base, steps = _anchored(rule.path, scope, resolver)
        for top in {base, resolver.resolve(base).path}:
            inside = [each for each in spellings if is_within(each, top)]
            if any(descend((glob_of(steps, steps),), relative_parts(each, top))[0] for each in inside):
                return True
    return False


def _hidden(match: Match, resolver: Resolver) -> Iterator[ResolvedPath]:
    """What a match has to be hidden for; nothing for a link that leads nowhere."""
    target = resolver.resolve(match.path)
    if target.kind is not PathKind.MISSING:
        yield target
        return
    above = resolver.look(posixpath.dirname(target.path))
    if match.is_link and target.path != match.path and above is not None and above.is_directory:
        yield target


def read_patterns(policy: Policy) -> tuple[str, ...]:
    """Patterns for what may be read at most."""
    said = {rule.path for rule in policy.fs if rule.access is FsAccess.READ}
    return tuple(sorted(filter(is_pattern, said | policy.read_only)))


def has_what_was_denied(resolved: ResolvedPolicy, host: Host) -> bool:
    """Whether something is there by now that is denied and was missing, so that nothing hides it.

    Patterns are looked for anew: what fulfils one has whatever name.
    """
    missing = (target.path for target in resolved.denied if target.kind is PathKind.MISSING)
    return any(host.lstat(path) is not None for path in missing) or any(
        {match.path for match in find_matches(host, search.path, search.globs)} != search.known
        for search in resolved.searches
    )


def split_searches(
    searches: Iterable[Search], grants: Collection[Grant], closed: Collection[str]
) -> Iterator[tuple[Grant, Search]]:
    """Each search by the grants that it reaches into: commands may write in some of them."""
    places = {grant.target.path for grant in grants}
    for search in searches:
        for grant in grants:
            target = grant.target
            if target.kind is not PathKind.DIRECTORY or not is_beneath(target.path, search.path):
                continue
            _, _, left = descend(search.globs, relative_parts(target.path, search.path), is_directory=True)
            if left:
                inside = {place for place in (*places, *closed) if is_within(place, target.path)}
                known = frozenset(path for path in search.known if is_within(path, target.path))
                yield (
                    grant,
                    Search(target.path, target.device, target.inode, left, known, frozenset(inside)),
                )


def is_within(path: str, directory: str) -> bool:
    """Whether a path lies inside a directory, and is not the directory itself."""
    return path != directory and is_beneath(path, directory)


def protecting_globs(
    policy: Policy, root: str, tops: Collection[str], scope: PatternScope, resolver: Resolver
) -> tuple[frozenset[Glob], list[str]]:
    """What patterns protect below a path, and what they protect at or above it.

    Names hold in the path itself and in each one above it (`tops`) that is granted or that it was narrowed
    from. So do read-only patterns that float.
    """
    found: set[Glob] = set()
    above = []
    for name in filter(is_pattern, policy.protect):
        _check_meant(name, root, name.removeprefix("**/").lstrip("/"), resolver)
    read = read_patterns(policy)
    names = [*filter(is_pattern, policy.protect), *filter(is_floating, read)]
    for top in (root, *tops):
        parts = relative_parts(root, top)
        count, _, left = descend([glob_of(name, name) for name in names], parts, is_directory=True)
        if count:
            above.append(posixpath.join(top, *parts[:count]))
        found |= left
    inside = PatternScope(scope.workspace, scope.home, (resolver.resolve(root),), frozenset(), scope.writable)
    placed, matches = place_patterns(read, inside, resolver)
    above += [match.path for match in matches]
    return frozenset(found | placed.get(root, frozenset())), above
