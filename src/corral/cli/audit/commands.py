"""`corral audit`, for click."""

from __future__ import annotations

import sys

import click

_DIRECTORY = click.option("--directory", metavar="DIR", help="A log other than your own.")
_FILTERS = (
    click.option(
        "--since", metavar="TIME", help="From this time on: 2026-11-18T10:00, or 2h (two hours ago)."
    ),
    click.option("--until", metavar="TIME", help="Before this time."),
    click.option(
        "--event", "events", multiple=True, metavar="NAME", help="Records of this kind; can be repeated."
    ),
    click.option("--agent", metavar="NAME", help="Records of this agent."),
    click.option("--outcome", metavar="NAME", help="Runs with this outcome: exited, timed-out, ..."),
    click.option("--feature", metavar="NAME", help="Records about this guarantee."),
    click.option("--run", metavar="ID", help="Records of this run."),
)


@click.group()
def audit() -> None:
    """Look at the audit log: what ran, under which policy, how it ended.

    `[audit] enabled = true` in your configuration records every run.
    """


def _with_filters(function: click.decorators.FC) -> click.decorators.FC:
    for option in reversed(_FILTERS):
        function = option(function)
    return function


@audit.command()
@_DIRECTORY
@click.option("-n", "count", default=20, metavar="N", help="How many; 20 by default.")
@click.option("--json", "as_json", is_flag=True, help="Print the original lines.")
def tail(directory: str | None, count: int, *, as_json: bool) -> None:
    """Print the last records."""
    from corral.cli.audit.show import show_tail

    sys.exit(show_tail(directory, count, as_json=as_json))


@audit.command()
@_DIRECTORY
@_with_filters
@click.option("--json", "as_json", is_flag=True, help="Print records as JSON, a line each.")
def query(directory: str | None, *, as_json: bool, **filters: object) -> None:
    """Print the records that match all conditions."""
    from corral.cli.audit.show import show_query

    sys.exit(show_query(directory, filters, as_json=as_json))


@audit.command()
@_DIRECTORY
@_with_filters
@click.option(
    "--format", "form", type=click.Choice(("jsonl", "ocsf")), default="jsonl", help="jsonl, or OCSF events."
)
def export(directory: str | None, form: str, **filters: object) -> None:
    """Print records for other programs, a line each."""
    from corral.cli.audit.show import export_records

    sys.exit(export_records(directory, filters, form))


@audit.command()
@_DIRECTORY
@click.option(
    "--key", metavar="FILE", help="The key of the log, if it has one; else that of the configuration."
)
@click.option("--anchor", metavar="FILE", help="A file with stored heads; `-` for stdin.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def verify(directory: str | None, key: str | None, anchor: str | None, *, as_json: bool) -> None:
    """Say whether any line was changed, removed or inserted. The exit status is 1 if so.

    Without an anchor it cannot tell whether the end was cut off or the whole log rewritten.
    """
    from corral.cli.audit.show import verify_log

    sys.exit(verify_log(directory, key, anchor, as_json=as_json))


@audit.command()
@_DIRECTORY
@click.option("--to", "target", required=True, metavar="PLACE", help="syslog, journald, or a file elsewhere.")
@click.option("--sign", metavar="KEY", help="Sign the head with this ssh key, by ssh-keygen.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def anchor(directory: str | None, target: str, sign: str | None, *, as_json: bool) -> None:
    """Store the head of the log elsewhere, for `verify --anchor`."""
    from corral.cli.audit.show import anchor_log

    sys.exit(anchor_log(directory, target, sign, as_json=as_json))
