"""`session.network`: hosts that are permitted while a session runs, and mistakes that are told."""

from __future__ import annotations

import asyncio

import pytest

from corral import aio
from corral.model.errors import PolicyError
from corral.network.options import NetworkOptions
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox
from support.counting import CountingServer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "late.test"
#: A byte comes back, so it stood.
REACH = f"exec 3<>/dev/tcp/{NAME}/80 && printf t >&3 && head -c 1 <&3 >/dev/null"


@pytest.fixture
def server() -> Iterator[CountingServer]:
    made = CountingServer()
    yield made
    made.close()


def sandbox(work: Path, server: CountingServer, *capabilities: str) -> Sandbox:
    def resolve(name: str, port: int) -> list[tuple[str, int]]:
        return [("127.0.0.1", server.port)]

    more = ("network:tcp:127.0.0.1:80", "network:https:127.0.0.1", *capabilities)
    return Sandbox(
        build_policy("moderate", more),
        backend="native",
        workspace=work,
        network=NetworkOptions(resolve=resolve),
    )


def reach(session) -> bool:
    return session.run(["bash", "-c", REACH]).ok


def test_a_host_is_permitted_and_revoked_while_it_runs(tmp_path: Path, server: CountingServer) -> None:
    with sandbox(tmp_path, server).session() as session:
        assert not reach(session)
        session.network.allow(f"{NAME}:80")
        assert reach(session)
        session.network.revoke(NAME)
        refused = session.run(["bash", "-c", f"exec 3<>/dev/tcp/{NAME}/80"])

        assert not refused.ok and any(NAME in found.subject for found in refused.violations)
        assert session.network.traffic().connections == 1
    assert server.clients == 1


def test_a_permission_is_gone_after_a_reset(tmp_path: Path, server: CountingServer) -> None:
    with sandbox(tmp_path, server).session() as session:
        session.network.allow(f"tcp:{NAME}:80")
        session.reset()

        assert not reach(session)
    assert server.clients == 0


@pytest.mark.parametrize(
    ("host", "seconds", "words"),
    [
        ("evil.test", None, "denies"),
        ("other.test:8080", None, "port 8080"),
        ("two words", None, "not the name of a host"),
        ("*.com", None, "top-level domain"),
        ("other.test", 0, "not a positive duration"),
        ("other.test", float("nan"), "not a positive duration"),
    ],
)
def test_what_cannot_be_is_said(
    tmp_path: Path, server: CountingServer, host: str, seconds: float | None, words: str
) -> None:
    with sandbox(tmp_path, server, "network:deny:evil.test").session() as session:
        with pytest.raises(PolicyError, match=words) as refused:
            session.network.allow(host, for_seconds=seconds)

        assert refused.value.code == "network-closed"


@pytest.mark.parametrize("mode", ["none", "full"])
def test_a_network_that_nobody_limits_cannot_be_changed(tmp_path: Path, mode: str) -> None:
    policy = build_policy("moderate", (f"network:{mode}",))
    with Sandbox(policy, backend="native", workspace=tmp_path).session() as session:
        for change in (session.network.allow, session.network.revoke):
            with pytest.raises(PolicyError, match=mode):
                change("example.org")
        with pytest.raises(PolicyError, match="cannot show what this session may reach"):
            session.network.changes()

        assert session.network.traffic().connections == 0


def test_the_twin_for_asyncio_has_it_too(tmp_path: Path, server: CountingServer) -> None:
    async def work() -> int:
        blocking = sandbox(tmp_path, server)
        twin = aio.Sandbox(blocking.policy, backend="native", workspace=tmp_path, network=blocking.network)
        async with twin.session() as session:
            session.network.allow(f"{NAME}:80")
            await session.run(["bash", "-c", REACH])
            return session.network.traffic().connections

    assert asyncio.run(work()) == 1
