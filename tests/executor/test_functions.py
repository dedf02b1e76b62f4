"""Functions in sandboxed workers: confined like commands, and nothing that they say is trusted."""

from __future__ import annotations

import asyncio
import functools
import math
import os
import pickle
import sys
import time
from concurrent.futures import CancelledError, as_completed

import hostile
import pytest

from corral.model.errors import CallError, PolicyError, RemoteError
from corral.model.result import Outcome
from corral.parallel.calls.codec import encode
from support.gates import PATIENCE_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from corral.parallel.executor import SandboxExecutor
    from support.gates import Gate

#: Those that run the caller's own Python.
BACKENDS = ("native", "landlock", "bubblewrap", "firejail")


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} never came"
        time.sleep(0.01)


@pytest.mark.parametrize("preset", ["moderate", "strict"])
@pytest.mark.parametrize("backend", [*BACKENDS, "none"])
def test_a_function_gets_its_arguments_and_its_result_comes_back(make, backend: str, preset: str) -> None:
    executor = make(backend=backend, preset=preset)
    policy = executor.sandbox.policy
    sent = (1, "\ud800", {"k": {b"x", (2.5, None)}})

    assert executor.submit(hostile.give_back, *sent, key=[1]).result() == (sent, {"key": [1]})
    assert executor.sandbox.policy == policy  # what the interpreter needs is for functions alone


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_function_cannot_read_a_secret_of_the_host(make, backend: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret")
    assert make(backend="none").submit(hostile.read_text, str(secret)).result() == "the secret"

    with pytest.raises(RemoteError) as caught:
        make(backend=backend).submit(hostile.read_text, str(secret)).result()
    assert caught.value.type_name in {"FileNotFoundError", "PermissionError"}


def test_results_come_in_order_and_futures_are_futures(executor: SandboxExecutor) -> None:
    futures = [executor.submit(math.factorial, number) for number in range(6)]

    assert list(executor.map(hostile.add, range(5), [10] * 5)) == [10, 11, 12, 13, 14]
    assert sorted(future.result() for future in as_completed(futures)) == [1, 1, 2, 6, 24, 120]
    assert executor.submit(functools.partial(hostile.add, 1), b=2).result() == 3


def test_asyncio_can_use_it_as_any_executor(executor: SandboxExecutor) -> None:
    async def both() -> list[object]:
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(executor, hostile.add, 1, b) for b in (2, 3)))

    assert asyncio.run(both()) == [3, 4]


def test_a_worker_takes_over_the_path_and_nothing_else(executor: SandboxExecutor, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["program", "--token=secret"])

    assert executor.submit(hostile.surroundings).result() == {
        "argv": [""],
        "module": "hostile",
        "prefix": sys.prefix,
        "version": list(sys.version_info[:3]),
        "stdin": "",
        "writes bytecode": False,
    }


def test_what_a_function_prints_is_not_its_answer(make) -> None:
    heard: list[bytes] = []
    executor = make(output=heard.append)

    assert executor.submit(hostile.print_garbage).result() == "the result"
    lines = b"".join(heard).decode().splitlines()
    assert sorted(lines) == sorted(
        ["from print", "from stderr", "from descriptor 1", "from a child", "and its stderr", "unfinished"]
    )


def test_what_a_function_raises_is_told_as_text(executor: SandboxExecutor) -> None:
    with pytest.raises(RemoteError) as caught:
        executor.submit(hostile.raise_it, "bad \x1b]0;title\x07 news").result()

    error = caught.value
    assert error.type_name == "hostile.raise_it.<locals>.LocalError"
    assert error.message == "bad \\x1b]0;title\\x07 news"
    assert "in raise_it" in error.traceback and "in raise_it" in str(error.__cause__)
    assert "corral worker" not in error.traceback
    assert error.result is not None and error.result.ok and error.ran


def test_an_error_that_cannot_be_described_is_told_all_the_same(executor: SandboxExecutor) -> None:
    with pytest.raises(RemoteError, match="cannot be described") as caught:
        executor.submit(hostile.raise_undescribable).result()
    assert caught.value.type_name.endswith("Undescribable")

    with pytest.raises(RemoteError) as caught:
        executor.submit(hostile.leave, 3).result()
    assert (caught.value.type_name, caught.value.message) == ("SystemExit", "3")


