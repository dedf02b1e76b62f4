"""Tools that bypass the sandbox: the user named them; whatever could abuse the name does not count."""

from __future__ import annotations

import os

from corral.model.policy import FsAccess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from corral.config.configuration import Configuration
    from corral.config.setting import Setting


def find_bypass(
    configuration: Configuration, argv: tuple[str, ...], environment: Mapping[str, str]
) -> Setting | None:
    """The setting that lets this command run unconfined; None for all others.

    TRUST: only a bare name counts, and only the program that PATH leads to outside of all that a command can
    write. Otherwise an earlier command could put a program of that name in the way.
    """
    if not argv:
        return None
    allowed = next((said for said in configuration.bypass_tools if said.value == argv[0]), None)
    if allowed is None or "/" in argv[0]:
        return None
    program = _find(argv[0], environment.get("PATH", ""))
    if not program or not program.startswith("/"):
        return None
    writable = _writable(configuration)
    places = (program, os.path.realpath(program))
    if any(_is_beneath(place, root) for place in places for root in writable):
        return None
    return allowed


def _find(name: str, path: str) -> str:
    """The first program of that name; a relative entry of PATH ends the search, as it would find that one."""
    for directory in path.split(":"):
        program = os.path.join(directory, name)
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program if directory.startswith("/") else ""
    return ""


def _writable(configuration: Configuration) -> list[str]:
    home = os.path.expanduser("~")
    roots = [configuration.workspace]
    for rule in configuration.policy.fs:
        if rule.access is FsAccess.WRITE:
            path = rule.path
            if path.startswith("~"):
                path = home + path[1:]
            roots.append(path.replace("${workspace}", configuration.workspace))
    return [*roots, *map(os.path.realpath, roots)]


def _is_beneath(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
