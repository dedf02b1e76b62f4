"""The way in: plain `corral run` takes the quick way, everything else goes through click."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Entry point of the `corral` command."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["run"]:
        from corral.cli.options import parse_quickly

        parsed = parse_quickly(arguments[1:])
        if parsed is not None:
            from corral.cli.run import run_request

            sys.exit(run_request(*parsed))
    from corral.cli.commands import cli

    cli(prog_name="corral")
    raise SystemExit(0)


if __name__ == "__main__":
    main()
