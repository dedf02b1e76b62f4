"""Refuse what no policy may have: grants that are too wide, unfit workspaces, rules that undo others."""

from __future__ import annotations

from corral.model.errors import PolicyError
from corral.model.plan import PathKind
from corral.model.policy import FsAccess
from corral.planning.homes import HOMES
from corral.planning.resolve import is_beneath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from corral.model.backend import Host
    from corral.model.plan import ResolvedPath
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
        raise too_wide(target, "the home directory holds keys, start files and other projects")
    people = (home for home in homes.others if home not in homes.services)
    if access is FsAccess.WRITE and any(is_beneath(home, path) for home in people):
        raise too_wide(target, "it is or holds somebody's home, with keys, start files and other projects")
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
            raise PolicyError(
                "deny-structural",
                f"{denial.requested} cannot be denied",
                why="/proc and /dev inside are corral's own, and hold only what programs cannot do without",
                fix="leave the rule out",
            )
    for target in granted:
        for denial in denied:
            if is_beneath(target.path, denial.path):
                raise _beneath_denial(target, denial, is_secret=denial.path in secret)


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
                why=f"{path} is to be empty and private inside, and does not exist in it",
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
