"""Build a plan: one command, on one resolved policy, with what must be protected right now."""

from __future__ import annotations

import posixpath

from corral.git_formats.search import MOST_DIRECTORIES
from corral.model.container import Container
from corral.model.errors import PolicyError
from corral.model.feature import RUNNER_FEATURES, Feature
from corral.model.plan import PathKind, Plan, WatchedName
from corral.model.policy import FsAccess
from corral.model.record import Record
from corral.model.rules.pattern import is_pattern
from corral.planning.copies import find_copies
from corral.planning.git import relative_hook_paths
from corral.planning.layered import hold_layered
from corral.planning.patterns import read_patterns, split_searches
from corral.planning.protect import (
    GIT,
    check_narrowed,
    find_repositories,
    hold_links,
    narrowed_roots,
    protect,
    protect_matches,
    writable_roots,
)
from corral.planning.readings import Readings
from corral.planning.resolve import Resolver, expand, is_beneath, resolved_path
from corral.planning.retries import retry_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.backend import Host
    from corral.model.plan import Command, ConfigCopy, FileStamp, ResolvedPath, ResolvedPolicy, Search, Shield
    from corral.model.policy import Policy
    from corral.planning.git import Known

_MOST_ARGUMENT_CHARACTERS = 6 * 1024 * 1024  # ARG_MAX is a quarter of the stack limit at most: execve(2)
_NO_CONTAINER = Container()
#: Denials that hide nothing: a file of patterns may have many.
_MOST_SAID = 3
#: Where programs are looked for if the caller has no PATH.
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Nested(Record):
    """Repositories inside the writable paths."""

    repositories: tuple[str, ...] = ()
    unsearched: tuple[str, ...] = ()  # for each path that has too many directories: one of those left out
    closed: tuple[str, ...] = ()  # directories that even their owner cannot look into


_NONE_NESTED = Nested()


def build(
    policy: Policy,
    command: Command,
    resolved: ResolvedPolicy,
    host: Host,
    *,
    run_id: str,
    nested: Nested = _NONE_NESTED,
    waived: frozenset[Feature] = frozenset(),
    container: Container = _NO_CONTAINER,
    held: Held | None = None,
) -> Plan:
    """Return the plan of one run. Raises PolicyError for a command that cannot be meant.

    `held` is what `find_held` returns, for a caller that has just asked.
    """
    if not command.keeps:
        check_command(command)
    if held is None:
        held = find_held(policy, resolved, host, nested=nested, waived=waived)
    if command.trial is not None:
        held = hold_layered(held, command.trial.root)
    return Plan(
        run_id,
        command,
        resolved,
        held.shields,
        held.pins,
        held.watches,
        build_environment(policy, command, resolved, host, waived),
        waived,
        policy,
        container,
        worktrees=held.worktrees,
        hook_directories=held.hook_directories,
        copies=held.copies,
        copies_directory=held.copies_directory,
        notes=(
            *map(_given_up, nested.unsearched),
            *map(_left_closed, held.closed),
            *_hide_nothing(tuple(_felt(resolved))),
            *(_not_through(*each) for each in resolved.misled[:_MOST_SAID]),
        ),
        readings=held.readings,
        searches=held.searches,
        host_searches=denied_searches(resolved, FsAccess.READ) if resolved.searches else (),
    )


def _given_up(directory: str) -> str:
    return (
        f"there are more than {MOST_DIRECTORIES} directories: in {directory} and further on repositories "
        "were not looked for, and what git runs there is not protected"
    )


def _left_closed(directory: str) -> str:
    return f"{directory} is closed by its mode: corral cannot see inside, so all of it stays as it is"


def _felt(resolved: ResolvedPolicy) -> Iterator[str]:
    """Of the denials that hide nothing, those that could: something is granted where they would."""
    missing = {target.requested for target in resolved.denied if target.kind is PathKind.MISSING}
    sought = {glob.text for search in resolved.searches for glob in search.globs}
    misled = {text for text, _ in resolved.misled}
    for text in resolved.idle:
        if text in misled:
            continue
        is_felt = (
            text in sought if is_pattern(text) else expand(text, resolved.workspace, resolved.home) in missing
        )
        if is_felt:
            yield text


def _hide_nothing(denials: tuple[str, ...]) -> Iterator[str]:
    for denial in denials[:_MOST_SAID]:
        yield f"{denial} is denied, and there is nothing of that kind now"
    if len(denials) > _MOST_SAID:
        yield f"{len(denials) - _MOST_SAID} more denials hide nothing now; `corral explain` has all of them"


