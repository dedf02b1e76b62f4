"""Sandbox, for asyncio."""

from __future__ import annotations

import corral.sandbox as blocking
from corral.aio.call import call, call_short
from corral.aio.session import HeldSession, Session
from corral.model.container import Container
from corral.pipeline.arguments import destinations_of
from corral.policy.preset import DEFAULT_PRESET

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence
    from typing import Unpack

    from corral.aio.call import CallInProgress
    from corral.model.feature import Feature
    from corral.model.policy import Policy
    from corral.model.result import Result
    from corral.pipeline.arguments import SandboxOptions
    from corral.pipeline.call_options import CommandOptions
    from corral.pipeline.planner import Explanation

_OWN_CONTAINER = Container()


class Sandbox:
    """See `corral.Sandbox`, which does the work (`blocking`) and may be given instead of a policy."""

    def __init__(
        self,
        policy: blocking.Sandbox | Policy | str = DEFAULT_PRESET,
        **options: Unpack[SandboxOptions],
    ) -> None:
        self.blocking = (
            policy if isinstance(policy, blocking.Sandbox) else blocking.Sandbox(policy, **options)
        )

    async def run(self, command: str | Sequence[str], **options: Unpack[CommandOptions]) -> Result:
        """See `corral.Sandbox.run`. `stream` may be a coroutine function; it is called in the loop."""

        def work(held: CallInProgress) -> Result:
            sandbox = self.blocking.narrowed(options.get("timeout"), options.get("env"))
            prepared = sandbox.read_command(command, cwd=options.get("cwd"), stdin=options.get("stdin", b""))
            output = destinations_of(
                held.in_loop(options.get("stream")), options.get("stdout"), options.get("stderr")
            )
            planned = sandbox.prepare(prepared, output)
            held.take(planned)
            planned.listen(options.get("on_event"))
            return planned.run()

        return await call(work)

    def session(self) -> Session:
        """Make a sandbox and keep it: `async with sandbox.session() as session`, or await it and close it."""
        return Session(lambda: HeldSession(self.blocking))

    async def explain(self, command: str | Sequence[str]) -> Explanation:
        """See `corral.Sandbox.explain`."""
        return await call_short(lambda: self.blocking.explain(command))


async def run(
    command: str | Sequence[str],
    *,
    policy: blocking.Sandbox | Policy | str = DEFAULT_PRESET,
    backend: str = "auto",
    workspace: str | os.PathLike[str] | None = None,
    waive: Iterable[Feature | str] = (),
    require: Iterable[Feature | str] = (),
    container: Container = _OWN_CONTAINER,
    **options: Unpack[CommandOptions],
) -> Result:
    """Run one command in a sandbox of its own. See `corral.run`; `policy` may be a sandbox."""

    def make() -> Sandbox:
        if isinstance(policy, blocking.Sandbox):
            return Sandbox(policy)
        return Sandbox(
            policy,
            backend=backend,
            workspace=workspace,
            waive=waive,
            require=require,
            container=container,
        )

    sandbox = await call_short(make)
    return await sandbox.run(command, **options)
