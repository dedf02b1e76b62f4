"""Why a sandbox shows or permits something or not, in words for a model.

They say what the policy permits, never what the host has: a model could ask for that, path by path.
"""

from __future__ import annotations

import os

from corral.integrations.failure import absolute_paths, wants_network
from corral.model.decision import Reason
from corral.model.errors import CorralError
from corral.model.network.endpoint import DEFAULT_PORTS, has_port, parse_endpoint
from corral.model.policy import NetMode
from corral.model.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.decision import Decision
    from corral.sandbox import Sandbox
    from corral.sessions.session import Session

_SENTENCES = {
    Reason.READ_ONLY: "the policy grants it for reading only",
    Reason.DENIED: "the policy denies it",
    Reason.HIDDEN: "it is hidden: a key, a login or a history",
    Reason.PROTECTED: "the host may run or trust this file later, so commands cannot change it",
    Reason.PRIVATE: "the sandbox has a private directory there, empty at first; the host's files do not show",
    Reason.NOT_GRANTED: "no rule of the policy grants it",
}
_SYSTEM = ("/usr/", "/etc/", "/bin/", "/sbin/", "/lib", "/proc/", "/sys/", "/dev/", "/boot/")
_ASK = "Do without it, or tell the user what you need and why: only they can permit it"


def describe_hidden_in(text: str, sandbox: Sandbox, session: Session) -> list[str]:
    """What of the sandbox may have made a command fail: paths and hosts that it names and does not have."""
    return list(_hidden_in(text, sandbox, session))


def _hidden_in(text: str, sandbox: Sandbox, session: Session) -> Iterator[str]:
    try:
        for path in absolute_paths(text, sandbox.workspace):
            decision = sandbox.decide_path(path)
            if not _is_visible(decision) and not _is_inside(path, session):
                why = f"{_because(decision)}. {_ask('read', path)}"
                yield f"{printable(path)} is not visible in the sandbox: {why}"
        if wants_network(text) and sandbox.policy.net.mode is NetMode.NONE and not sandbox.policy.net.allow:
            yield f"the sandbox has no network: no host outside can be reached. {_ASK} (--allow HOST)"
    except CorralError:
        return  # the command has run, and there is no more to say


def describe_target(sandbox: Sandbox, target: str, operation: str | None) -> str:
    """Whether commands may read, write or connect to something, and why not. Raises CorralError."""
    if operation == "connect" or "://" in target:
        return _describe_connection(sandbox, target)
    if operation is None and "/" not in target and "." in target:  # a file, or a host: nobody knows
        return f"{_describe_path(sandbox, target, 'read')}\n{_describe_connection(sandbox, target)}"
    return _describe_path(sandbox, target, operation or "read")


def _describe_path(sandbox: Sandbox, target: str, verb: str) -> str:
    path = os.path.normpath(os.path.join(sandbox.workspace, os.path.expanduser(target)))
    decision = sandbox.decide_path(path, writes=verb == "write")
    if decision.reason is Reason.PRIVATE:
        return f"{verb} {printable(path)}: {_because(decision)}. {_ask(verb, path)}"
    if decision.allowed:
        return f"{verb} {printable(path)}: allowed"
    return f"{verb} {printable(path)}: not allowed: {_because(decision)}. {_ask(verb, path)}"


def _describe_connection(sandbox: Sandbox, target: str) -> str:
    scheme, separator, rest = target.partition("://")
    host = rest.partition("/")[0].rpartition("@")[2] if separator else target
    kind = scheme.lower() if separator and scheme.lower() in DEFAULT_PORTS else "https"
    try:
        endpoint = parse_endpoint("tcp" if has_port(host) else kind, host)
    except ValueError as problem:
        return f"{printable(target)} is not a host: {printable(str(problem))}"
    decision = sandbox.decide_connection(endpoint)
    if decision.allowed:
        return f"connect {printable(host)}: allowed"
    return f"connect {printable(host)}: not allowed: {_because(decision)}. {_ASK} (--allow {printable(host)})"


def _because(decision: Decision) -> str:
    return _SENTENCES.get(decision.reason, decision.reason.value)


def _ask(verb: str, path: str) -> str:
    if verb == "write" and path.startswith(_SYSTEM):
        return "It is part of the system, which no command changes"
    return f"{_ASK} (--{verb} {printable(path)})"


def _is_visible(decision: Decision) -> bool:
    return decision.allowed and decision.reason is not Reason.PRIVATE


def _is_inside(path: str, session: Session) -> bool:
    """Whether a command has made it in a directory of the sandbox's own."""
    try:
        session.read_file(path, limit=0)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # a directory, for one
    return True
