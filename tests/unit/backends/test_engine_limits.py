"""Limits as arguments for container engines: what is asked of them, and what they are believed to hold."""

from __future__ import annotations

import pytest

from corral.backends.engine.limits import engine_limit_arguments, engine_limit_features
from corral.model.errors import UnenforceableError
from corral.model.feature import Feature
from corral.model.policy import Limits

MIB = 1024**2
ENGINES = ["docker", "podman"]
ALWAYS = frozenset({Feature.LIMIT_FILE_SIZE, Feature.LIMIT_OPEN_FILES, Feature.LIMIT_DISK})
BY_GROUP = frozenset({Feature.LIMIT_MEMORY, Feature.LIMIT_CPU, Feature.LIMIT_PIDS})

DOCKER_NAMES = ("MemoryLimit", "SwapLimit", "CpuCfsPeriod", "CpuCfsQuota", "PidsLimit")
DOCKER = {"CgroupDriver": "systemd", **dict.fromkeys(DOCKER_NAMES, True)}


def podman(**changed: object) -> dict[str, object]:
    host = {
        "cgroupVersion": "v2",
        "cgroupControllers": ["cpu", "io", "memory", "pids"],
        "swapTotal": 0,
        "security": {"rootless": False},
    }
    return {"host": {**host, **changed}}


def words(limits: Limits, engine: str = "docker", areas: tuple[str, ...] = ()) -> str:
    return " ".join(engine_limit_arguments(limits, engine=engine, areas=areas))


@pytest.mark.parametrize("engine", ENGINES)
def test_without_limits_only_the_root_is_closed(engine: str) -> None:
    arguments = engine_limit_arguments(Limits(), engine=engine)

    assert set(arguments) <= {"--read-only", "--read-only-tmpfs=false", "--ipc", "none"}
    assert "--read-only" in arguments


def test_podman_adds_no_areas_of_its_own() -> None:
    assert "--read-only-tmpfs=false" in words(Limits(), "podman")
    assert "--read-only-tmpfs" not in words(Limits(), "docker")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(memory_bytes=64 * MIB), "--memory 67108864 --memory-swap 67108864"),
        (Limits(cpus=0.5), "--cpu-period 100000 --cpu-quota 50000"),
        (Limits(cpus=16.0), "--cpu-period 100000 --cpu-quota 1600000"),
        (Limits(cpus=0.001), "--cpu-period 1000000 --cpu-quota 1000"),
        (Limits(pids=12), "--pids-limit 13"),
        (Limits(file_size_bytes=1000), "--ulimit fsize=1000:1000"),
        (Limits(open_files=64), "--ulimit nofile=64:64"),
    ],
)
def test_each_limit_becomes_its_arguments(engine: str, limits: Limits, expected: str) -> None:
    assert words(limits, engine) == f"{expected} {words(Limits(), engine)}"


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_not_the_engines_is_not_asked_of_it(engine: str) -> None:
    others = Limits(wall_seconds=1.0, cpu_seconds=1.0, output_bytes=1)

    assert words(others, engine) == words(Limits(), engine)


def test_the_launcher_does_not_count_against_the_command() -> None:
    arguments = engine_limit_arguments(Limits(pids=1), engine="docker", launcher_pids=2)

    assert arguments[:2] == ("--pids-limit", "3")


