"""The asynchronous twin: the same answers, many at a time, output as it comes, background processes."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import corral
from corral import Outcome, PolicyError, SetupError, aio
from corral.model.errors import SessionClosed


def test_a_run_is_a_run(sandbox: aio.Sandbox) -> None:
    done = asyncio.run(sandbox.run("cat; echo err >&2; exit 7", stdin="in\n"))

    assert (done.outcome, done.exit_code, done.stdout, done.stderr) == (Outcome.EXITED, 7, "in\n", "err\n")


def test_a_single_command_needs_no_sandbox_object(sandbox: aio.Sandbox, work: Path) -> None:
    done = asyncio.run(aio.run("pwd", policy="strict", backend="native", workspace=work))

    assert done.stdout == f"{work}\n"
    assert asyncio.run(aio.run("echo x", policy=sandbox.blocking)).stdout == "x\n"


def test_a_single_command_has_variables_a_directory_input_and_a_time_of_its_own(
    sandbox: aio.Sandbox, work: Path
) -> None:
    (work / "deep").mkdir()
    how = {"env": {"COLOUR": "green"}, "cwd": work / "deep", "stdin": "in\n", "timeout": 60}
    line = 'echo "$COLOUR $PWD"; cat'

    alone = corral.run(line, backend="native", workspace=work, **how)
    assert alone.stdout == f"green {work}/deep\nin\n"
    assert sandbox.blocking.run(line, **how).stdout == alone.stdout
    assert asyncio.run(sandbox.run(line, **how)).stdout == alone.stdout
    late = corral.run("exec cat /dev/zero > /dev/null", backend="native", workspace=work, timeout=0.3)
    assert late.outcome is Outcome.TIMED_OUT
    assert sandbox.blocking.run('echo "$COLOUR"').stdout == "\n"  # the sandbox itself is as it was


def test_a_session_keeps_what_its_commands_leave(sandbox: aio.Sandbox) -> None:
    async def main() -> tuple[str, str]:
        async with sandbox.session() as session:
            await session.run("echo 1 > /tmp/mark")
            await session.run("cd /tmp; export COLOUR=green", stateful=True)
            state = await session.run('echo "$PWD $COLOUR"', stateful=True)
            return (await session.run("cat /tmp/mark")).stdout, state.stdout

    assert asyncio.run(main()) == ("1\n", "/tmp green\n")


def test_a_session_can_be_awaited_and_closed(sandbox: aio.Sandbox) -> None:
    async def main() -> None:
        session = await sandbox.session()
        assert session.is_open and session.backend == "native"
        assert (await session.usage()).pids is not None
        await session.run("echo 1 > /tmp/mark")
        await session.reset()
        assert (await session.run("cat /tmp/mark")).exit_code == 1
        await session.close()
        await session.run("true")

    with pytest.raises(SessionClosed):
        asyncio.run(main())


def test_files_go_in_and_out(sandbox: aio.Sandbox, work: Path, tmp_path: Path) -> None:
    (tmp_path / "source").write_text("up\n")

    async def main() -> None:
        async with sandbox.session() as session:
            await session.write_file("/tmp/deep/file", "text\n", parents=True)
            await session.upload(tmp_path / "source", "/tmp/deep/sent")
            assert [entry.name for entry in await session.list_dir("/tmp/deep")] == ["file", "sent"]
            assert (await session.run("cat /tmp/deep/file /tmp/deep/sent")).stdout == "text\nup\n"
            await session.run("echo made > made")
            assert await session.read_file("made") == b"made\n"
            await session.download("/tmp/deep/file", tmp_path / "target")

    asyncio.run(main())

    assert (tmp_path / "target").read_text() == "text\n"


def test_more_run_at_once_than_an_ordinary_executor_has_threads(sandbox: aio.Sandbox, work: Path) -> None:
    """All of them are there at the same time: each waits until the last one has come."""
    count = 2 * (32 + 1)  # an executor of asyncio's own has 32 threads at most
    line = f"""
        touch here-$1
        [ $(ls -d here-* | wc -l) -lt {count} ] || touch all
        until [ -e all ]; do sleep 0.3; done
    """

    async def main() -> list[int | None]:
        async with sandbox.session() as session:
            runs = (session.run(["/bin/sh", "-c", line, "sh", str(n)]) for n in range(count))
            return [result.exit_code for result in await asyncio.gather(*runs)]

    assert asyncio.run(main()) == [0] * count


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_output_is_heard_in_the_loop_in_order(kind: str, sandbox: aio.Sandbox) -> None:
    heard: list[tuple[str, bytes, bool]] = []
    loop_thread = threading.get_ident()

    def hear(name: str, data: bytes) -> None:
        heard.append((name, data, threading.get_ident() == loop_thread))

    async def hear_later(name: str, data: bytes) -> None:
        await asyncio.sleep(0)
        hear(name, data)

    line = "for n in 1 2 3; do echo $n; done"
    asyncio.run(sandbox.run(line, stream=hear if kind == "function" else hear_later))

    assert b"".join(data for _, data, _ in heard) == b"1\n2\n3\n"
    assert all(is_there for _, _, is_there in heard)


def test_what_a_listener_raises_ends_the_run_and_is_passed_on(sandbox: aio.Sandbox) -> None:
    async def hear(name: str, data: bytes) -> None:
        raise LookupError(data.decode())

    with pytest.raises(LookupError, match="first"):
        asyncio.run(sandbox.run("echo first; sleep 600", stream=hear))


def test_a_listener_that_is_none_is_refused(sandbox: aio.Sandbox) -> None:
    with pytest.raises(PolicyError, match="streamed"):
        asyncio.run(sandbox.run("true", stream="nothing"))  # type: ignore[arg-type]


def test_a_background_process_is_read_signalled_and_waited_for(sandbox: aio.Sandbox) -> None:
    async def main() -> None:
        async with sandbox.session() as session:
            process = await session.start(
                "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.1; done"
            )
            assert await process.read() == b"up\n"
            assert process.is_running
            process.signal(signal.SIGTERM)
            result = await process.wait()
            assert await process.read() == b"bye\n"
            assert await process.read() == b""
            assert (result.exit_code, process.is_running) == (3, False)

    asyncio.run(main())


def test_a_pool_gives_each_command_a_fresh_sandbox(sandbox: aio.Sandbox) -> None:
    async def main() -> None:
        async with aio.Pool(sandbox, size=2, max_parallel=4) as pool:
            assert await pool.fill(30)
            first = await pool.run("echo 1 > /tmp/mark; cat /tmp/mark")
            rest = await asyncio.gather(*(pool.run("cat /tmp/mark") for _ in range(20)))
            assert first.stdout == "1\n"
            assert {result.exit_code for result in rest} == {1}
            async with pool.session() as session:
                await session.run("echo 2 > /tmp/mark")
                assert (await session.run("cat /tmp/mark")).stdout == "2\n"
            assert pool.stats().used == 22
        with pytest.raises(SetupError, match="accepts no more"):
            await pool.run("true")

    asyncio.run(main())


def test_a_program_that_forgets_to_close_still_ends(work: Path) -> None:
    program = f"""
import asyncio
from corral import aio

async def main():
    session = await aio.Sandbox("moderate", backend="native", workspace={str(work)!r}).session()
    process = await session.start("echo up; sleep 600")
    print(await process.read())

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=True)

    assert done.stdout == b"b'up\\n'\n"
