"""Several runs at once: each has its own limits, its own end and its own account."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from corral.model.result import Outcome
from support.arena import python, responsive_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.result import Result
    from support.arena import Arena

_MIB = 1 << 20
_SIZES = (20, 50, 90, 140)
# They meet before anyone takes anything, so that all of them run at the same time.
_MEET = """
import os, sys, time
open(f'here-{sys.argv[1]}', 'w').close()
while sum(name.startswith('here-') for name in os.listdir('.')) < 4: time.sleep(0.01)
"""


def _run_all(arena: Arena, jobs: list[tuple[str, tuple[str, ...]]]) -> list[Result]:
    def run(number: int) -> Result:
        script, capabilities = jobs[number]
        argv = python(_MEET + script, str(number))
        return arena.sandbox("time:limit:60s", *capabilities).run(argv)

    with responsive_host(), ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(run, range(len(jobs))))


def test_each_account_is_that_of_its_own_run(arena: Arena) -> None:
    jobs = [(f"held = bytearray({size} << 20)", ("memory:limit:400MiB",)) for size in _SIZES]

    results = _run_all(arena, jobs)

    assert [result.outcome for result in results] == [Outcome.EXITED] * 4
    for size, result in zip(_SIZES, results, strict=True):
        assert result.usage.is_whole_tree == arena.is_grouped
        assert size * _MIB <= result.usage.peak_memory_bytes < (size + 25) * _MIB


def test_one_run_that_is_ended_does_not_disturb_the_others(arena: Arena) -> None:
    limits = ("memory:limit:120MiB", "pids:limit:20")
    forks = """
gate, release = os.pipe()
try:
    for _ in range(60):
        if os.fork() == 0:
            os.close(release); os.read(gate, 1); os._exit(0)
except OSError: sys.exit(1)
time.sleep(45)
"""
    jobs = [
        ("held = bytearray(300 << 20); time.sleep(45)", limits),
        (forks, limits),
        ("held = bytearray(60 << 20); sys.exit(7)", limits),
        ("print('unharmed')", limits),
    ]

    too_much, too_many, failed, fine = _run_all(arena, jobs)

    assert too_much.outcome is Outcome.OUT_OF_MEMORY
    assert not too_many.ok and too_many.outcome in {Outcome.PIDS_LIMIT, Outcome.EXITED}
    assert (failed.outcome, failed.exit_code) == (Outcome.EXITED, 7)
    assert fine.ok and fine.stdout == "unharmed\n"


def test_runs_of_one_sandbox_have_each_their_own_limit(arena: Arena) -> None:
    """A limit is not divided among runs."""
    sandbox = arena.sandbox("memory:limit:160MiB")
    argv = python(_MEET + "held = bytearray(90 << 20)")

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda number: sandbox.run([*argv, str(number)]), range(4)))

    assert [result.describe() for result in results] == ["exit status 0"] * 4
