"""`corral mcp install CLIENT`: put the server into a client's settings, or take it out."""

from __future__ import annotations

import os

from corral.cli.install.agent_files import check_programs, plan_edits
from corral.cli.mcp.clients import CLIENTS
from corral.cli.mcp.serve import check_sdk
from corral.cli.options import parse_quickly
from corral.model.errors import PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.cli.install.install import Installation

_OUTSIDE = (
    "The client's own tools stay as they are, outside the sandbox: `corral install AGENT` confines its",
    "shell, `corral wrap -- AGENT` all of it.",
)


def plan_client(name: str, words: tuple[str, ...], *, remove: bool, project: str) -> Installation:
    """What is to be written for a client, or taken out. Raises CorralError, having changed nothing."""
    client = CLIENTS[name]
    if not remove:
        check_sdk()
        check_programs(("corral",))
        _check_options(words)
    arguments = ["mcp", "serve", "--agent", name, *client.arguments, *words]
    edit = client.edit(os.path.expanduser("~"), project, arguments)
    outside = () if remove else (*_OUTSIDE, *client.notes)
    question = f"Take corral's server out of {name}?" if remove else f"Write this for {name}?"
    return plan_edits((edit,), question, outside, remove=remove)


def _check_options(words: tuple[str, ...]) -> None:
    parsed = parse_quickly(list(words))
    if parsed is None or parsed[1]:
        raise PolicyError(
            "mcp-options",
            "nothing was changed",
            why=f"{' '.join(words)!r} are not options of `corral mcp serve`",
            fix="`corral mcp serve --help-all` lists them",
        )
