"""The limits of a policy as arguments of `docker run` and `podman run`, and which of them an engine holds.

The tests measure it on real ones.
Both engines refuse a number that they cannot do with (docker less than 6 MiB of memory, runc less than about
a dozen open files): then the command does not run. But for a controller that they lack, they print a warning
and run it without the limit. So what `engine_limit_features` does not name must not be asked of them.
"""

from __future__ import annotations

from corral.model.errors import UnenforceableError
from corral.model.feature import Feature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from corral.model.policy import Limits

_CPU_PERIOD_US = 100_000
_LONG_CPU_PERIOD_US = 1_000_000  # for small shares: no quota can be less than a millisecond

_AREA_BYTES = 2 * 1024**3  # of an area whose size nobody limits
#: The largest page of any kernel. A tmpfs is rounded up to whole pages, and the limit must hold all the same.
_PAGE_BYTES = 64 * 1024
#: An empty file costs memory too, and a size does not bound their number.
_BYTES_FOR_EACH_FILE, _LEAST_FILES = 4096, 1024

#: What makes every place read-only that is not an area. Podman would add a /tmp, a /run and a /var/tmp that
#: may each take half of the host's memory; both would mount a /dev/shm of 64 MiB.
#: TRUST: /dev (64 MiB) and, above control groups of version 1, a tmpfs without a size stay writable to root
#: inside. No argument closes them; whoever runs root inside has to do it with Landlock.
_READ_ONLY = {"docker": ("--read-only",), "podman": ("--read-only", "--read-only-tmpfs=false")}
_NO_SHARED_MEMORY = ("--ipc", "none")
#: Podman refuses this option of tmpfs: there only the memory limit bounds the number of files.
BOUNDS_FILES = {"docker": True, "podman": False}

#: Held by the kernel for each process, or by the areas themselves, whatever controllers there are.
_ALWAYS = frozenset({Feature.LIMIT_FILE_SIZE, Feature.LIMIT_OPEN_FILES, Feature.LIMIT_DISK})


def engine_limit_arguments(
    limits: Limits,
    *,
    engine: str,
    areas: Sequence[str] = (),
    launcher_pids: int = 1,
    made: Mapping[str, int] = {},
    writable: bool = False,
) -> tuple[str, ...]:
    """What bounds memory, processors, processes, files, and the private areas together.

    Every place that is neither an area nor mounted by the caller becomes read-only, unless the root is to be
    `writable`. `made` says how many
    places to mount on the engine itself makes in an area, which do not count. Raises UnenforceableError for
    an area whose path the engine's command line cannot express.
    """
    return (
        *_group_arguments(limits, launcher_pids),
        *_process_arguments(limits),
        *_area_arguments(areas, limits, engine, made, writable=writable),
    )


def _group_arguments(limits: Limits, launcher_pids: int) -> list[str]:
    """What the control group of the container holds for the whole tree together."""
    arguments: list[str] = []
    if limits.memory_bytes is not None:
        # The second number is memory and swap together: the same again leaves no swap.
        arguments += ["--memory", str(limits.memory_bytes), "--memory-swap", str(limits.memory_bytes)]
    if limits.cpus is not None:
        # Not --cpus: docker refuses one that is more than the host has, and both refuse one below 0.01.
        period = _CPU_PERIOD_US if limits.cpus >= 0.01 else _LONG_CPU_PERIOD_US
        arguments += ["--cpu-period", str(period), "--cpu-quota", str(int(limits.cpus * period))]
    if limits.pids is not None:
        # The container's first process is corral's launcher. The engine counts it, the policy does not: with
        # one more the command has all that it was promised, and no more.
        arguments += ["--pids-limit", str(limits.pids + launcher_pids)]
    return arguments


def _process_arguments(limits: Limits) -> list[str]:
    """What holds for each process by itself. The hard limit as well, or the command could raise it."""
    pairs = (("fsize", limits.file_size_bytes), ("nofile", limits.open_files))
    return [
        word for name, value in pairs if value is not None for word in ("--ulimit", f"{name}={value}:{value}")
    ]


