"""Streams of a run that the entry program has begun: its pipes, and what was on its way then."""

from __future__ import annotations

from corral.model.record import Record
from corral.streams.streams import RelayedStreams, no_descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    import select
    from typing import Self


class ContinuedStream(Record):
    """One of the command's outputs."""

    source: int  # our end of its pipe; -1: it is at its end, or does not pass through here
    pending: bytes  # read, and not written yet
    end: bytes  # of what was read
    errno: int  # why not all could be written


class ContinuedStreams(RelayedStreams):
    """Both outputs, as they are carried on."""

    def __init__(self, begun: tuple[ContinuedStream, ...], room: int | None, *, reads_errors: bool) -> None:
        """`room`: how much more may be printed."""
        super().__init__(room, reads_errors=reads_errors)
        self._begun = begun

    def __enter__(self) -> Self:
        try:
            for name, stream in zip(("stdout", "stderr"), self._begun, strict=True):
                self._sinks.append(self._open_sink(name))
                self._relays[-1].resume(stream.pending, stream.end, stream.errno)
                if stream.source >= 0:
                    self._keep(stream.source)
        except OSError as problem:
            self.close()
            raise no_descriptors(problem) from problem
        self._outputs = (self._begun[0].source, self._begun[1].source)
        return self

    def child_ends(self) -> tuple[int, int, int]:
        """The command has its own already; these are looked at once more."""
        return (0, 1, 2)

    def register(self, poller: select.poll) -> None:
        super().register(poller)
        for relay, source in zip(self._relays, self._outputs, strict=True):
            self._steer(relay, source, poller)
