"""Explain a backend of another platform: a launch is made of a plan and a probe, and needs neither to run."""

from __future__ import annotations

from corral.backends.seatbelt import PROGRAM
from corral.model.probe import Stat, ToolRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from corral.model.backend import Host
    from corral.sandbox import Sandbox

_MAC, _SEATBELT = "darwin", "seatbelt"
NOTE = "as on a Mac; nothing of it was tried here, and the files are those of this machine"


def as_elsewhere(sandbox: Sandbox, platform: str) -> Sandbox | None:
    """The sandbox as it would be on a Mac, if Seatbelt was asked for by name, and this is none.

    It must not be run: its answers about Seatbelt are made up.
    """
    names = [probe.backend for probe in sandbox.probes()] if platform != _MAC else []
    if names != [_SEATBELT]:
        return None

    def wrap(host: Host) -> Any:
        return _Mac(host)

    return sandbox.through(wrap, (_SEATBELT,))


class _Mac:
    """This host, if it were a Mac on which Seatbelt does what it should."""

    platform = _MAC

    def __init__(self, host: Host) -> None:
        self._host = host

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def lstat(self, path: str) -> Stat | None:
        return Stat(False, False, 0, 0, is_executable=True) if path == PROGRAM else self._host.lstat(path)

    def run_tool(self, argv: tuple[str, ...], *, seconds: float = 10.0) -> ToolRun:
        if argv[0] != PROGRAM:
            return self._host.run_tool(argv, seconds=seconds)
        is_denied = "deny" in argv[2]
        return ToolRun(1, "", "Operation not permitted") if is_denied else ToolRun(0)
