"""`corral image ...`, for click. Each imports what it does when it is called."""

from __future__ import annotations

import functools
import sys

import click

_JSON = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
_ENGINE_HELP = "docker or podman; without it, every engine that answers."


@click.group()
def image() -> None:
    """Build and inspect the container images for docker and podman."""


@image.command("list")
@_JSON
def list_(*, as_json: bool) -> None:
    """List the variants, and what each engine has of them."""
    from corral.cli.image.show import list_images
    from corral.cli.policy.show import answer

    sys.exit(answer(list_images, as_json=as_json, doing="asking the container engines"))


@image.command()
@click.argument("variant", required=False)
@click.option("--engine", default="", metavar="NAME", help=_ENGINE_HELP)
@click.option("-o", "--output", default="", metavar="FILE", help="Only write this archive; needs no engine.")
@click.option("--suite", default="", metavar="NAME", help="The release of Debian; the host's own by default.")
@click.option("--mirror", multiple=True, metavar="URL", help="Where its packages are; can be repeated.")
@_JSON
def build(
    variant: str | None, *, engine: str, output: str, suite: str, mirror: tuple[str, ...], as_json: bool
) -> None:
    """Build a VARIANT from Debian packages: minimal, python, node, full or latest.

    Needs mmdebstrap, and no registry. If it ends early, it leaves nothing behind.
    """
    from corral.cli.image.show import build as build_image
    from corral.cli.policy.show import answer
    from corral.images.recipe import DEFAULT_VARIANT

    name = variant or DEFAULT_VARIANT
    sys.exit(
        answer(
            lambda: build_image(name, engine=engine, output=output, suite=suite, mirrors=mirror),
            as_json=as_json,
        )
    )


@image.command()
@click.argument("name")
@click.option("--engine", default="", metavar="NAME", help="docker or podman; else the first that has it.")
@click.option("-v", "--verbose", is_flag=True, help="List every package.")
@_JSON
def inspect(name: str, *, engine: str, verbose: bool, as_json: bool) -> None:
    """Say what is in an image: a variant, any other name of an image, or an archive.

    It warns if a program in it changes its user, or a user has a password.
    """
    from corral.cli.image.show import inspect as inspect_image
    from corral.cli.policy.show import answer

    work = functools.partial(inspect_image, name, engine=engine, verbose=verbose)
    sys.exit(answer(work, as_json=as_json, doing=f"reading {name}"))
