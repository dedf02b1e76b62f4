"""The way in: plain `corral run` takes the quick way, everything else goes through click."""

from __future__ import annotations

import gc
import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Entry point of the `corral` command."""
    try:
        _main()
    except KeyboardInterrupt:  # before a command was there to have it
        os._exit(130)
    except BrokenPipeError:
        os._exit(1)
    except OSError as problem:
        os.write(2, f"corral: the output could not be printed\n  because: {problem}\n".encode())
        os.write(2, b"  fix: make room where it goes, or send it elsewhere\n")
        os._exit(1)


def _main() -> NoReturn:
    arguments = sys.argv[1:]
    _open_closed_streams()
    gc.disable()  # nothing lives long enough to be worth looking for
    if arguments[:1] == ["run"]:
        from corral.cli.options import parse_quickly

        parsed = parse_quickly(arguments[1:])
        if parsed is not None:
            from corral.cli.run import run_request

            _leave(run_request(*parsed))
    from corral.cli.commands import cli

    cli(prog_name="corral")
    raise SystemExit(0)


def _open_closed_streams() -> None:
    """Daemons start programs with closed descriptors; Python then has no streams at all."""
    if None in {sys.stdin, sys.stdout, sys.stderr}:
        from corral.runtime.stdio import ensure_stdio

        ensure_stdio()
        sys.stdin = sys.stdin or open(0, closefd=False)
        sys.stdout = sys.stdout or open(1, "w", closefd=False)
        sys.stderr = sys.stderr or open(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a locale without ✔ is no reason to fail


def _leave(status: int) -> NoReturn:
    """Exit at once: taking the interpreter apart takes as long as a sandboxed `true`."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()
