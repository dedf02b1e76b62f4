"""What docker and podman make of the limits, on engines of our own: no more than asked, and hardly less."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral.backends.engine.limits import engine_limit_arguments, engine_limit_features
from corral.model.feature import Feature
from corral.model.policy import Limits
from limits.cases import CASES, MIB, Case
from limits.engines import measure_case, measure_control
from support.engines import ENGINES, Docker, Engine, EngineFailed, why_unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from limits.rows import Row

LEAST, BEYOND = 0.95, 1.3
#: A share is given out in portions, one each tenth of a second, so a few seconds hold a portion more or less.
MOST = {Feature.LIMIT_CPU: 1.05}
ATTEMPTS = 3

TAKE_MEMORY = ("measure", "memory", "64", "128")
SMALL_MEMORY = Limits(memory_bytes=64 * MIB)
FILL_BOTH = ("sh", "-c", "measure file /tmp/f 64 32; measure file /var/tmp/f 64 32; true")


def _arguments(engine: Engine, limits: Limits, *areas: str) -> tuple[str, ...]:
    return engine_limit_arguments(limits, engine=engine.name, areas=areas or ("/tmp",))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_command_gets_what_the_limit_permits_and_no_more(engine: Engine, case: Case) -> None:
    if case.feature not in engine_limit_features(engine.name, engine.facts):
        pytest.skip(f"{engine.name} does not claim {case.feature.value} here")

    rows = _repeat(lambda: measure_case(engine, case), case.asked * LEAST)
    controls = _repeat(lambda: measure_control(engine, case), case.asked * BEYOND)

    assert max(row.got for row in rows) <= case.asked * MOST.get(case.feature, 1.0)
    assert max(row.got for row in rows) >= case.asked * LEAST
    assert max(row.got for row in controls) >= case.asked * BEYOND


def _repeat(measure: Callable[[], Row], enough: float) -> list[Row]:
    """Measure again while it got too little: others may keep the processors busy meanwhile."""
    rows = [measure()]
    while rows[-1].got < enough and len(rows) < ATTEMPTS:
        rows.append(measure())
    return rows


@pytest.mark.parametrize("children", [(), ("4",)], ids=["alone", "4 processes"])
def test_the_engine_says_that_the_memory_ran_out(engine: Engine, children: tuple[str, ...]) -> None:
    command = [*TAKE_MEMORY, *children]
    assert engine.run_out_of_memory(_arguments(engine, SMALL_MEMORY), command, told=True)


def test_the_engine_says_nothing_of_the_kind_of_others(engine: Engine) -> None:
    assert not engine.run_out_of_memory(_arguments(engine, Limits()), TAKE_MEMORY, told=False)


def test_the_command_is_ended_and_the_first_process_lives_to_tell(engine: Engine) -> None:
    done = engine.run(_arguments(engine, SMALL_MEMORY), TAKE_MEMORY)

    assert done.status == 128 + 9
    assert "Killed" in done.errors  # by the shell that stands for the launcher


def test_private_areas_together_have_no_more_than_one_would(engine: Engine) -> None:
    limits = Limits(disk_bytes=16 * MIB)

    together = engine.run(_arguments(engine, limits, "/tmp", "/var/tmp"), FILL_BOTH).output
    control = engine.run(_arguments(engine, Limits(), "/tmp", "/var/tmp"), FILL_BOTH).output

    assert 16 * LEAST <= _sum_of_largest(together) <= 16
    assert _sum_of_largest(control) == 64


def _sum_of_largest(output: str) -> float:
    """What several measurements in a row got: a number that is less than the one before begins the next."""
    numbers = [float(line.split()[1]) for line in output.splitlines() if line.startswith("got ")]
    return sum(number for number, after in zip(numbers, [*numbers[1:], 0.0], strict=True) if after <= number)


def test_in_areas_that_are_too_small_to_divide_nothing_can_be_written(engine: Engine) -> None:
    write = ["measure", "file", "/tmp/f", "1", "1"]

    refused = engine.run(_arguments(engine, Limits(disk_bytes=1000)), write)
    control = engine.run(_arguments(engine, Limits()), write)

    assert refused.output == "stopped: Read-only file system\n"
    assert control.status == 0


def test_only_the_areas_can_be_written_to(engine: Engine) -> None:
    """The control is the engine's own way, in which each of these can hold what nobody counts."""
    places = {"/", "/tmp", "/var/tmp", "/run", "/dev/shm"}

    assert _writable(engine, _arguments(engine, Limits()), places) == {"/tmp"}
    assert _writable(engine, (), places) == places