def _not_through(denial: str, link: str) -> str:
    return (
        f"{denial} is denied, and hides nothing: {link} is a link, which patterns do not go through; "
        "begin with the directory that it leads to"
    )


class Held(Record):
    """What has to be held in its place inside the writable paths, as things are now."""

    shields: tuple[Shield, ...]
    pins: tuple[ResolvedPath, ...]
    watches: tuple[WatchedName, ...]
    worktrees: tuple[str, ...] = ()
    hook_directories: tuple[str, ...] = ()
    copies: tuple[ConfigCopy, ...] = ()
    copies_directory: str = ""
    readings: tuple[FileStamp, ...] = ()
    closed: tuple[str, ...] = ()  # shields among these
    searches: tuple[Search, ...] = ()


def find_held(
    policy: Policy,
    resolved: ResolvedPolicy,
    host: Host,
    *,
    nested: Nested = _NONE_NESTED,
    waived: frozenset[Feature] = frozenset(),
) -> Held:
    """Look for it. Raises PolicyError for what cannot be held."""
    inner = nested.repositories
    reader = Readings(host)
    resolver = Resolver(host)
    roots = writable_roots(resolved)
    guarded = Feature.FS_PROTECT in resolved.requires - waived
    if Feature.FS_PROTECT in waived and roots and read_patterns(policy):
        raise _read_and_waived(read_patterns(policy)[0])
    narrowed = narrowed_roots(resolved)
    known: Known = {}
    protection = (
        protect(
            reader,
            resolver,
            roots,
            policy.protect,
            inner,
            closed=nested.closed,
            narrowed=narrowed,
            known=known,
        )
        if guarded
        else None
    )
    searches = denied_searches(resolved, FsAccess.WRITE)
    if protection is not None:
        searches += protect_matches(reader, policy, resolved, protection, resolver)
        check_narrowed(narrowed, protection)
    watches = protection.watches.values() if protection is not None else ()
    links = hold_links(resolved, resolver, roots)
    shields = tuple(protection.shields.values()) if protection is not None else ()
    unchanging = protection.unchanging if protection is not None else ()
    copies, copies_directory = find_copies(resolved, reader, resolver, shields, roots, unchanging=unchanging)
    return Held(
        shields=shields,
        pins=tuple(
            {
                **_pins(resolved, resolver, roots),
                **links.pins,
                **(protection.pins if protection else {}),
            }.values()
        ),
        watches=_once(
            (*watches, *links.watches.values(), *_denied_watches(resolved, resolver, roots, shields))
        ),
        worktrees=_worktrees(policy, roots, inner) if guarded else (),
        hook_directories=relative_hook_paths(reader, (*roots, *inner), known) if guarded else (),
        copies=copies,
        copies_directory=copies_directory,
        readings=tuple(reader.stamps.values()),
        closed=tuple(protection.closed) if protection is not None else (),
        searches=searches,
    )


def _read_and_waived(text: str) -> PolicyError:
    return PolicyError(
        "contradiction",
        f"{text} cannot be read-only without fs.protect",
        why="what matches a read-only pattern in a writable path is held like a protected name",
        fix="leave the pattern out, or do not waive fs.protect",
    )


def denied_searches(resolved: ResolvedPolicy, access: FsAccess) -> tuple[Search, ...]:
    """Where what patterns deny may come into being: by commands in what they write, else by the host."""
    closed = (*resolved.private, *(target.path for target in resolved.denied))
    split = split_searches(resolved.searches, resolved.grants, closed)
    return tuple(search for grant, search in split if grant.access is access)


def _worktrees(policy: Policy, roots: list[str], nested: tuple[str, ...]) -> tuple[str, ...]:
    """Where the host may use git that a command has used, if the policy protects anything of git's."""
    if not any(name.startswith(GIT) for name in policy.protect):
        return ()
    inside = (path for path in nested if any(is_beneath(path, root) for root in roots))
    return tuple(dict.fromkeys((*roots, *inside)))


def _once(watches: tuple[WatchedName, ...]) -> tuple[WatchedName, ...]:
    """One watch for each name, whatever it is watched for."""
    return tuple({(watch.directory, watch.name): watch for watch in reversed(watches)}.values())[::-1]


