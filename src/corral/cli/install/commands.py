"""`corral install ...`, for click: a command for each program that is told of corral."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

import click


@click.group()
def install() -> None:
    """Put corral into an agent: claude-code, codex, gemini, ...

    Every change is shown first, and can be removed. `apparmor` is for Ubuntu.
    """


def with_install_options(function: Any) -> Any:
    """The options of everything that writes the settings of others."""
    for decorate in (
        click.option("-y", "--yes", is_flag=True, help="Do not ask; required without a terminal."),
        click.option("--dry-run", is_flag=True, help="Only show what would be done."),
        click.option("--remove", is_flag=True, help="Remove it again."),
        click.option("--json", "as_json", is_flag=True, help="Print it as JSON; asks nothing."),
    ):
        function = decorate(function)
    return function


@install.command()
@with_install_options
def apparmor(*, remove: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Let corral's launcher create user namespaces, where AppArmor forbids them (Ubuntu).

    Writes a profile to /etc/apparmor.d and loads it, as root. Nothing else on the host is permitted more.
    """
    from corral.cli.install.apparmor import plan_profile
    from corral.cli.install.install import apply

    sys.exit(apply(lambda: plan_profile(remove=remove), yes=yes, dry_run=dry_run, as_json=as_json))


def _agent_command(name: str) -> click.Command:
    @click.option("--project", is_flag=True, help="Only in the settings of this directory.")
    @with_install_options
    def install_agent(*, project: bool, remove: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
        from corral.cli.install.agent_files import plan_agent
        from corral.cli.install.install import apply

        place = os.getcwd() if project else ""
        plan = functools.partial(plan_agent, name, remove=remove, project=place)
        sys.exit(apply(plan, yes=yes, dry_run=dry_run, as_json=as_json))

    text = f"Run the shell commands of {name} in a sandbox; writes your settings of {name}."
    return click.command(name, help=text)(install_agent)


for _name in ("claude-code", "codex", "gemini", "opencode", "pi"):
    install.add_command(_agent_command(_name))
