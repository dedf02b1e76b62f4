"""`corral install ...`, for click: a command for each program that is told of corral."""

from __future__ import annotations

import sys

import click


@click.group()
def install() -> None:
    """Make other programs of this host know corral. Everything is shown first, and can be removed."""


@install.command()
@click.option("--remove", is_flag=True, help="Take the profile out again.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask; needed where there is no terminal.")
def apparmor(*, remove: bool, dry_run: bool, yes: bool) -> None:
    """Permit user namespaces to corral's launcher, where AppArmor keeps them from programs (Ubuntu).

    Writes a profile to /etc/apparmor.d and loads it, as root. Nothing else on the host is permitted more.
    """
    from corral.cli.install import apply
    from corral.cli.install_apparmor import plan_profile

    sys.exit(apply(lambda: plan_profile(remove=remove), yes=yes, dry_run=dry_run))