def test_an_object_that_would_run_code_when_unpickled_is_refused(executor, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    pickle.loads(pickle.dumps(hostile.sneak(str(mark))))
    assert mark.exists()  # the control: this is what a process pool does with it
    mark.rmdir()

    with pytest.raises(CallError) as caught:
        executor.submit(hostile.sneak, str(mark)).result()
    assert (caught.value.code, "hostile.Sneaky" in caught.value.why) == ("result-refused", True)

    with pytest.raises(CallError) as caught:
        executor.submit(hostile.say, pickle.dumps(hostile.sneak(str(mark)))).result()
    assert caught.value.code == "bad-answer"
    assert not mark.exists()


@pytest.mark.parametrize(
    "said", [b"garbage", b"l\xff\xff\xff\xff", b"\0" * 4096, encode((b"u" * 16, "value", "of another call"))]
)
def test_a_forged_answer_is_an_error_of_that_call_alone(executor: SandboxExecutor, said: bytes) -> None:
    honest = executor.submit(hostile.add, 1, 2)
    for function in (hostile.say, hostile.say_before_answering):
        with pytest.raises(CallError) as caught:
            executor.submit(function, said).result()
        assert caught.value.code == "bad-answer"

    assert honest.result() == 3
    assert executor.submit(hostile.add, 3, 4).result() == 7


def test_a_function_that_returns_in_two_processes_has_no_result(executor: SandboxExecutor) -> None:
    with pytest.raises(CallError, match="more than one value"):
        executor.submit(hostile.return_twice).result()


def test_an_answer_without_end_is_cut_off(make, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the search path is that goes with a call."""
    monkeypatch.setattr(sys, "path", [*sys.path, *(f"/nowhere/{number}" for number in range(1000))])
    executor = make(max_result_bytes=1000)

    with pytest.raises(CallError) as caught:
        executor.submit(hostile.say_without_end).result()
    assert (caught.value.code, caught.value.ran) == ("answer-too-large", True)
    assert executor.submit(hostile.add, 1).result() == 1


def test_a_result_that_is_too_large_is_refused_and_a_large_one_is_not(make) -> None:
    executor = make(max_result_bytes=12 << 20)

    assert (
        len(executor.submit(hostile.huge, 11 << 20).result()) == 11 << 20
    )  # more than a pipe or a Result has
    for function, size in ((hostile.huge, 13 << 20), (hostile.many, 1_000_001)):
        with pytest.raises(CallError) as caught:
            executor.submit(function, size).result()
        assert caught.value.code == "result-refused"


def test_the_limits_of_the_policy_hold_for_functions(make) -> None:
    executor = make("output:limit:1MB", "time:limit:2s")

    for function, args, outcome in [
        (hostile.print_without_end, (), Outcome.OUTPUT_LIMIT),
        (time.sleep, (3600,), Outcome.TIMED_OUT),
        (hostile.huge, (2 << 20,), Outcome.OUTPUT_LIMIT),
    ]:
        with pytest.raises(CallError) as caught:
            executor.submit(function, *args).result()
        assert (caught.value.code, caught.value.result.outcome) == ("no-answer", outcome)


@pytest.mark.parametrize(
    ("function", "args", "how"),
    [
        (hostile.vanish, (0,), "cannot be understood"),
        (hostile.vanish, (7,), "exit status 7"),
        (hostile.kill_itself, (), "signal 9"),
    ],
)
def test_a_worker_that_ends_early_is_an_error(executor: SandboxExecutor, function, args, how: str) -> None:
    with pytest.raises(CallError, match=how):
        executor.submit(function, *args).result()


def test_a_thread_that_stays_does_not_keep_the_answer(executor: SandboxExecutor) -> None:
    assert executor.submit(hostile.leave_a_thread).result() == "done"


def test_each_call_has_a_worker_of_its_own(executor: SandboxExecutor, work: Path) -> None:
    """What one leaves in its private places, the next does not find."""
    left = "/tmp/left-by-a-call"
    executor.submit(os.mkdir, left).result()

    assert executor.submit(os.path.exists, left).result() is False


@pytest.mark.parametrize("backend", BACKENDS)
def test_kill_ends_what_runs_and_cancels_what_waits(make, backend: str, work: Path, gate: Gate) -> None:
    executor = make(backend=backend, max_workers=1)
    running = executor.submit(hostile.hold, str(work / "gate"), str(work / "mark"))
    waiting = executor.submit(hostile.add, 1)
    _wait_for(work / "mark")

    assert running.running() and not running.cancel()
    executor.kill()

    with pytest.raises(CallError) as caught:
        running.result()
    assert caught.value.code == "call-ended"
    with pytest.raises(CancelledError):
        waiting.result()
    assert gate.is_left()
    assert executor.submit(hostile.add, 1, 1).result() == 2


def test_shutdown_with_cancel_futures_kills(make: Callable[..., SandboxExecutor], work, gate: Gate) -> None:
    executor = make(max_workers=1)
    running = executor.submit(hostile.hold, str(work / "gate"), str(work / "mark"))
    waiting = [executor.submit(hostile.add, 1) for _ in range(3)]
    _wait_for(work / "mark")

    executor.shutdown(cancel_futures=True)

    assert isinstance(running.exception(timeout=0), CallError)
    assert all(future.cancelled() for future in waiting)
    assert gate.is_left()
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(hostile.add, 1)


def test_an_interrupt_that_leaves_the_block_kills_and_an_error_waits(make, work, gate: Gate) -> None:
    with pytest.raises(KeyboardInterrupt), make() as executor:
        executor.submit(hostile.hold, str(work / "gate"), str(work / "mark"))
        _wait_for(work / "mark")
        raise KeyboardInterrupt
    assert gate.is_left()

    with pytest.raises(ValueError), make() as executor:
        future = executor.submit(hostile.add, 1, 1)
        raise ValueError
    assert future.result(timeout=0) == 2


def test_a_future_that_waits_can_be_cancelled(make, work: Path, gate: Gate) -> None:
    executor = make(max_workers=1)
    executor.submit(hostile.hold, str(work / "gate"), str(work / "mark"))
    waiting = executor.submit(hostile.add, 1)

    assert waiting.cancel()
    assert waiting.cancelled()


def test_what_cannot_be_sent_is_refused_before_anything_runs(executor: SandboxExecutor) -> None:
    with pytest.raises(PolicyError) as caught:
        executor.submit(hostile.add, object())
    assert caught.value.code == "argument-refused"

    with pytest.raises(PolicyError) as caught:
        executor.submit(lambda: 1)
    assert caught.value.code == "function-unnamed"


def test_a_module_that_the_sandbox_does_not_show_is_refused(make, tmp_path: Path, monkeypatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "hidden_module.py").write_text("def answer():\n    return 42\n")
    monkeypatch.syspath_prepend(str(elsewhere))
    import hidden_module

    with pytest.raises(PolicyError, match="cannot be found in the sandbox") as caught:
        make().submit(hidden_module.answer)
    assert caught.value.fix.startswith(f"grant filesystem:read:{elsewhere}")
    assert make(f"filesystem:read:{elsewhere}").submit(hidden_module.answer).result() == 42
