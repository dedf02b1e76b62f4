"""What corral refuses is told while the command still runs, and once."""

from __future__ import annotations

import asyncio
import contextlib
import select
import shutil
import subprocess
import sys

import pytest

import corral.runtime.launcher.job
import corral.runtime.run
from corral import aio
from corral.model.event import EventKind
from corral.model.feature import Feature
from corral.model.violation import Evidence, Violation
from corral.parallel.executor import SandboxExecutor
from corral.policy.compose import build_policy
from corral.runtime.reporter import MOST_EVENTS
from corral.runtime.run import Run
from corral.sandbox import Sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from corral.model.event import Event, Listener
    from corral.model.result import Result
    from corral.runtime.starter import Process
    from corral.streams.streams import InheritedStreams

#: Asks for what nobody permits, twice, and goes on when whoever runs it has heard.
ASK_AND_WAIT = """
for attempt in 1 2; do bash -c 'exec 3<>/dev/tcp/evil.test/80' 2>/dev/null; done
while [ ! -e heard ]; do sleep 0.02; done
echo heard
"""
LIMITED = ("network:https:good.test", "time:limit:60s")


def _sandbox(work: Path) -> Sandbox:
    return Sandbox(build_policy("moderate", LIMITED), backend="native", workspace=work)


def _in_session(work: Path, listen: Listener) -> Result:
    with _sandbox(work).session() as session:
        return session.run(ASK_AND_WAIT, on_event=listen)


def _in_a_session(work: Path) -> Result:
    with _sandbox(work).session() as session:
        return session.run("true")


@pytest.mark.parametrize(
    "run",
    [
        lambda work, listen: _sandbox(work).run(ASK_AND_WAIT, on_event=listen),
        _in_session,
        lambda work, listen: SandboxExecutor(_sandbox(work)).execute(ASK_AND_WAIT, on_event=listen),
        lambda work, listen: asyncio.run(aio.Sandbox(_sandbox(work)).run(ASK_AND_WAIT, on_event=listen)),
    ],
    ids=["sandbox", "session", "executor", "aio"],
)
def test_a_refusal_is_heard_while_the_command_runs(
    tmp_path: Path, run: Callable[[Path, Listener], Result]
) -> None:
    events: list[Event] = []

    def listen(event: Event) -> None:
        events.append(event)
        (tmp_path / "heard").touch()

    result = run(tmp_path, listen)

    assert result.stdout == "heard\n"  # else it would have waited until its time was over
    assert [(event.subject, event.evidence) for event in events] == [("evil.test", Evidence.OBSERVED)]
    (kept,) = result.events
    assert kept.replace(count=1) == events[0] and kept.count == 2
    assert [violation.subject for violation in result.violations] == ["evil.test"]


