"""What the configuration says about an agent's command: whether it is checked, or runs without a sandbox."""

from __future__ import annotations

import os
import shlex

from corral.cli.options import defaults
from corral.cli.request import build_request, is_configured, load_request
from corral.model.errors import PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Whatever means something to a shell: a line with any of these is more than one program with its arguments.
_SPECIAL = frozenset("|&;<>()$`\\\"'*?[]{}#~=%!^\n\r\t")


def find_bypassing(agent: str, line: str) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """Options and words of a line that may run without a sandbox; None for all others. Raises CorralError.

    TRUST: whether it may is decided where `corral run` decides it, by the user's own file. Here only lines
    pass that no shell would read in another way.
    """
    words = tuple(line.split(" "))
    if not all(words) or _SPECIAL.intersection(line):
        return None
    options = {**defaults(), "agent": agent}
    if not is_configured({**options, "agent": None}):
        return None
    try:
        request = build_request(options, words, may_try=True)
    except PolicyError as error:
        if error.code != "unknown-agent":
            raise
        options["agent"] = None
        request = build_request(options, words, may_try=True)
    return (options, words) if request.bypass is not None else None


def check_line(agent: str, line: str) -> None:
    """Check a shell line of an agent's, as configured. Raises CorralError if it may not run."""
    options = {**defaults(), "agent": agent}
    if not is_configured({**options, "agent": None}):
        return
    try:
        configuration = load_request(options)
    except PolicyError as error:
        if error.code != "unknown-agent":
            raise
        configuration = load_request({**options, "agent": None})
    if configuration.check_mode != "off":
        from corral.cli.check import check_configured

        check_configured(configuration, line, for_agent=True)


def command_of(script: str) -> str:
    """The command in a script of Claude Code's, which is `eval` and one word; nothing if it is not."""
    try:
        words = shlex.split(script.removesuffix(f" < {os.devnull}"))
    except ValueError:
        return ""
    return words[0] if len(words) == 1 else ""
