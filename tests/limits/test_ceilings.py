"""Ceiling: what several runs may have together, on top of what each may have alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from corral.limits.ceiling import Ceiling
from corral.limits.hierarchy import explain_absence, find_hierarchy
from corral.model.errors import PolicyError, UnenforceableError
from corral.model.policy import Limits
from corral.model.result import Outcome
from corral.sandbox import Sandbox
from support.arena import python, responsive_host, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from corral.model.result import Result
    from support.arena import Arena
    from support.gates import Gate

_MIB = 1 << 20
# Both are there before either takes anything, and both hold on to it until the other has it, or is gone.
_HOLD = """
import os, sys, time
own, other = sys.argv[1:3]
open(f'here-{own}', 'w').close()
def wait(name):
    end = time.monotonic() + 30
    while not os.path.exists(name) and not os.path.exists('over') and time.monotonic() < end:
        time.sleep(0.005)
wait(f'here-{other}')
"""
_MEMORY = _HOLD + "held = bytearray(80 << 20)\nopen(f'had-{own}', 'w').close(); wait(f'had-{other}')"
_FORKS = (
    _HOLD
    + """
gate, release = os.pipe()
try:
    for _ in range(12):
        if os.fork() == 0:
            os.close(release); os.read(gate, 1); os._exit(0)
except OSError:
    sys.exit(1)
open(f'had-{own}', 'w').close(); wait(f'had-{other}')
"""
)


@pytest.fixture(autouse=True)
def _groups_can_be_made() -> None:
    if find_hierarchy() is None:
        pytest.skip(f"no ceiling can be set here: {explain_absence()[0]}")


def _run_both(arena: Arena, script: str, ceiling: Ceiling | None) -> list[Result]:
    """In sandboxes of their own; the first end is made known to the other."""
    limits = ("memory:limit:200MiB", "pids:limit:30")
    sandboxes = [arena.sandbox(*limits, within=ceiling) for _ in range(2)]

    def run(number: int) -> Result:
        result = sandboxes[number].run(python(script, str(number), str(1 - number)))
        (arena.work / "over").touch()
        return result

    with responsive_host(), ThreadPoolExecutor(2) as pool:
        return list(pool.map(run, range(2)))


@pytest.mark.parametrize(
    ("script", "limits", "outcome"),
    [
        (_MEMORY, Limits(memory_bytes=120 * _MIB), Outcome.OUT_OF_MEMORY),
        (_FORKS, Limits(pids=20), Outcome.PIDS_LIMIT),
    ],
    ids=["memory", "processes"],
)
def test_two_sandboxes_share_what_is_there(
    arena: Arena, work: Path, script: str, limits: Limits, outcome: Outcome
) -> None:
    if not arena.is_grouped:
        pytest.skip("its runs have no control group")
    with Ceiling(limits) as ceiling:
        results = _run_both(arena, script, ceiling)
        usage = ceiling.usage()

    # The kernel may end one that has had its part already, to make room for the other; and both, when the
    # first is slow to give back what it had.
    assert {result.outcome for result in results if not result.ok} == {outcome}
    kept = [
        number for number, result in enumerate(results) if result.ok and (work / f"had-{number}").exists()
    ]
    assert len(kept) < 2
    if limits.memory_bytes is not None:
        assert usage.peak_memory_bytes <= limits.memory_bytes
    elif usage.peak_pids is not None:  # None: a kernel that does not count it
        assert usage.peak_pids <= limits.pids


@pytest.mark.parametrize(
    ("script", "limits"),
    [(_MEMORY, Limits(memory_bytes=120 * _MIB)), (_FORKS, Limits(pids=20))],
    ids=["memory", "processes"],
)
def test_one_after_the_other_has_it(arena: Arena, work: Path, script: str, limits: Limits) -> None:
    if not arena.is_grouped:
        pytest.skip("its runs have no control group")
    (work / "over").touch()
    with Ceiling(limits) as ceiling:
        results = [arena.sandbox(within=ceiling).run(python(script, own, "none")) for own in "01"]

    assert [result.describe() for result in results] == ["exit status 0"] * 2
    assert len(list(work.glob("had-*"))) == 2


@pytest.mark.parametrize("script", [_MEMORY, _FORKS], ids=["memory", "processes"])
def test_without_a_ceiling_both_have_it(arena: Arena, work: Path, script: str) -> None:
    results = _run_both(arena, script, None)

    assert [result.describe() for result in results] == ["exit status 0"] * 2
    assert len(list(work.glob("had-*"))) == 2


def test_a_run_has_its_own_limit_within_the_ceiling(arena: Arena) -> None:
    if not arena.is_grouped:
        pytest.skip("its runs have no control group")
    with Ceiling(Limits(memory_bytes=400 * _MIB)) as ceiling:
        result = arena.sandbox("memory:limit:64MiB", within=ceiling).run(python("bytearray(200 << 20)"))

    assert result.outcome is Outcome.OUT_OF_MEMORY


def test_a_ceiling_that_is_closed_is_refused(arena: Arena, work: Path) -> None:
    with Ceiling(Limits(pids=20)) as ceiling:
        sandbox = arena.sandbox(within=ceiling)

    with pytest.raises(PolicyError) as refused:
        sandbox.run(shell("touch ran"))
    assert refused.value.code == "ceiling-closed"
    assert not (work / "ran").exists()


def test_who_has_no_group_is_refused(arena: Arena, work: Path) -> None:
    if arena.is_grouped:
        pytest.skip("its runs have a control group")
    with Ceiling(Limits(pids=20)) as ceiling, pytest.raises(UnenforceableError):
        arena.sandbox(within=ceiling).run(shell("touch ran"))

    assert not (work / "ran").exists()


def test_the_unconfined_backend_is_refused(work: Path) -> None:
    with Ceiling(Limits(pids=20)) as ceiling:
        sandbox = Sandbox(backend="none", workspace=work, within=ceiling)
        with pytest.raises(UnenforceableError) as refused:
            sandbox.run(shell("touch ran"))

    assert not refused.value.ran
    assert not (work / "ran").exists()


def test_a_ceiling_knows_three_limits() -> None:
    with pytest.raises(PolicyError) as refused:
        Ceiling(Limits(memory_bytes=_MIB, wall_seconds=3))

    assert refused.value.code == "ceiling-limit"


def test_closing_it_ends_who_is_under_way(arena: Arena, work: Path, gate: Gate) -> None:
    if not arena.is_grouped:
        pytest.skip("its runs have no control group")
    ceiling = Ceiling(Limits(pids=20)).__enter__()
    script = shell("exec 9>gate; touch here; sleep 600; touch mark")
    with arena.sandbox(within=ceiling).watch(script, every=0.01) as watch:
        for _ in watch:
            if (work / "here").exists():
                break
        ceiling.close()
        gone = gate.is_left()

    assert gone
    assert not watch.result().ok
    assert not (work / "mark").exists()