def test_any_place_can_be_an_area(engine: Engine) -> None:
    places = {"/tmp", "/var/tmp", "/run", "/dev/shm", "/home/someone"}

    assert _writable(engine, _arguments(engine, Limits(), *sorted(places)), places) == places


def test_what_no_argument_closes_is_closed_to_an_ordinary_user(engine: Engine) -> None:
    """The control is root, who is not stopped: the day he is, the note in _engine_limits.py can go."""
    version_2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
    places = {"/dev"} if version_2 else {"/dev", "/sys/fs/cgroup"}
    confined = _arguments(engine, Limits())

    assert _writable(engine, (*confined, "--user", "1000:1000"), {"/tmp", *places}) == {"/tmp"}
    assert _writable(engine, confined, places) == places


def _writable(engine: Engine, arguments: tuple[str, ...], places: set[str]) -> set[str]:
    """Directories in which a file could be written."""
    script = "for place; do (echo something > $place/file) 2>/dev/null && echo $place; done; true"
    return set(engine.run(arguments, ["sh", "-c", script, "sh", *places]).output.split())


def test_empty_files_are_bounded_too(engine: Engine) -> None:
    """Docker's areas count files. In podman's they cost memory, which is limited."""
    by_area = engine.name == "docker"
    limits = Limits(disk_bytes=16 * MIB) if by_area else Limits(memory_bytes=16 * MIB)
    make = ["measure", "files", "/tmp", "40000"]

    assert engine.run(_arguments(engine, limits), make).status == (3 if by_area else 128 + 9)
    assert engine.run(_arguments(engine, Limits()), make).status == 0


def test_a_program_in_an_area_can_be_executed(engine: Engine) -> None:
    copied = ["sh", "-c", "cat /bin/measure > /tmp/copy; chmod +x /tmp/copy; /tmp/copy sleep 0"]

    assert engine.run(_arguments(engine, Limits()), copied).status == 0


def test_a_share_of_more_processors_than_there_are_is_no_mistake(engine: Engine) -> None:
    assert engine.run(_arguments(engine, Limits(cpus=100_000.0)), ["true"]).status == 0


def test_a_limit_that_the_engine_cannot_do_with_is_refused_and_nothing_runs(engine: Engine) -> None:
    with pytest.raises(EngineFailed, match=r"[Mm]emory limit"):
        engine.run(_arguments(engine, Limits(memory_bytes=1 * MIB)), ["true"])


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_leaves_nothing_behind(name: str, measure: Path) -> None:
    reason = why_unavailable(name)
    if reason:
        pytest.skip(reason)
    started = ENGINES[name]([measure])
    try:
        started.start(["measure", "sleep", "600"])
        busy = _traces(started)
    finally:
        started.close()

    assert {"processes", "groups", "folder"} <= busy
    assert _traces(started) == set()


def test_an_engine_that_does_not_start_says_why(measure: Path) -> None:
    reason = why_unavailable("docker")
    if reason:
        pytest.skip(reason)

    class Broken(Docker):
        options = ("--no-such-option",)

    with pytest.raises(EngineFailed, match="unknown flag: --no-such-option"):
        Broken([measure])


def _traces(engine: Engine) -> set[str]:
    """Of what kind there is anything on the host that names the engine's folder or group."""
    name = engine.folder.name
    found = {
        "processes": any(name in _read(path) for path in Path("/proc").glob("[0-9]*/cmdline")),
        "grouped processes": any(name in _read(path) for path in Path("/proc").glob("[0-9]*/cgroup")),
        "mounts": name in _read(Path("/proc/self/mounts")),
        "groups": any(name in names for _, names, _ in os.walk("/sys/fs/cgroup")),
        "folder": engine.folder.exists(),
    }
    return {kind for kind, present in found.items() if present}


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # the process is gone
        return ""
