"""Ask a program of the host something, and never wait for it longer than was said."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile

from corral.model.probe import ToolRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_BYTES = 1024 * 1024


def run_tool(argv: tuple[str, ...], seconds: float, env: Mapping[str, str] | None = None) -> ToolRun:
    """Run it without any input and say what it said; see `Host.run_tool`.

    Its output goes to files and not to pipes: whatever it has left behind could hold a pipe open, and to wait
    for the end of that is to wait for a daemon that hangs. When the time is over its whole session is ended.
    """
    try:
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env=env,
                cwd="/",
                start_new_session=True,
            )
            try:
                status = child.wait(seconds)
            except subprocess.TimeoutExpired:
                return ToolRun(-1, "", f"no answer within {seconds:g} seconds")
            finally:
                _end(child)
            return ToolRun(
                status,
                *(
                    os.pread(file.fileno(), _MOST_BYTES, 0).decode("utf-8", "replace")
                    for file in (output, errors)
                ),
            )
    except OSError as problem:
        return ToolRun(-1, "", problem.strerror or str(problem))


def _end(child: subprocess.Popen[bytes]) -> None:
    """Take it away if it is still there, with what it has started."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