def _area_arguments(
    areas: Sequence[str], limits: Limits, engine: str, made: Mapping[str, int], *, writable: bool
) -> list[str]:
    """No engine makes one tmpfs appear in several places, so each area gets an equal part of the size."""
    arguments = [*(() if writable else _READ_ONLY[engine]), *_NO_SHARED_MEMORY]
    for area in areas:
        if ":" in area:
            raise _inexpressible(area, engine)
        options = _area_options(len(areas), limits, made.get(area, 0), bounds_files=BOUNDS_FILES[engine])
        arguments += ["--tmpfs", f"{area}:{options}{NOT_COPIED[engine]}"]
    return arguments


#: Podman would copy into a private area what lies beneath: the image's files, or the caller's own home.
NOT_COPIED = {"docker": "", "podman": ",notmpcopyup"}


def _area_options(count: int, limits: Limits, made: int, *, bounds_files: bool) -> str:
    whole = limits.disk_bytes
    size = _AREA_BYTES if whole is None else whole // count // _PAGE_BYTES * _PAGE_BYTES
    if size == 0:  # to tmpfs, 0 means no limit
        return f"ro,nosuid,nodev,size={_PAGE_BYTES}"
    # exec, because docker's default is noexec, and people build things in /tmp.
    options = f"rw,exec,nosuid,nodev,mode=1777,size={size}"
    if bounds_files:
        files = max(_LEAST_FILES, size // _BYTES_FOR_EACH_FILE)
        if limits.disk_files is not None:
            files = limits.disk_files // count + 1 + made  # one for the area itself
        options += f",nr_inodes={files}"
    return options


def _inexpressible(area: str, engine: str) -> UnenforceableError:
    return UnenforceableError(
        "unenforceable",
        f"the private area {area!r} cannot be made by {engine}",
        why="its command line ends the path at the first colon",
        fix="use a path without a colon, or another backend",
        lacking=frozenset({Feature.FS_PRIVATE}),
    )


def engine_limit_features(engine: str, facts: Mapping[str, object]) -> frozenset[Feature]:
    """Limits that an engine holds, by what `docker info` or `podman info` says in JSON.

    What it does not say, it does not hold.
    """
    by_group = {"docker": _docker_features, "podman": _podman_features}[engine]
    return _ALWAYS | by_group(facts)


def _docker_features(facts: Mapping[str, object]) -> frozenset[Feature]:
    if facts.get("CgroupDriver") in {None, "", "none"}:  # rootless, without a group of its own
        return frozenset()
    needs = {
        Feature.LIMIT_MEMORY: ("MemoryLimit", "SwapLimit"),
        Feature.LIMIT_CPU: ("CpuCfsPeriod", "CpuCfsQuota"),
        Feature.LIMIT_PIDS: ("PidsLimit",),
    }
    return frozenset(
        feature for feature, names in needs.items() if all(facts.get(name) is True for name in names)
    )


def _podman_features(facts: Mapping[str, object]) -> frozenset[Feature]:
    host = facts.get("host")
    if not isinstance(host, dict):
        return frozenset()
    version, security = host.get("cgroupVersion"), host.get("security")
    rootless = not isinstance(security, dict) or security.get("rootless") is not False
    if version not in {"v1", "v2"} or (version == "v1" and rootless):
        return frozenset()
    controllers = host.get("cgroupControllers")
    present = set(controllers) if isinstance(controllers, list) else set()
    # With version 1 podman does not say whether swap is counted; where there is none, that does not matter.
    counts_swap = version == "v2" or host.get("swapTotal") == 0
    held = {
        Feature.LIMIT_MEMORY: "memory" in present and counts_swap,
        Feature.LIMIT_CPU: "cpu" in present,
        Feature.LIMIT_PIDS: "pids" in present,
    }
    return frozenset(feature for feature, holds in held.items() if holds)
