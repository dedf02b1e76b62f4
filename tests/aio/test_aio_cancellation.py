"""A cancelled task leaves no process: by the time it is over, the last one has released the gate."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from corral import aio
from corral.model.errors import SessionClosed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from support.gates import Gate

#: Ends neither by itself nor by an ordinary signal, and has a child that has gone its own way.
LASTING = """
    trap '' TERM INT HUP
    exec 9>gate
    setsid sleep 600 &
    echo up > begun
    while :; do sleep 600; done
"""


async def begun(work: Path) -> None:
    """Wait until the command is where it holds the gate."""
    await asyncio.to_thread((work / "begun").read_text)


@pytest.fixture(params=["sandbox", "session", "stateful", "pool"])
def around(request: pytest.FixtureRequest, sandbox: aio.Sandbox) -> Callable[..., Coroutine[Any, Any, None]]:
    """Call something with a way to run commands, and use that once more afterwards."""

    async def use(body: Callable[..., Coroutine[Any, Any, None]]) -> None:
        if request.param == "sandbox":
            await body(sandbox.run)
            assert (await sandbox.run("echo again")).stdout == "again\n"
        elif request.param == "pool":
            async with aio.Pool(sandbox, size=1, max_parallel=1) as pool:
                await body(pool.run)
                assert (await pool.run("echo again")).stdout == "again\n"
                assert pool.stats().running == 0
        else:
            async with sandbox.session() as session:
                is_stateful = request.param == "stateful"
                await body(lambda line, **options: session.run(line, stateful=is_stateful, **options))
                assert (await session.run("echo again", stateful=is_stateful)).stdout == "again\n"

    return use


def test_a_cancelled_command_is_gone(around, work: Path, gate: Gate) -> None:
    os.mkfifo(work / "begun")

    async def body(run) -> None:
        task = asyncio.create_task(run(LASTING))
        await begun(work)
        assert not gate.is_left(0)  # the control
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert gate.is_left(0)

    asyncio.run(around(body))


def test_a_timeout_of_asyncio_is_one(around, work: Path, gate: Gate) -> None:
    os.mkfifo(work / "begun")

    async def body(run) -> None:
        async def end_it(limit: asyncio.Timeout) -> None:
            await begun(work)
            limit.reschedule(asyncio.get_running_loop().time())

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(None) as limit:
                ending = asyncio.create_task(end_it(limit))
                await run(LASTING)
        await ending
        assert gate.is_left(0)

    asyncio.run(around(body))


def test_who_is_cancelled_twice_waits_all_the_same(sandbox: aio.Sandbox, work: Path, gate: Gate) -> None:
    os.mkfifo(work / "begun")

    async def main() -> None:
        task = asyncio.create_task(sandbox.run(LASTING))
        await begun(work)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert gate.is_left(0)

    asyncio.run(main())


def test_one_that_waits_for_its_turn_never_begins(sandbox: aio.Sandbox, work: Path) -> None:
    os.mkfifo(work / "begun")

    async def main() -> None:
        async with aio.Pool(sandbox, size=1, max_parallel=1) as pool:
            first = asyncio.create_task(pool.run(LASTING))
            await begun(work)
            second = asyncio.create_task(pool.run("touch second"))
            while pool.stats().waiting == 0:
                await asyncio.sleep(0.005)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            assert pool.stats().waiting == 0
            first.cancel()
            await asyncio.wait([first])
            await pool.run("touch third")

    asyncio.run(main())

    assert (work / "third").exists()
    assert not (work / "second").exists()


def test_a_listener_that_never_comes_back_does_not_hold_it_up(
    sandbox: aio.Sandbox, work: Path, gate: Gate
) -> None:
    async def main() -> None:
        heard = asyncio.Event()
        was_cancelled = asyncio.Event()

        async def hear(name: str, data: bytes) -> None:
            heard.set()
            try:
                await asyncio.Event().wait()
            finally:
                was_cancelled.set()

        task = asyncio.create_task(sandbox.run("exec 9>gate; echo x; sleep 600", stream=hear))
        await heard.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert was_cancelled.is_set()
        assert gate.is_left(0)

    asyncio.run(main())


def test_a_task_group_that_fails_ends_its_commands(sandbox: aio.Sandbox, work: Path, gate: Gate) -> None:
    os.mkfifo(work / "begun")

    async def fail() -> None:
        await begun(work)
        raise LookupError("on purpose")

    async def main() -> None:
        async with sandbox.session() as session, asyncio.TaskGroup() as group:
            group.create_task(session.run(LASTING))
            group.create_task(fail())

    with pytest.raises(ExceptionGroup):
        asyncio.run(main())
    assert gate.is_left(0)


def test_a_session_that_is_cancelled_while_it_is_made_is_closed(sandbox: aio.Sandbox) -> None:
    made = []

    async def main() -> None:
        session = sandbox.session()
        real = session._make
        reached, go = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def make():
            loop.call_soon_threadsafe(reached.set)
            asyncio.run_coroutine_threadsafe(go.wait(), loop).result()
            made.append(real())
            return made[0]

        session._make = make
        task = asyncio.create_task(session._begin())
        await reached.wait()
        task.cancel()
        await asyncio.sleep(0)
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    with pytest.raises(SessionClosed):
        made[0].run("true")


def test_whoever_stops_waiting_for_a_background_process_does_not_end_it(
    sandbox: aio.Sandbox, work: Path
) -> None:
    os.mkfifo(work / "go")

    async def main() -> None:
        async with sandbox.session() as session:
            process = await session.start("read line < go; echo $line; exit 4")
            for wait in (process.wait(), process.read()):
                task = asyncio.ensure_future(wait)
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                assert task.cancelled()
            assert process.is_running
            await asyncio.to_thread((work / "go").write_text, "heard\n")
            assert (await process.wait()).exit_code == 4
            assert await process.read() == b"heard\n"

    asyncio.run(main())
