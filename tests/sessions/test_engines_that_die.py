"""A container engine that dies takes its sessions with it: they say so, and nothing waits for it for ever."""

from __future__ import annotations

import os
import signal

import pytest

from corral.model.errors import CorralError, SetupError
from corral.model.result import Outcome
from corral.sandbox import Sandbox
from support import user_engines
from support.keeping import children_of, find_by_argument, wait_until

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.keeping import Keeper


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["docker", "podman"])
def test_a_session_whose_engine_is_killed_says_so(
    keeper: Keeper, name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    reason = user_engines.why_not(name)
    if reason:
        required = request.config.getoption("--require", default="").split(",")
        (pytest.fail if name in required else pytest.skip)(reason)
    user_engines.stop_engine(name)  # one of its own: others go on with theirs
    programs = user_engines.start_engine(name)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    other = keeper.session()
    mark = f"6100{os.getpid()}"
    wish = Sandbox(workspace=keeper.work, backend="none").explain(["true"]).plan
    probe = user_engines.probe_engine(name)
    session = Sandbox(
        workspace=keeper.work,
        backend=name,
        container=user_engines.CONTAINER,
        waive=wish.requires - probe.enforces,
    ).session()
    try:
        assert session.run("echo well").stdout == "well\n"
        running = session.start(["sleep", mark])
        wait_until(lambda: bool(find_by_argument(mark)), "it runs")
        engine = user_engines.engine_of(name)
        assert engine.enclosure is not None

        os.kill(children_of(engine.enclosure._holder.pid)[0], signal.SIGKILL)

        wait_until(lambda: not find_by_argument(mark), "all that it had is gone")
        wait_until(lambda: not session.is_open, "the session is over")
        with pytest.raises(SetupError) as lost:
            session.run("true")
        assert lost.value.code == "session-lost"
        assert running.wait(30).outcome is Outcome.BLOCKED
        assert other.run("echo well").stdout == "well\n"
    finally:
        try:
            session.close()
        except CorralError as problem:  # nobody is there to take its container away
            assert problem.code == "engine"
        try:
            user_engines.stop_engine(name)
        except Exception as problem:
            print("the engine did not end by itself:", problem)
