"""Tools that bypass the sandbox: the user named them; whatever could abuse the name does not count."""

from __future__ import annotations

import os

from corral.backends.registry import UNCONFINED
from corral.config.to_policy import capabilities_of_setting
from corral.host.real import RealHost, state_directory
from corral.model.policy import FsAccess
from corral.model.record import Record
from corral.model.rules.capability import Capability, PolicyDraft
from corral.planning.resolve import Resolver, expand, is_beneath
from corral.policy.preset import PRESETS, load_preset
from corral.sandbox import Sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from corral.config.configuration import Configuration
    from corral.config.setting import Setting

#: Where the system has its programs, and nobody a project.
_SYSTEM = (
    *("/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/usr/lib", "/usr/libexec", "/usr/share"),
    *("/bin", "/sbin", "/nix/store", "/gnu/store", "/snap"),
)


class Bypass(Record):
    setting: Setting  # what allows it
    command: tuple[str, ...]  # with the program as it was found
    sandbox: Sandbox  # one that confines nothing


def find_bypass(
    configuration: Configuration, argv: tuple[str, ...], environment: Mapping[str, str]
) -> Bypass | None:
    """How to run a command that needs no sandbox; None for all others.

    TRUST: an earlier command may have put a program of that name in the way, in this workspace or in another.
    So a bare name counts only for a program of the system, and any other has to be named by its path. None
    may lie in, or be reached by a link in, what any command of this user's configuration can write. For the
    same reason the program is run with a PATH of system directories alone: `#!/usr/bin/env node` looks there.
    """
    host = RealHost()
    writable = [*_writable(configuration, host)]
    path = environment.get("PATH", "")
    program = _find(argv[0], path) if argv else ""
    if not program or not _is_out_of_reach(program, writable, host):
        return None
    allowed = next(
        (said for said in configuration.bypass_tools if _names(said.value, argv[0], program, host)), None
    )
    if allowed is None:
        return None
    entries = (entry for entry in path.split(":") if entry.startswith("/"))
    safe = [
        entry for entry in entries if _is_of_system(entry, host) and _is_out_of_reach(entry, writable, host)
    ]
    draft = PolicyDraft(configuration.policy)
    draft.add(Capability("env", "set", f"PATH={':'.join(safe) or '/usr/bin:/bin'}"))
    sandbox = Sandbox(draft.build(), backend=UNCONFINED, workspace=configuration.workspace)
    return Bypass(allowed, (program, *argv[1:]), sandbox)


def _names(said: str, called: str, program: str, host: RealHost) -> bool:
    """Whether an entry of the list is about this program."""
    if "/" in said:
        return os.path.normpath(expand(said, "", host.home)) == program
    return said == called and _is_of_system(program, host)


def _is_of_system(path: str, host: RealHost) -> bool:
    return all(any(is_beneath(step, top) for top in _SYSTEM) for step in (path, *_steps(path, host)))


def _find(called: str, path: str) -> str:
    """The program that a name stands for; none, if it would be found by a relative entry of PATH."""
    if "/" in called:
        return os.path.normpath(called) if called.startswith("/") else ""
    for directory in path.split(":"):
        program = os.path.join(directory, called)
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return os.path.normpath(program) if directory.startswith("/") else ""
    return ""


def _steps(path: str, host: RealHost) -> tuple[str, ...]:
    real, links = Resolver(host).follow(path)
    return (*links, real.path)


def _is_out_of_reach(path: str, writable: Iterable[str], host: RealHost) -> bool:
    steps = (path, *_steps(path, host))
    return not any(is_beneath(step, root) for step in steps for root in writable)


def _writable(configuration: Configuration, host: RealHost) -> Iterator[str]:
    """All that a command may be able to write, whatever the agent, the profile or what narrowed this run."""
    rules = {rule.path for name in PRESETS for rule in load_preset(name).fs if rule.access is FsAccess.WRITE}
    rules |= {rule.path for rule in configuration.policy.fs if rule.access is FsAccess.WRITE}
    for setting in configuration.said:
        rules |= {each.target for each in capabilities_of_setting(setting) if each.verb == "write"}
    own = (configuration.workspace, state_directory() or "/nonexistent")
    for expanded in (*own, *(expand(path, configuration.workspace, host.home) for path in rules)):
        yield expanded
        yield Resolver(host).resolve(expanded).path
