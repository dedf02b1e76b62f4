"""Hints: given back, exactly what was refused succeeds. And some are never given."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from corral.model.feature import Feature
from corral.network.options import NetworkOptions
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox
from support.counting import CountingServer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.model.event import Event
    from corral.model.result import Result

#: Starts ten processes at once, and fails if it cannot.
PROCESSES = "exec python3 -c 'import os; p = [os.fork() or os.read(os.pipe()[0], 1) for _ in range(10)]'"
#: Feature, what the policy says, and a command that it stops; `OTHER` is a directory beside the workspace.
CASES = [
    (Feature.FS_WRITE, ("filesystem:read:OTHER",), "echo x > OTHER/new"),
    (Feature.FS_WRITE, ("filesystem:read:OTHER",), "echo x >> OTHER/there"),
    (Feature.FS_PROTECT, (), "echo x > .git/hooks/pre-commit"),
    (Feature.FS_PROTECT, (), "mv .git moved"),
    (Feature.LIMIT_OUTPUT, ("output:limit:1000B",), "head -c 1500 /dev/zero"),
    (Feature.LIMIT_FILE_SIZE, ("file:limit:1000B",), "exec head -c 1500 /dev/zero > made"),
    (Feature.LIMIT_DISK, ("disk:limit:1MB",), "head -c 1500000 /dev/zero > /tmp/made"),
    (Feature.LIMIT_MEMORY, ("memory:limit:64MB",), "exec python3 -c 'b = bytearray(90_000_000)'"),
    (Feature.PROC_SINGLE, ("process:none",), "/bin/true; /bin/true"),
    (Feature.LIMIT_WALL, ("time:limit:2s",), "exec sleep 2.5"),
    (Feature.LIMIT_PIDS, ("pids:limit:8",), PROCESSES),
]


@pytest.fixture
def run(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Result]:
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    (other / "there").write_text("before\n")
    subprocess.run(["git", "init", "-q", work], check=True)

    def run(script: str, capabilities: tuple[str, ...], hint: str = "") -> Result:
        given = [text.replace("OTHER", str(other)) for text in capabilities]
        waived = [hint.removeprefix("waive:")] if hint.startswith("waive:") else []
        policy = build_policy("moderate", (*given, *([hint] if hint and not waived else ())))
        sandbox = Sandbox(policy, backend="native", workspace=work, waive=waived)
        return sandbox.run(script.replace("OTHER", str(other)))

    return run


def _hinted(result: Result, feature: Feature) -> Event:
    found = [event for event in result.events if event.feature is feature and event.hint]
    assert found, [event.describe() for event in result.events] + [result.stderr]
    return found[0]


@pytest.mark.parametrize(("feature", "capabilities", "script"), CASES)
def test_what_a_hint_permits_is_what_was_refused(
    run: Callable[..., Result], feature: Feature, capabilities: tuple[str, ...], script: str
) -> None:
    refused = run(script, capabilities)
    assert not refused.ok

    hint = _hinted(refused, feature).hint
    # A limit is replaced, a grant is added.
    is_limit = feature.value.startswith("limit.") or feature is Feature.PROC_SINGLE
    again = run(script, () if is_limit else capabilities, hint)

    assert again.ok, again.stderr


def test_a_hint_for_a_file_that_is_there_is_that_file_alone(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    there = _hinted(run("echo x >> OTHER/there", ("filesystem:read:OTHER",)), Feature.FS_WRITE).hint
    new = _hinted(run("echo x > OTHER/new", ("filesystem:read:OTHER",)), Feature.FS_WRITE).hint

    assert there == f"filesystem:write:{tmp_path}/other/there"
    assert new == f"filesystem:write:{tmp_path}/other"


def test_what_gives_the_host_away_says_so(run: Callable[..., Result]) -> None:
    event = _hinted(run("echo x > .git/hooks/pre-commit", ()), Feature.FS_PROTECT)

    assert event.hint == "waive:fs.protect" and "could take over the host" in event.describe()


def test_a_host_that_was_refused_is_reached_with_its_hint(tmp_path: Path) -> None:
    server = CountingServer()
    ask = r"GET / HTTP/1.0\r\nHost: late.test\r\n\r\n"
    script = f"exec 3<>/dev/tcp/late.test/80 && printf '{ask}' >&3 && head -c 1 <&3 >/dev/null"

    def reach(*capabilities: str) -> Result:
        # A test's own name leads to loopback, which has to be granted besides.
        more = ("network:tcp:127.0.0.1:80", *capabilities)
        options = NetworkOptions(resolve=lambda name, port: [("127.0.0.1", server.port)])
        sandbox = Sandbox(
            build_policy("moderate", more), backend="native", workspace=tmp_path, network=options
        )
        return sandbox.run(["bash", "-c", script])

    refused = reach()
    assert not refused.ok and server.clients == 0
    reach(_hinted(refused, Feature.NET_DOMAINS).hint)

    assert server.clients == 1
    server.close()


@pytest.mark.parametrize(
    "script",
    [
        "echo x > /etc/hosts",
        "echo 'cat: /etc/shadow: Permission denied' >&2; exit 1",
        'echo "bash: /etc/shadow: Permission denied" >&2; exit 1',
        "mkdir m; mount -t tmpfs none m",
        "mount -t tmpfs none /tmp",
        "touch /usr/x",
        "touch /usr/bin/env",
        "mkdir /made",
        "echo \"touch: cannot touch '$HOME/.ssh/authorized_keys': Read-only file system\" >&2; exit 1",
        "echo \"touch: cannot touch '/home/other/.ssh/id_rsa': Permission denied\" >&2; exit 1",
        'echo "cat: /home/other/.aws/credentials: Permission denied" >&2; exit 1',
        "echo '/bin/sh: 1: cannot create sub/x: Permission denied' >&2; exit 1",
    ],
)
def test_nobody_is_told_to_give_away_the_system_a_secret_or_a_program(
    run: Callable[..., Result], script: str
) -> None:
    result = run(script, ())

    assert not result.ok
    assert [event.hint for event in result.events if event.hint] == []


def test_a_path_that_a_trace_misses_is_read_with_its_hint(tmp_path: Path) -> None:
    if not os.access("/srv", os.W_OK):
        pytest.skip("nobody but root can make a directory outside of private areas")
    with tempfile.TemporaryDirectory(dir="/srv") as place:
        other = Path(place) / "data"
        other.write_text("found\n")

        def read(*capabilities: str) -> Result:
            sandbox = Sandbox(build_policy("moderate", capabilities), backend="native", workspace=tmp_path)
            command = sandbox.read_command(["cat", str(other)], stdin=b"")
            return sandbox.prepare(command.replace(traces=True)).run()

        refused = read()
        assert not refused.ok
        hint = _hinted(refused, Feature.FS_READ).hint

        assert hint == f"filesystem:read:{other}"
        assert read(hint).stdout == "found\n"


def test_a_port_that_was_refused_is_reached_with_its_hint(tmp_path: Path) -> None:
    server = CountingServer()
    script = "exec 3<>/dev/tcp/late.test/8443 && printf x >&3 && head -c 1 <&3 >/dev/null"
    # A test's own name leads to loopback, which has to be granted besides.
    granted = ("network:https:late.test", "network:https:127.0.0.1", "network:tcp:127.0.0.1:8443")

    def reach(*capabilities: str) -> Result:
        policy = build_policy("moderate", (*granted, *capabilities))
        options = NetworkOptions(resolve=lambda name, port: [("127.0.0.1", server.port)])
        sandbox = Sandbox(policy, backend="native", workspace=tmp_path, network=options)
        return sandbox.run(["bash", "-c", script])

    refused = reach()
    assert not refused.ok and server.clients == 0
    hint = _hinted(refused, Feature.NET_PORTS).hint
    reach(hint)

    assert hint == "network:tcp:late.test:8443"
    assert server.clients == 1
    server.close()
