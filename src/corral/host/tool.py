"""Ask a program of the host something, and never wait for it longer than was said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress

from corral.model.probe import ToolRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MOST_BYTES = 1024 * 1024
_PROC = "/proc"


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


@contextmanager
def leaving_no_pause(program: str) -> Iterator[None]:
    """End what podman leaves running when an ordinary user has asked it something: it holds a namespace.

    Nobody has asked for podman who only wants to know which backends work. A pause process that was there
    before is the user's. One that a podman of his makes meanwhile is ended as well, which does no harm: the
    next podman makes another.
    """
    if os.path.basename(program) != "podman":
        yield
        return
    before = frozenset(_pauses())
    try:
        yield
    finally:
        for pid in _pauses():
            if pid not in before:
                _end_pause(pid)


def _pauses() -> Iterator[int]:
    try:
        names = os.listdir(_PROC)
    except OSError:
        return
    yield from (int(name) for name in names if name.isdecimal() and _is_pause(int(name)))


def _is_pause(pid: int) -> bool:
    """Whether this is a pause process of our user: podman itself by that name, or `catatonit -P`."""
    try:
        if os.stat(f"{_PROC}/{pid}").st_uid != os.geteuid():
            return False
        with open(f"{_PROC}/{pid}/comm", "rb") as file:
            name = file.read(64).strip()
        if name != b"catatonit":
            return name == b"podman pause"
        with open(f"{_PROC}/{pid}/cmdline", "rb") as file:
            return file.read(4096).split(b"\0")[1:2] == [b"-P"]
    except OSError:
        return False


def _end_pause(pid: int) -> None:
    with suppress(OSError):
        if sys.platform != "linux":
            return  # there is none: engines run in a machine of their own
        held = os.pidfd_open(pid)
        try:
            if _is_pause(pid):  # still the same, now that nobody else can get its number
                signal.pidfd_send_signal(held, signal.SIGKILL)
        finally:
            os.close(held)
