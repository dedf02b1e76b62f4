"""Request: what the command line asks for, as a policy, a sandbox and a command."""

from __future__ import annotations

import os

from corral.model.errors import PolicyError
from corral.policy.compose import build_policy
from corral.policy.preset import DEFAULT_PRESET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from corral.model.policy import Policy
    from corral.sandbox import Sandbox

_LIMIT_FLAGS = {
    "memory": "memory:limit",
    "cpus": "cpu:limit",
    "pids": "pids:limit",
    "timeout": "time:limit",
    "output_limit": "output:limit",
}


def build_request_policy(options: Mapping[str, Any]) -> Policy:
    """The profile with every flag and capability added."""
    return build_policy(options["profile"] or DEFAULT_PRESET, _capabilities(options))


def build_sandbox(options: Mapping[str, Any]) -> Sandbox:
    """A sandbox from parsed options."""
    from corral.sandbox import Sandbox

    unconfined = options["sandbox"] is False
    if unconfined and options["backend"] not in {None, "none"}:
        raise PolicyError(
            "contradiction",
            f"--no-sandbox and --backend {options['backend']} contradict each other",
            why="a backend confines, and --no-sandbox does not",
            fix="leave one of them out",
        )
    return Sandbox(
        build_request_policy(options),
        backend="none" if unconfined else options["backend"] or "auto",
        workspace=options["cwd"],
        waive=[name.strip() for text in options["waive"] for name in text.split(",")],
    )


def build_command(options: Mapping[str, Any], words: Iterable[str]) -> str | tuple[str, ...]:
    """What to run: the words, or the shell line."""
    command = tuple(words)
    if options["line"] is None:
        return command
    if command:
        raise PolicyError(
            "contradiction",
            "there is both a shell line and a command",
            why=f"-c was given, and then {command[0]!r}",
            fix="put everything into the line, or leave -c out",
        )
    line: str = options["line"]
    return line


def _capabilities(options: Mapping[str, Any]) -> list[str]:
    found = []
    for verb in ("read", "write", "deny"):
        found += [f"filesystem:{verb}:{_absolute(path)}" for path in options[verb]]
    if options["net"] is not None:
        found.append(f"network:{options['net']}")
    for variable in options["env"]:
        found.append(f"env:set:{variable}" if "=" in variable else f"env:pass:{variable}")
    for flag, capability in _LIMIT_FLAGS.items():
        if options[flag] is not None:
            found.append(f"{capability}:{options[flag]}")
    return [*found, *options["cap"]]


def _absolute(path: str) -> str:
    if path.startswith(("~", "${workspace}", "/")):
        return path
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        raise PolicyError(
            "no-directory",
            f"{path!r} cannot be found",
            why="the working directory has been removed",
            fix="change into an existing directory",
        ) from None
