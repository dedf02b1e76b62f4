"""`corral module ...`, for click. Each imports what it does when it is called."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

_JSON = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")


def _parent(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say what the module's parent has."""
    for option in (
        click.option("--cwd", default=None, metavar="DIR", help="The workspace; this directory by default."),
        click.option("--cap", multiple=True, metavar="TEXT", help="Add a capability to what may be granted."),
        click.option(
            "-p", "--profile", default="strict", metavar="NAME", help="The most that may be granted."
        ),
    ):
        function = option(function)
    return function


@click.group()
def module() -> None:
    """Run WebAssembly modules, each with its own capabilities.

    A module asks in a section `corral.capabilities` of its own, or in a file FILE.caps beside it: one
    capability a line. Without either it gets nothing.
    """


@module.command()
@click.argument("file")
@_parent
@_JSON
def inspect(file: str, *, profile: str, cap: tuple[str, ...], cwd: str | None, as_json: bool) -> None:
    """Say what a module imports, exports and asks for, and what of that would be refused."""
    from corral.cli.module.show import Parent, inspect_module

    sys.exit(inspect_module(file, Parent(profile, cap, cwd), as_json=as_json))


@module.command(context_settings={"allow_interspersed_args": False})
@_parent
@_JSON
@click.argument("file")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(
    file: str,
    arguments: tuple[str, ...],
    *,
    profile: str,
    cap: tuple[str, ...],
    cwd: str | None,
    as_json: bool,
) -> None:
    """Run a WASI command with what its manifest asks for."""
    from corral.cli.module.show import Parent, run_module

    sys.exit(run_module(file, arguments, Parent(profile, cap, cwd), as_json=as_json))


@module.command(context_settings={"ignore_unknown_options": True})
@_parent
@_JSON
@click.argument("file")
@click.argument("function")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def call(
    file: str,
    function: str,
    arguments: tuple[str, ...],
    *,
    profile: str,
    cap: tuple[str, ...],
    cwd: str | None,
    as_json: bool,
) -> None:
    """Call a function that a module exports, with numbers, and print what it returns."""
    from corral.cli.module.show import Parent, call_module

    sys.exit(call_module(file, function, arguments, Parent(profile, cap, cwd), as_json=as_json))
