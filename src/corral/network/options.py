"""What whoever makes a sandbox may tell the gateway besides the policy."""

from __future__ import annotations

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from corral.model.network.traffic import NetEvent

    Resolve = Callable[[str, int], Sequence[tuple[str, int]]]
    Ask = Callable[["NetRequest"], bool]


class NetRequest(Record):
    """A connection that no rule covers."""

    host: str
    port: int


class NetworkOptions(Record):
    resolve: Resolve | None = None  # name and port to addresses and ports; None: the host's own resolver
    ask: Ask | None = None  # decides about hosts that no rule names, at the first connection; None: refused
    ask_seconds: float = 30.0  # no answer by then is a no
    on_event: Callable[[NetEvent], None] | None = None  # hears of every decision, in a thread, in order
    checks_names: bool = True  # TLS and HTTP must ask for the host that was looked up
    most_connections: int = 2048  # at the same time
    throttles: bool = False  # who goes on being refused waits longer for each answer: `refusal:throttle`


def hearing(options: NetworkOptions | None, listener: Callable[[NetEvent], None]) -> NetworkOptions:
    """The same, and somebody else hears of every decision too."""
    known = options if options is not None else NetworkOptions()
    first = known.on_event
    if first is None:
        return known.replace(on_event=listener)

    def tell(event: NetEvent) -> None:
        try:
            first(event)
        finally:
            listener(event)

    return known.replace(on_event=tell)
