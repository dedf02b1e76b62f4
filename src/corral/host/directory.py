"""Directories that somebody names: the real one, or an error that says what is wrong with it."""

from __future__ import annotations

import os

from corral.model.arguments import wrong_argument
from corral.model.errors import PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.backend import Host


def find_directory(path: str | os.PathLike[str] | None, host: Host, argument: str = "workspace") -> str:
    """The real path of a directory; None is the caller's own. Raises PolicyError."""
    if path is not None and not isinstance(path, str) and not hasattr(path, "__fspath__"):
        raise wrong_argument(argument, path, "a path", f"{argument}='project'")
    try:
        named = os.path.join(host.cwd(), os.fspath(path) if path is not None else "")
        _check_links(named, host.cwd())
        found = os.path.realpath(named)
    except FileNotFoundError:
        raise no_directory("the working directory", "it has been removed") from None
    except ValueError as problem:
        raise no_directory(repr(path), str(problem)) from None
    stat = host.lstat(found)
    if stat is None or not stat.is_directory:
        raise no_directory(found, "there is no such directory")
    return found


def no_directory(what: str, why: str, fix: str = "name an existing directory") -> PolicyError:
    """There is no such directory, or not for this."""
    return PolicyError("no-directory", f"{what} cannot be used", why=why, fix=fix)


def not_writable(path: str, problem: OSError, fix: str) -> PolicyError:
    """A file or directory could not be made."""
    why = problem.strerror or str(problem)
    return PolicyError("not-writable", f"{path} could not be written", why=why, fix=fix)


def _check_links(named: str, here: str) -> None:
    # TRUST: below the directory that the caller is in, an earlier command may have made the link.
    path = os.path.normpath(named)
    while path not in {here, "/"} and path.startswith(here.rstrip("/") + "/"):
        if os.path.islink(path):
            raise no_directory(path, f"it is a link to {os.path.realpath(path)}: name that, if you mean it")
        path = os.path.dirname(path)
