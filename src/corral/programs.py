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
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(directory, name)
        if not directory.startswith("/") or not os.path.isfile(path) or not os.access(path, os.X_OK):
            continue
        real = os.path.realpath(path)
        places = {os.path.normpath(directory), os.path.realpath(directory), os.path.dirname(real)}
        if not any(_is_projects(place) or _lies_in(place, tops) for place in places):
            return real
    return ""


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
