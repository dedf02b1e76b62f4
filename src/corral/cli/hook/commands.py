"""`corral hook`, for click: its help. What agents call is answered without click, by `main`."""

from __future__ import annotations

import sys

import click

from corral.cli.hook.call import AGENTS, CALLERS


@click.group(hidden=True)
def hook() -> None:
    """Speak the hook protocol of an agent; `corral install AGENT` writes what calls it."""


def _speaker(agent: str) -> click.Command:
    def speak() -> None:
        from corral.cli.hook.respond import respond

        sys.exit(respond(agent))

    text = f"Read a call of {agent} on stdin, and answer with the command that runs it in a sandbox."
    return click.Command(agent, callback=speak, help=text)


for _agent in AGENTS:
    hook.add_command(_speaker(_agent))


@hook.command("exec")
@click.argument("agent", type=click.Choice(CALLERS))
@click.argument("conversation")
@click.argument("workspace")
@click.argument("line")
def exec_(agent: str, conversation: str, workspace: str, line: str) -> None:
    """Run a shell line in the sandbox of a conversation. The rewritten commands do that."""
    from corral.cli.hook.execute import execute

    sys.exit(execute(agent, conversation, workspace, line))