def test_an_area_has_the_whole_size() -> None:
    options = "rw,exec,nosuid,nodev,mode=1777,size=16777216"

    assert words(Limits(disk_bytes=16 * MIB), "docker", ("/tmp",)).endswith(
        f" --tmpfs /tmp:{options},nr_inodes=4096"
    )
    assert words(Limits(disk_bytes=16 * MIB), "podman", ("/tmp",)).endswith(
        f" --tmpfs /tmp:{options},notmpcopyup"
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("disk_bytes", [1, 4096, 65_535, 65_536, 100_000, 10**6, 10**9 + 1, 2**40])
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_areas_together_never_exceed_the_limit(engine: str, disk_bytes: int, count: int) -> None:
    """And a size that rounds to nothing, which would mean no limit at all, makes them read-only."""
    areas = tuple(f"/area{number}" for number in range(count))
    arguments = engine_limit_arguments(Limits(disk_bytes=disk_bytes), engine=engine, areas=areas)
    mounts = [argument.partition(":") for argument in arguments if argument.startswith("/area")]
    options = [dict(word.partition("=")[::2] for word in text.split(",")) for _, _, text in mounts]
    writable = [int(each["size"]) for each in options if "rw" in each]

    assert [path for path, _, _ in mounts] == list(areas)
    assert all(("rw" in each) != ("ro" in each) for each in options)
    assert all(size > 0 and size % 65_536 == 0 for size in writable)
    assert disk_bytes - count * 65_536 < sum(writable) <= disk_bytes or not writable
    assert bool(writable) == (disk_bytes >= count * 65_536)


def test_an_area_whose_size_nobody_limits_has_the_same_as_elsewhere() -> None:
    from corral.backends.native import _AREAS_BYTES

    assert f"size={_AREAS_BYTES}," in words(Limits(), "docker", ("/tmp", "/home/someone"))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_path_that_the_command_line_would_cut_is_refused(engine: str) -> None:
    with pytest.raises(UnenforceableError) as refused:
        engine_limit_arguments(Limits(), engine=engine, areas=("/home/a:size=1g",))

    assert not refused.value.ran
    assert refused.value.lacking == {Feature.FS_PRIVATE}


def test_an_unknown_engine_gets_no_arguments_and_holds_nothing() -> None:
    with pytest.raises(KeyError):
        engine_limit_arguments(Limits(), engine="dockerr")
    with pytest.raises(KeyError):
        engine_limit_features("dockerr", DOCKER)


def test_docker_with_everything_holds_everything() -> None:
    assert engine_limit_features("docker", DOCKER) == ALWAYS | BY_GROUP


@pytest.mark.parametrize(
    ("name", "feature"),
    [
        ("MemoryLimit", Feature.LIMIT_MEMORY),
        ("SwapLimit", Feature.LIMIT_MEMORY),
        ("CpuCfsPeriod", Feature.LIMIT_CPU),
        ("CpuCfsQuota", Feature.LIMIT_CPU),
        ("PidsLimit", Feature.LIMIT_PIDS),
    ],
)
@pytest.mark.parametrize("value", [False, None, "true"])
def test_what_docker_would_discard_with_a_warning_is_not_claimed(
    name: str, feature: Feature, value: object
) -> None:
    held = engine_limit_features("docker", {**DOCKER, name: value})

    assert held == ALWAYS | BY_GROUP - {feature}


@pytest.mark.parametrize("driver", ["none", "", None])
def test_docker_without_control_groups_holds_nothing_by_them(driver: str | None) -> None:
    assert engine_limit_features("docker", {**DOCKER, "CgroupDriver": driver}) == ALWAYS


@pytest.mark.parametrize(
    ("facts", "lacking"),
    [
        (podman(), set()),
        (podman(swapTotal=2**30), set()),
        (podman(security={"rootless": True}), set()),
        (podman(security={"rootless": True}, cgroupControllers=["memory", "pids"]), {Feature.LIMIT_CPU}),
        (podman(cgroupControllers=None), BY_GROUP),
        (podman(cgroupVersion="v1"), set()),
        (podman(cgroupVersion="v1", swapTotal=2**30), {Feature.LIMIT_MEMORY}),
        (podman(cgroupVersion="v1", swapTotal=None), {Feature.LIMIT_MEMORY}),
        (podman(cgroupVersion="v1", security={"rootless": True}), BY_GROUP),
        (podman(cgroupVersion="v1", security=None), BY_GROUP),
        (podman(cgroupVersion="v3"), BY_GROUP),
        ({"host": "somewhere"}, BY_GROUP),
        ({}, BY_GROUP),
    ],
)
def test_podman_holds_what_its_controllers_hold(facts: dict[str, object], lacking: set[Feature]) -> None:
    assert engine_limit_features("podman", facts) == ALWAYS | BY_GROUP - lacking


@pytest.mark.parametrize("engine", ENGINES)
def test_limits_of_the_runner_are_never_the_engines(engine: str) -> None:
    facts = DOCKER if engine == "docker" else podman()

    assert not engine_limit_features(engine, facts) & {
        Feature.LIMIT_WALL,
        Feature.LIMIT_OUTPUT,
        Feature.LIMIT_CPU_TIME,
    }
