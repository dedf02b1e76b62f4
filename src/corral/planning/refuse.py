"""Refuse what no policy may have: grants that are too wide, unfit workspaces, rules that undo others."""

from __future__ import annotations

from corral.model.errors import PolicyError
from corral.model.plan import PathKind
from corral.model.policy import FsAccess
from corral.model.rules.pattern import descend, glob_of, relative_parts
from corral.planning.homes import HOMES
from corral.planning.resolve import is_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from corral.model.backend import Host
    from corral.model.plan import Grant, ResolvedPath, ResolvedPolicy
    from corral.model.probe import Stat
    from corral.planning.homes import Homes

#: Made anew for every run, so nothing of the host's is ever granted there.
_STRUCTURAL = ("/proc", "/dev")
#: Full of the sockets of services that would act for the command outside the sandbox.
_SOCKET_DIRECTORIES = ("/run", "/var/run")


#: What everybody's programs depend on, and all beneath; and directories that everybody shares, by themselves.
_SYSTEM_PLACES = (
    *("/etc", "/boot", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/share"),
    *("/usr/local/bin", "/usr/local/sbin", "/usr/local/lib"),
)
_SHARED_PLACES = frozenset({"/tmp", "/usr", "/usr/local", "/var", "/var/lib", "/var/tmp"})


def check_grant(target: ResolvedPath, access: FsAccess, host: Host, homes: Homes) -> None:
    """Some of the host is never granted, and some never for writing."""
    path = target.path
    if path == "/" or any(is_beneath(path, top) for top in _STRUCTURAL):
        raise too_wide(target, "it would hand out the host itself")
    if access is FsAccess.WRITE and any(is_beneath(home, path) for home in homes.own):
        raise too_wide(target, "the home directory contains keys, start files and other projects")
    people = (home for home in homes.others if home not in homes.services)
    if access is FsAccess.WRITE and any(is_beneath(home, path) for home in people):
        raise too_wide(target, "it is or contains somebody's home, with keys, start files and other projects")
    if access is FsAccess.WRITE and path in HOMES:
        raise too_wide(target, "the homes of all users are there, with their keys and start files")
    in_sockets = any(is_beneath(path, top) for top in _SOCKET_DIRECTORIES)
    if in_sockets and target.kind is PathKind.DIRECTORY:  # a file is harmless: resolv.conf often lies there
        raise too_wide(target, "services listen there that would act outside for the command")
    stat = host.lstat(path)
    if stat is not None and stat.is_socket:
        raise too_wide(target, "it is a socket: the service behind it acts outside the sandbox")


def check_workspace(workspace: str, homes: Homes, hidden: Collection[str]) -> None:
    """A workspace is a directory of a project."""
    # TRUST: a link that an earlier command made may have led the caller here.
    around = [home for home in (*homes.own, *homes.others) if is_beneath(workspace, home)]
    if any(is_beneath(workspace, home + name[1:]) for home in around for name in hidden):
        raise _no_workspace(workspace, "keys and logins are kept there")
    if any(is_beneath(workspace, place) for place in _SYSTEM_PLACES):
        raise _no_workspace(workspace, "the system itself is kept there, and runs what it finds")
    if workspace in HOMES:
        raise _no_workspace(workspace, "the homes of all users are there, with their keys and histories")
    if workspace in _SHARED_PLACES:
        raise _no_workspace(workspace, "it is shared by all programs and users of this machine")


def _no_workspace(workspace: str, why: str) -> PolicyError:
    return PolicyError(
        "grant-too-wide",
        f"{workspace} cannot be the workspace",
        why=why,
        fix="change into a project directory; --read grants single files, if they are meant",
    )


def too_wide(target: ResolvedPath, why: str) -> PolicyError:
    """The error for a grant of more than anybody can mean."""
    return PolicyError(
        "grant-too-wide",
        f"{target.requested} cannot be granted",
        why=why,
        fix="change into a project directory, or grant just the directories that are needed",
    )


def check_denials(
    granted: dict[ResolvedPath, FsAccess], denied: list[ResolvedPath], secret: Collection[str]
) -> None:
    """A denial holds at any depth, so nothing beneath it is granted; `secret` is what homes hide."""
    for denial in denied:
        if any(is_beneath(denial.path, top) for top in _STRUCTURAL):
            raise _structural(denial.requested, "leave the rule out")
    for target in granted:
        for denial in denied:
            if is_beneath(target.path, denial.path):
                raise _beneath_denial(target, denial, is_secret=denial.path in secret)


def check_denied_pattern(text: str, base: str, steps: str) -> None:
    """Raise PolicyError for a pattern that is meant for what corral makes itself; `base` is where it begins.

    Steps of stars alone are meant for all there is, which is what was granted.
    """
    for top in _STRUCTURAL:
        if is_beneath(base, top):
            raise _structural(text, "leave the rule out")
        if not is_beneath(top, base):
            continue
        names = relative_parts(top, base)
        count, _, left = descend((glob_of(text, steps),), names, is_directory=True)
        if count or (left and steps.partition("/")[0].strip("*")):
            raise _structural(text, f"write it so that it does not match {top}")


def check_second_names(
    held: Collection[ResolvedPath],
    strict: Collection[ResolvedPath],
    verb: str,
    look: Callable[[str], Stat | None],
) -> None:
    """Raise PolicyError for a file with a name (a hard link) that no rule has: it lies wherever it lies.

    `held` are files that a rule names, `strict` is all that is held at least as strictly.
    """
    for target in _with_second_name(held, strict, look):
        raise PolicyError(
            "hard-linked",
            f"{target.requested} cannot be {'denied' if verb == 'read' else 'read-only'}",
            why=f"it has a second name (a hard link), by which it could be {verb} all the same",
            fix=f"make it a separate copy (`cp -p {target.path} x && mv x {target.path}`), "
            "or have the rule for its other names, too",
        )


def find_second_names(resolved: ResolvedPolicy, host: Host) -> frozenset[str]:
    """Files with a second name by now, which a plan made anew would refuse. Real paths."""
    found = {path for path, _ in resolved.denied_by}  # by patterns, which are not held to this
    denied = [
        target
        for target in resolved.denied
        if target.path not in resolved.hidden and target.requested not in found
    ]
    read = [grant.target for grant in resolved.grants if grant.access is FsAccess.READ]
    held = find_read_only(resolved.grants)
    return frozenset(
        target.path
        for files, strict in ((denied, resolved.denied), (held, (*read, *resolved.denied)))
        for target in _with_second_name(files, strict, host.lstat)
    )


def find_read_only(grants: Collection[Grant]) -> list[ResolvedPath]:
    """Files that a rule makes read-only inside something writable."""
    writable = [grant.target.path for grant in grants if grant.access is FsAccess.WRITE]
    return [
        grant.target
        for grant in grants
        if grant.access is FsAccess.READ and grant.target.kind is PathKind.FILE and not grant.is_system
        if any(is_beneath(grant.target.path, path) for path in writable)
    ]


def _with_second_name(
    held: Iterable[ResolvedPath], strict: Collection[ResolvedPath], look: Callable[[str], Stat | None]
) -> Iterator[ResolvedPath]:
    for target in held:
        stat = look(target.path) if target.kind is PathKind.FILE else None
        if stat is None or stat.names == 1 or stat.is_directory:
            continue
        same = (other for other in strict if (other.device, other.inode) == (target.device, target.inode))
        if len({other.path for other in same}) < stat.names:
            yield target


def _structural(text: str, fix: str) -> PolicyError:
    return PolicyError(
        "deny-structural",
        f"{text} cannot be denied",
        why="/proc and /dev inside are corral's own, and hold only what programs cannot do without",
        fix=fix,
    )


def check_private(private: Collection[str], granted: Collection[ResolvedPath], host: Host) -> None:
    """A private area has to be mounted on something; in a grant that would have to be made on the host."""
    for path in private:
        above = [other for other in private if other != path and is_beneath(path, other)]
        around = [target for target in granted if is_beneath(path, target.path)]
        nearest = max(around, key=lambda target: len(target.path), default=None)
        if nearest is None or any(len(other) > len(nearest.path) for other in above):
            continue
        if host.lstat(path) is None:
            raise PolicyError(
                "path-missing",
                f"{nearest.requested} cannot be granted",
                why=f"{path} should be empty and private inside, but does not exist there",
                fix=f"create {path} first{' (it is your HOME)' if path == host.home else ''}, or grant less",
            )


def _beneath_denial(target: ResolvedPath, denial: ResolvedPath, *, is_secret: bool) -> PolicyError:
    if is_secret:
        why = f"{denial.requested} is hidden, as in every home that is granted as a whole"
        fix = f"grant {denial.path} by its own name, or less of the home"
    else:
        why = f"{denial.requested} is denied, and a denial holds at any depth"
        fix = "deny less, or grant something outside of it"
    return PolicyError("grant-beneath-deny", f"{target.requested} cannot be granted", why=why, fix=fix)
