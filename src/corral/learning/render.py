"""The proposal as a commented file."""

from __future__ import annotations

import json
import math

from corral.learning.proposal import BASE, TOOLS
from corral.model.printable import printable
from corral.model.rules.pattern import escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.learning.observation import Observation
    from corral.learning.proposal import Proposal

MARK = "# Learned by `corral learn`"
#: What the base permits by itself.
_BASE_SECONDS = 60
_MARGIN = 3


def render(proposal: Proposal, seen: Observation) -> str:
    """The text of a corral.toml that permits what was observed, and no more."""
    return "\n".join(_lines(proposal, seen)) + "\n"


def _lines(proposal: Proposal, seen: Observation) -> Iterator[str]:
    programs = ", ".join(dict.fromkeys(map(printable, seen.commands)))
    runs = "1 run" if len(seen.commands) == 1 else f"{len(seen.commands)} runs"
    yield f"{MARK} from {runs} of: {programs}"
    yield f"# It begins with `{BASE}` (read the workspace, write nothing, no network) and adds what was used."
    yield "# Environment variables and what was only computed cannot be seen; read it before you use it."
    for flag in proposal.flags:
        yield f"# NOTE: {printable(flag)}"
    yield ""
    yield "[sandbox]"
    yield f'profile = "{BASE}"'
    if proposal.readwrite:
        yield "# written to"
        yield from _list("readwrite_paths", proposal.readwrite)
    if proposal.readonly:
        yield "# read, outside of the workspace and the system"
        yield from _list("readonly_paths", proposal.readonly)
    if proposal.hosts:
        yield "# connected to"
        yield from _list("allow_domains", proposal.hosts, is_path=False)
    if proposal.uses_tools:
        yield "# it runs programs of your PATH that are not the system's"
        yield from _list("capabilities", (TOOLS,), is_path=False)
    if proposal.writes_workspace:
        yield ""
        yield "[sandbox.mounts]"
        yield "workspace_writable = true"
    if proposal.seconds * _MARGIN > _BASE_SECONDS:
        yield ""
        yield "[sandbox.resources]"
        yield f"# {_MARGIN} times what the longest run took"
        yield f'time = "{math.ceil(proposal.seconds * _MARGIN)}s"'


def _list(name: str, values: tuple[str, ...], *, is_path: bool = True) -> Iterator[str]:
    yield f"{name} = ["
    for value in values:
        text = value
        if is_path:
            head = next((each for each in ("${workspace}", "~") if value.startswith(each)), "")
            text = head + escape(value[len(head) :])
        yield f"    {json.dumps(text, ensure_ascii=False)},"
    yield "]"
