"""Find a program that corral starts on the host, outside of any sandbox."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def find_program(name: str, distrusted: Iterable[str] = ()) -> str:
    """The real path of a program on the PATH; empty if there is none to be trusted.

    TRUST: what lies where commands write may be of a command's making, and would run on the host. So nothing
    is taken from an entry that is empty or relative, from the working directory, from what the caller says is
    writable, or from where projects keep programs: no program that makes sandboxes is installed there.
    """
    tops = [*distrusted, *_here()]
    for directory in trusted_path(distrusted).split(os.pathsep):
        path = os.path.join(directory, name)
        if directory and os.path.isfile(path) and os.access(path, os.X_OK):
            real = os.path.realpath(path)
            if _is_trusted(os.path.dirname(real), tops):
                return real
    return ""


def trusted_path(distrusted: Iterable[str] = ()) -> str:
    """The PATH without what is not trusted: for the programs themselves, which look for others there."""
    tops = [*distrusted, *_here()]
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(
        entry
        for entry in entries
        if entry.startswith("/")
        and _is_trusted(os.path.normpath(entry), tops)
        and _is_trusted(os.path.realpath(entry), tops)
    )


def _is_trusted(directory: str, tops: Iterable[str]) -> bool:
    return not _is_projects(directory) and not _lies_in(directory, tops)


def _here() -> list[str]:
    """The working directory, unless the caller's home or the system lies in it, or it is the system's."""
    try:
        here = os.getcwd()
    except OSError:
        return []
    home = os.path.realpath(os.path.expanduser("~"))
    is_wide = here in {"/", home} or home.startswith(f"{here}/")
    return [] if is_wide or here.startswith(("/usr", "/bin", "/sbin", "/opt")) else [here]


def _lies_in(path: str, tops: Iterable[str]) -> bool:
    return any(path == top or path.startswith(f"{top.rstrip('/')}/") for top in tops)


def _is_projects(directory: str) -> bool:
    in_environment = os.path.exists(os.path.join(os.path.dirname(directory), "pyvenv.cfg"))
    return in_environment or "node_modules" in directory.split("/")
