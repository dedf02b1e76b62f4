"""`corral mcp ...`, for click."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

import click

from corral.cli.help import BriefCommand
from corral.cli.install.commands import with_install_options
from corral.cli.policy.commands import with_session_options


@click.group(invoke_without_command=True)
@click.pass_context
def mcp(ctx: click.Context) -> None:
    """Give an agent a sandbox through MCP, or confine an MCP server.

    Alone it is `corral mcp serve`.
    """
    if ctx.invoked_subcommand is None:
        from corral.cli.mcp.serve import serve as serve_clients
        from corral.cli.options import defaults

        sys.exit(serve_clients(defaults(), None))


mcp.command_class = BriefCommand


@mcp.command()
@click.option("--http", metavar="PORT", help="Serve on this port of 127.0.0.1 (0: a free one).")
@with_session_options
def serve(*, http: str | None, **options: Any) -> None:
    """Serve a client on stdin and stdout, or several over HTTP.

    The tools are bash, python, read_file, write_file, edit_file, list_dir, sandbox_status and explain_denial.
    Each client has its own sandbox. The other options are those of `corral run`.
    """
    from corral.cli.mcp.serve import serve as serve_clients
    from corral.cli.options import defaults

    sys.exit(serve_clients({**defaults(), **options}, http))


@mcp.command(context_settings={"allow_interspersed_args": False})
@with_session_options
@click.argument("server", nargs=-1, type=click.UNPROCESSED, required=True, metavar="SERVER...")
def wrap(server: tuple[str, ...], **options: Any) -> None:
    """Run somebody else's MCP server in a sandbox.

    Put this before its command in the settings of a client. Options are those of `corral run`. Without --cwd
    it works in an empty directory, and sees nothing of the one that it was started in.
    """
    from corral.cli.mcp.wrap import wrap_server
    from corral.cli.options import defaults

    sys.exit(wrap_server({**defaults(), **options}, server))


@mcp.group()
def install() -> None:
    """Put the server into a client: claude-code, codex, gemini, ...

    Every change is shown first, and can be removed. Options of `corral mcp serve` follow after `--`.
    """


def _client_command(name: str) -> click.Command:
    @click.option("--project", is_flag=True, help="Only in the settings of this directory.")
    @with_install_options
    @click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[-- OPTIONS...]")
    def install_client(
        *, project: bool, remove: bool, dry_run: bool, yes: bool, as_json: bool, options: tuple[str, ...]
    ) -> None:
        from corral.cli.install.install import apply
        from corral.cli.mcp.install import plan_client

        place = os.getcwd() if project else ""
        plan = functools.partial(plan_client, name, options, remove=remove, project=place)
        sys.exit(apply(plan, yes=yes, dry_run=dry_run, as_json=as_json))

    text = f"Offer corral's tools to {name}; writes your settings of {name}."
    return click.command(name, help=text)(install_client)


for _name in ("claude-code", "codex", "gemini", "cursor", "vscode", "opencode"):
    install.add_command(_client_command(_name))
