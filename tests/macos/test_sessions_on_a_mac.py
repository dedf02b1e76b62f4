"""Sessions where no sandbox is kept: every command has its own, and finds the home of the one before it."""

from __future__ import annotations

import math
import os

import pytest

from corral.backends import seatbelt
from corral.model.errors import SessionClosed, SetupError
from corral.parallel.executor import SandboxExecutor
from corral.sandbox import Sandbox
from corral.sessions.pool import Pool
from support.mac_stage import WAIVED, Mac, MacRealHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.sessions.session import Session


@pytest.fixture
def sandbox(mac: Mac, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    for name, value in mac.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(seatbelt, "PROGRAM", mac.program)
    return Sandbox(backend="seatbelt", workspace=mac.work, waive=WAIVED, host=MacRealHost())


@pytest.fixture
def session(sandbox: Sandbox) -> Iterator[Session]:
    with sandbox.session() as session:
        yield session


def test_the_home_is_kept_for_the_next_command_and_gone_with_the_session(session, mac: Mac) -> None:
    assert session.run("echo kept > ~/file").ok

    assert session.run("cat ~/file").stdout == "kept\n"
    session.close()
    assert mac.left == []


def test_state_is_that_of_the_last_stateful_command(session) -> None:
    session.run("mkdir deep && cd deep && export WORD=kept", stateful=True)
    told = session.run('pwd; echo "$WORD"', stateful=True)

    assert told.stdout == f"{session._inside('deep')}\nkept\n"


def test_another_session_has_another_home(session, sandbox: Sandbox) -> None:
    session.run("echo kept > ~/file")
    home = session.run("echo ~").stdout.strip()
    with sandbox.session() as other:
        looked = other.run(f"cat ~/file {home}/file")

    assert looked.exit_code != 0
    assert looked.stdout == ""


def test_commands_run_at_the_same_time(session) -> None:
    server = session.start("while [ ! -e go ]; do sleep 0.01; done; echo went")
    session.run("touch go")

    assert server.wait(30).ok
    assert server.read() == b"went\n"


def test_what_was_started_ends_with_the_session(session, mac: Mac) -> None:
    process = session.start("echo $$ > pid; echo ready; sleep 60")
    assert process.read(timeout=30) == b"ready\n"
    session.close()

    with pytest.raises(ProcessLookupError):
        os.kill(int((mac.work / "pid").read_text()), 0)
    assert mac.left == []


def test_a_reset_forgets_the_home(session) -> None:
    session.run("echo kept > ~/file")
    session.reset()

    assert session.run("ls -A ~/file").exit_code != 0


def test_a_protected_name_is_held_for_every_command(session, mac: Mac) -> None:
    for _ in range(2):
        session.run("echo x > .envrc")

    assert not (mac.work / ".envrc").exists()


def test_what_needs_a_kept_sandbox_is_refused_with_a_reason(session) -> None:
    for ask in (session.usage, lambda: session.network, lambda: session.read_file("x")):
        with pytest.raises(SetupError) as refused:
            ask()
        assert refused.value.code == "not-kept"


def test_a_closed_session_takes_no_command(session) -> None:
    session.close()

    with pytest.raises(SessionClosed):
        session.run("true")


def test_an_executor_runs_many_commands(sandbox: Sandbox, mac: Mac) -> None:
    with SandboxExecutor(sandbox) as executor:
        results = executor.execute_parallel([f"echo {n} > {n}; cat {n}" for n in range(3)])

    assert [result.stdout for result in results] == ["0\n", "1\n", "2\n"]
    assert mac.left == []


def test_an_executor_calls_functions(sandbox: Sandbox, mac: Mac) -> None:
    with SandboxExecutor(sandbox) as executor:
        assert executor.submit(math.factorial, 20).result(60) == math.factorial(20)

    assert mac.left == []


def test_a_pool_needs_sandboxes_that_are_kept(sandbox: Sandbox) -> None:
    with pytest.raises(SetupError) as refused, Pool(sandbox, size=1) as pool:
        pool.run("true")

    assert refused.value.code == "not-kept"
