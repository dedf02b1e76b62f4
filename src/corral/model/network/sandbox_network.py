"""SandboxNetwork: what a run or a session needs of the gateway that makes its connections."""

from __future__ import annotations

from typing import Protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from corral.model.network.endpoint import Endpoint
    from corral.model.network.traffic import LiveGrants, Traffic
    from corral.model.violation import Violation


class SandboxNetwork(Protocol):
    """One sandbox, as the gateway sees it. When it is closed, nothing passes any more."""

    def attach(self, descriptors: Sequence[int]) -> None:
        """Take connections at these sockets, which belong to the network from now on."""

    def allow(self, endpoint: Endpoint, for_seconds: float | None = None) -> None:
        """Permit more than the policy does, for a time or until it is revoked."""

    def revoke(self, host: str) -> None:
        """Forbid a host, whoever has permitted it."""

    def live_grants(self) -> LiveGrants:
        """What these two have changed, as it holds now."""

    def mark(self) -> int:
        """This moment, for `violations`."""

    def violations(self, since: int = 0) -> tuple[Violation, ...]:
        """What was refused since a moment, each kind once; observed, since the gateway itself refused it."""

    def listening(self, hear: Callable[[Violation], None]) -> AbstractContextManager[None]:
        """Tell at once what is refused, in another thread, until the `with` block ends."""

    def traffic(self) -> Traffic:
        """What was asked until now, and what passed. Also after the end."""

    def settle(self, seconds: float) -> None:
        """Pass on what was sent by a command that has ended; not for longer than this."""

    def detach(self) -> None:
        """The sandbox ends, and another one will be attached: end its connections, keep the rest."""

    def close(self) -> None:
        """End all connections. Returns when all sockets are closed; may be called again."""


class Observer(Protocol):
    """Hears what a command asks for that has no network. It lives in the loop of the run."""

    @property
    def descriptors(self) -> Iterable[int]:
        """What is to be waited for."""

    def attach(self, descriptors: Sequence[int]) -> None:
        """Hold these sockets, which belong to it from now on."""

    def react(self, descriptor: int) -> Sequence[Violation]:
        """Something has arrived: answer, and say what was refused."""

    def finish(self) -> tuple[Violation, ...]:
        """All that was refused, when nothing of the command runs any more."""

    def close(self) -> None:
        """Release the sockets; may be called again."""
