"""Options: the keyword arguments of the blocking calls, for the type checker alone."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping
    from typing import TypedDict

    from corral.model.event import Listener
    from corral.streams.destinations import Target

    #: A function, or a coroutine function.
    AsyncStream = Callable[[str, bytes], object]

    class CommandOptions(TypedDict, total=False):
        """See `corral.Sandbox.run`."""

        cwd: str | os.PathLike[str] | None
        env: Mapping[str, str] | None
        stdin: bytes | str
        timeout: float | None
        stream: AsyncStream | None
        stdout: Target | None
        stderr: Target | None
        on_event: Listener | None

    class KeptOptions(CommandOptions, total=False):
        """See `corral.sessions.session.Session.run`, without `stateful`."""

    class PoolOptions(KeptOptions, total=False):
        """See `corral.Pool.run`."""

        wait: float | None

    class StartOptions(TypedDict, total=False):
        """See `corral.sessions.session.Session.start`."""

        cwd: str | os.PathLike[str] | None
        env: Mapping[str, str] | None
        stdin: bytes | str
        timeout: float | None
