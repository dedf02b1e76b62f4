"""Readings: what a plan has read of git's own files, so that a later change of them can be told."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from corral.model.backend import Host
    from corral.model.plan import FileStamp


class Readings:
    """A host that remembers how each file was that was read. It is a `Host` to whoever asks.

    INVARIANT: nothing is read past it. So whoever finds all of them as they were may rely on what they say.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self.stamps: dict[str, FileStamp] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def read_text(self, path: str, limit_bytes: int) -> str:
        """ORDER: the stamp is older than the text. What changes in between makes another stamp."""
        if path not in self.stamps:
            self.stamps[path] = self._host.stamp(path)
        return self._host.read_text(path, limit_bytes)
