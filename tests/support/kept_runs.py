"""A sandbox whose every command is the hundredth: it runs in a session that others have used before it.

What holds for one command holds for all that come after it. So the proofs and the attacks that are made for
single runs are made again here, through `run` and `start` of a sandbox that looks like any other.
"""

from __future__ import annotations

from corral.model.plan import StdioMode
from corral.sandbox import Sandbox
from corral.streams.streams import open_streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.container import Container
    from corral.model.event import Listener
    from corral.model.plan import Command
    from corral.model.policy import Policy
    from corral.model.result import Result
    from corral.runtime.monitor import Monitor
    from corral.streams.destinations import Destinations
    from support.confinement import Case

#: Harmless ones that touch what a session keeps: files, a private area, and an end of each kind.
WARM_UP = (":", "exit 3", "kill -9 $$", "ulimit -n 16; umask 077; cd /; export PATH=/nowhere")


class KeptSandbox(Sandbox):
    """`run` makes a session, uses it, and then runs the command in it. The session ends with the command."""

    def prepare(
        self, command: Command, output: Destinations | None = None, monitor: Monitor | None = None
    ) -> KeptAttempt:  # type: ignore[override]
        assert output is None and monitor is None
        return KeptAttempt(self, command)


class KeptAttempt:
    def __init__(self, sandbox: Sandbox, command: Command) -> None:
        self._sandbox = sandbox
        self._command = command

    def listen(self, listener: Listener | None) -> None:
        """Of a session's commands the result tells all there is."""

    def run(self) -> Result:
        command = self._command
        sandbox = self._sandbox if command.trial is None else self._sandbox.on_trial(command.trial)
        sandbox.planner.trust(*self._sandbox.planner.probes())
        with sandbox.session() as session:
            for line in WARM_UP:
                session.run(line)
            plan = self._sandbox.planner.plan(command)
            job = session.prepare_on(
                open_streams(plan, doors=session.doors),
                command.argv,
                cwd=command.cwd,
                terminal=command.stdio is StdioMode.TERMINAL,
            )
            return session.finish(job)


def keep(case: Case, policy: Policy, workspace: str, container: Container) -> KeptSandbox:
    """A kept sandbox of one case, which waives exactly what the backend does not claim."""
    request = Sandbox(policy, backend="none", workspace=workspace).explain(["true"]).plan
    sandbox = KeptSandbox(
        policy,
        backend=case.backend.name,
        workspace=workspace,
        waive=request.requires - case.probe.enforces,
        container=container,
    )
    sandbox.planner.trust(case.probe)
    return sandbox