def _pins(resolved: ResolvedPolicy, resolver: Resolver, roots: list[str]) -> dict[str, ResolvedPath]:
    """Directories above what is stricter than the writable tree around it: renamed, they would take it along,
    and something else could be put in its place."""
    stricter = [target.path for target in resolved.denied]
    stricter += [grant.target.path for grant in resolved.grants if grant.access is FsAccess.READ]
    found: dict[str, ResolvedPath] = {}
    for root in roots:
        for path in stricter:
            if not path.startswith(root + "/"):
                continue
            above = posixpath.dirname(path)
            while above.startswith(root + "/"):
                stat = resolver.look(above)
                if stat is not None:
                    found[above] = resolved_path(above, above, stat)
                above = posixpath.dirname(above)
    return found


def nested_repositories(resolved: ResolvedPolicy, host: Host) -> Nested:
    """Look for them; once for a resolved policy, because the search takes time."""
    resolver = Resolver(host)
    unsearched: list[str] = []
    closed: list[str] = []
    found = tuple(
        repository
        for root in dict.fromkeys((*writable_roots(resolved), *sum(narrowed_roots(resolved).values(), ())))
        for repository in find_repositories(host, resolver, root, unsearched.append, closed.append)
    )
    return Nested(found, tuple(unsearched), tuple(closed))


def check_command(command: Command) -> None:
    """Raise PolicyError for an empty command or one that no process could be given."""
    if not command.argv or not command.argv[0]:
        raise PolicyError(
            "empty-command",
            "there is no command to run",
            why="the command is empty",
            fix="give one after `--`, or a shell line with -c",
        )
    for argument in (*command.argv, command.cwd):
        if not _is_encodable(argument):
            raise PolicyError(
                "not-encodable",
                f"{argument!r} cannot be passed to a program",
                why="it contains half of a surrogate pair, which no encoding has bytes for",
                fix="pass such data on stdin or in a file",
            )
        if "\0" in argument:
            raise PolicyError(
                "nul-in-argument",
                f"{argument!r} cannot be passed to a program",
                why="it contains a NUL byte, where the kernel would cut it off",
                fix="pass such data on stdin or in a file",
            )
    if sum(map(len, command.argv)) > _MOST_ARGUMENT_CHARACTERS:
        raise PolicyError(
            "command-too-long",
            "the command is too long for any program",
            why="its arguments are larger than the kernel permits for a new process",
            fix="pass the data on stdin or in a file",
        )


def _is_encodable(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def build_environment(
    policy: Policy, command: Command, resolved: ResolvedPolicy, host: Host, waived: frozenset[Feature]
) -> tuple[tuple[str, str], ...]:
    """The complete environment of the command."""
    env = policy.env.choose(host.environment())
    env.setdefault("PATH", DEFAULT_PATH)
    env["PWD"] = command.cwd
    env.update(fixed_environment(policy, resolved, waived))
    return tuple(sorted(env.items()))


def fixed_environment(policy: Policy, resolved: ResolvedPolicy, waived: frozenset[Feature]) -> dict[str, str]:
    """The variables that do not depend on the caller's own."""
    env = {"HOME": resolved.home, **retry_variables(policy, waived)}
    if "/tmp" in resolved.private:
        env["TMPDIR"] = "/tmp"
    if not resolved.requires - RUNNER_FEATURES <= waived:  # then nothing confines it
        env["CORRAL_SANDBOX"] = "1"
    env.update(policy.env.fixed)
    return env


def _denied_watches(
    resolved: ResolvedPolicy, resolver: Resolver, roots: list[str], shields: tuple[Shield, ...]
) -> list[WatchedName]:
    """A denied path that does not exist yet, inside a writable one, must not come into being.

    Where a shield lies over it no command can make it: then it is the host's, such as corral's own log.
    """
    watches = []
    covers = [shield.target.path for shield in shields]
    for target in resolved.denied:
        if target.kind is not PathKind.MISSING:
            continue
        around = [root for root in roots if is_beneath(target.path, root)]
        covering = [path for path in covers if is_beneath(target.path, path)]
        if not around or any(all(not is_beneath(root, path) for root in around) for path in covering):
            continue
        parent, name = posixpath.split(target.path)
        stat = resolver.look(parent)
        if stat is None or not stat.is_directory:
            if target.path in resolved.hidden:
                continue  # a command's own, should it be made; the next run hides it
            raise PolicyError(
                "deny-unreachable",
                f"{target.requested} cannot be denied",
                why=f"the directory it would be in, {parent}, does not exist and could be made inside",
                fix="create the directory first, or deny a path that exists",
            )
        there = resolver.look(target.path)  # a link that leads in a circle is as good as nothing
        text = resolver.resolve_link(target.path) if there is not None and there.is_link else ""
        watches.append(
            WatchedName(min(around, key=len), parent, stat.device, stat.inode, name, target.requested, text)
        )
    return watches