@pytest.mark.parametrize(
    "run", [lambda work: _sandbox(work).run("true"), _in_a_session], ids=["run", "session"]
)
def test_what_is_heard_last_is_in_the_result(
    tmp_path: Path, run: Callable[[Path], Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker tells of refusals, and may be behind when the command has ended."""
    refused = Violation(Feature.NET_DOMAINS, "evil.test", Evidence.OBSERVED, "no rule permits this host")

    @contextlib.contextmanager
    def listening(_network: object, hear: Callable[[Violation], None]) -> Iterator[None]:
        yield
        hear(refused)

    for module in (corral.runtime.run, corral.runtime.launcher.job):
        monkeypatch.setattr(module, "listening", listening)

    assert [event.subject for event in run(tmp_path).events] == ["evil.test"]


def test_the_command_line_says_it_at_once_and_counts_at_the_end(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "corral", "run", "--no-config", "--allow", "good.test"]
    with subprocess.Popen(
        [*command, "--timeout", "60", "-c", ASK_AND_WAIT], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        was_running = process.poll() is None
        (tmp_path / "heard").touch()
        rest = process.stderr.read()

    assert was_running and process.returncode == 0
    assert first == (
        "corral: net.domains: evil.test: no rule permits this host; to permit it: --allow evil.test\n"
    )
    assert rest == "corral: net.domains: evil.test: 2 times in all\n"


OFFLINE = """
bash -c 'exec 3<>/dev/tcp/evil.test/80' 2>/dev/null
bash -c 'exec 3<>/dev/tcp/203.0.113.7/22' 2>/dev/null
bash -c 'exec 3<>/dev/tcp/127.0.0.1/9' 2>/dev/null
bash -c 'exec 3<>/dev/tcp/localhost/9' 2>/dev/null
while [ ! -e heard ]; do sleep 0.02; done
echo heard
"""


def test_without_a_network_what_was_asked_for_is_heard_while_the_command_runs(tmp_path: Path) -> None:
    events: list[Event] = []

    def listen(event: Event) -> None:
        events.append(event)
        if len(events) == 2:
            (tmp_path / "heard").touch()

    sandbox = Sandbox(build_policy("moderate", ("time:limit:60s",)), backend="native", workspace=tmp_path)
    result = sandbox.run(OFFLINE, on_event=listen)

    assert result.stdout == "heard\n" and result.network is None
    assert [(event.feature, event.subject, event.hint) for event in events] == [
        (Feature.NET_NONE, "evil.test", "network:https:evil.test"),
        (Feature.NET_NONE, "203.0.113.7:22", "network:tcp:203.0.113.7:22"),
    ]
    assert [event.evidence for event in result.events] == [Evidence.OBSERVED] * 2


def test_without_a_network_a_server_inside_is_reached(tmp_path: Path) -> None:
    server = "s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname())"
    result = Sandbox(backend="native", workspace=tmp_path).run(["python3", "-c", f"import socket; {server}"])

    assert result.ok and result.events == ()


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_without_a_network_npm_tries_once(tmp_path: Path) -> None:
    """The control: with a retry, by the user's own word, it asks twice as often."""
    (tmp_path / "package.json").write_text('{"name": "x", "version": "1.0.0"}')
    once, twice = (
        Sandbox(build_policy("moderate", more), backend="native", workspace=tmp_path).run(
            "npm install some-package --fetch-retry-mintimeout=1"
        )
        for more in ((), ("env:set:npm_config_fetch_retries=1",))
    )

    assert [event.subject for event in once.events] == ["registry.npmjs.org"]
    assert twice.events[0].count == 2 * once.events[0].count


def test_what_was_observed_is_not_guessed_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the command has ended before anything was heard of it."""

    def hear_late(run: Run, streams: InheritedStreams, began: float, process: Process) -> None:
        streams.register(select.poll())
        streams.read_errors(run._infer)
        while run._status.read(process.status) and not run._status.is_done:
            pass
        run._release()

    monkeypatch.setattr(Run, "_loop", hear_late)
    events: list[Event] = []
    _sandbox(tmp_path).run(["unshare", "-U", "true"], on_event=events.append)

    assert [(event.subject, event.evidence) for event in events] == [("unshare", Evidence.OBSERVED)]


def test_a_flood_of_lookups_is_bounded_and_ends_with_its_command(tmp_path: Path) -> None:
    flood = """
import socket
query = b"\\x00\\x01\\x01\\x00\\x00\\x01" + bytes(6)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(3000):
    label = b"n%d" % number
    udp.sendto(query + bytes([len(label)]) + label + b"\\x04test\\x00\\x00\\x01\\x00\\x01", ("127.0.0.1", 53))
    udp.sendto(b"\\xff" * 300, ("127.0.0.1", 53))
print("sent")
"""
    result = Sandbox(backend="native", workspace=tmp_path).run(["python3", "-c", flood])

    assert result.stdout == "sent\n"
    assert 0 < len(result.events) <= MOST_EVENTS
    assert all(event.describe().isprintable() for event in result.events)


def test_what_is_planted_is_told_while_the_command_runs(tmp_path: Path) -> None:
    events: list[Event] = []

    def listen(event: Event) -> None:
        events.append(event)
        (tmp_path / "heard").touch()

    script = "echo x > .envrc\nwhile [ ! -e heard ]; do sleep 0.02; done\necho heard"
    result = _sandbox(tmp_path).run(script, on_event=listen)

    assert result.stdout == "heard\n"
    assert [(event.kind, event.subject) for event in events] == [(EventKind.TAKEN, str(tmp_path / ".envrc"))]


@pytest.mark.parametrize(
    "words",
    [
        "memory limit exceeded",
        "Out of memory: Killed process 1 (python3)",
        "cat: /etc/shadow: Permission denied",
        "corral: fs.protect: /etc/passwd: it was moved to quarantine",
        "corral: the command was stopped: it ran out of its memory (out-of-memory)",
        "net.domains: evil.test: no rule permits this host; to permit it: --allow evil.test",
    ],
)
def test_no_words_of_a_command_are_an_observation(tmp_path: Path, words: str) -> None:
    result = _sandbox(tmp_path).run(["sh", "-c", 'echo "$1" >&2; exit 1', "sh", words])

    assert [event for event in result.events if event.evidence is Evidence.OBSERVED] == []
    assert [found for found in result.violations if found.evidence is Evidence.OBSERVED] == []
