"""Options: the keyword arguments of the blocking calls, for the type checker alone."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypedDict

    from corral.limits.ceiling import Ceiling
    from corral.model.backend import Host
    from corral.model.container import Container
    from corral.model.feature import Feature
    from corral.runtime.destinations import Target

    #: A function, or a coroutine function.
    AsyncStream = Callable[[str, bytes], object]

    class SandboxOptions(TypedDict, total=False):
        """See `corral.Sandbox`."""

        backend: str
        backends: Iterable[str]
        workspace: str | os.PathLike[str] | None
        waive: Iterable[Feature | str]
        container: Container
        fallback: str
        within: Ceiling | None
        host: Host | None

    class CommandOptions(TypedDict, total=False):
        """See `corral.Sandbox.run`."""

        cwd: str | os.PathLike[str] | None
        env: Mapping[str, str] | None
        stdin: bytes | str
        timeout: float | None
        stream: AsyncStream | None
        stdout: Target | None
        stderr: Target | None

    class KeptOptions(CommandOptions, total=False):
        """See `corral.session.Session.run`, without `stateful`."""

    class PoolOptions(KeptOptions, total=False):
        """See `corral.Pool.run`."""

        wait: float | None

    class StartOptions(TypedDict, total=False):
        """See `corral.session.Session.start`."""

        cwd: str | os.PathLike[str] | None
        env: Mapping[str, str] | None
        stdin: bytes | str
        timeout: float | None
