"""Tools that bypass the sandbox: the user named them; whatever could abuse the name does not count."""

from __future__ import annotations

import os

from corral.backends.registry import UNCONFINED
from corral.model.capability import Capability, PolicyDraft
from corral.model.policy import FsAccess
from corral.model.record import Record
from corral.sandbox import Sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from corral.config.configuration import Configuration
    from corral.config.setting import Setting


class Bypass(Record):
    setting: Setting  # what allows it
    command: tuple[str, ...]  # with the program as it was found
    sandbox: Sandbox  # one that confines nothing


def find_bypass(
    configuration: Configuration, argv: tuple[str, ...], environment: Mapping[str, str]
) -> Bypass | None:
    """How to run a command that needs no sandbox; None for all others.

    TRUST: only a bare name counts, and only the program that PATH leads to outside of all that a command can
    write. Otherwise an earlier command could put a program of that name in the way. For the same reason the
    program itself is run with a PATH without such directories: `#!/usr/bin/env node` would find one there.
    """
    if not argv:
        return None
    allowed = next((said for said in configuration.bypass_tools if said.value == argv[0]), None)
    if allowed is None or "/" in argv[0]:
        return None
    writable = _writable(configuration)
    path = environment.get("PATH", "")
    program = _find(argv[0], path)
    if not program or _is_within_any(program, writable):
        return None
    safe = [
        entry for entry in path.split(":") if entry.startswith("/") and not _is_within_any(entry, writable)
    ]
    draft = PolicyDraft(configuration.policy)
    draft.add(Capability("env", "set", f"PATH={':'.join(safe)}"))
    sandbox = Sandbox(draft.build(), backend=UNCONFINED, workspace=configuration.workspace)
    return Bypass(allowed, (program, *argv[1:]), sandbox)


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


def _is_within_any(path: str, roots: list[str]) -> bool:
    """Whether a path, or what it leads to, lies in one of the directories."""
    return any(
        place == root or place.startswith(root.rstrip("/") + "/")
        for place in (path, os.path.realpath(path))
        for root in roots
    )
