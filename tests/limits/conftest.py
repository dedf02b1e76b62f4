"""The fixture `arena` on every backend and enforcer, and a look around afterwards: nothing is left behind."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from corral.limits.group import label
from corral.limits.hierarchy import find_hierarchy
from support.arena import GROUPED, GROUPLESS, Arena
from support.gates import PATIENCE_SECONDS, Gate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_PLACES = [(backend, enforcer) for backend in ("native", "landlock") for enforcer in (GROUPED, GROUPLESS)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test that asks for an arena runs in all of them; what is not claimed there skips itself."""
    if "arena" in metafunc.fixturenames:
        ids = [f"{backend}-{enforcer}" for backend, enforcer in _PLACES]
        metafunc.parametrize("arena", _PLACES, ids=ids, indirect=True)


@pytest.fixture
def arena(request: pytest.FixtureRequest, work: Path) -> Arena:
    """One backend with one enforcer of limits."""
    backend, enforcer = request.param
    made = Arena(backend, enforcer, work)
    if not made.probe.available:
        required = request.config.getoption("--require").split(",")
        complain = pytest.fail if backend in required else pytest.skip
        complain(f"{backend} is not available: {made.probe.reason}")
    return made


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The workspace. What corral remembers, and where it keeps its own, is fresh as well."""
    for name, variable in (("temporary", "TMPDIR"), ("state", "XDG_STATE_HOME"), ("home", "HOME")):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / name))
    monkeypatch.setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def gate(work: Path) -> Iterator[Gate]:
    """It tells when the last process that holds it is gone."""
    made = Gate(work / "gate")
    yield made
    made.close()


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """Neither processes nor control groups nor mounts nor scratch directories."""
    mounts = _lines("/proc/self/mountinfo")
    yield
    left = {
        "processes": _processes_in(tmp_path),
        "groups": _own_groups(),
        "mounts": [line for line in _lines("/proc/self/mountinfo") - mounts if _is_ours(line, tmp_path)],
        "directories": list(tmp_path.glob("temporary/*")),
    }
    assert {kind: found for kind, found in left.items() if found} == {}


def _processes_in(place: Path) -> list[str]:
    """Processes whose working directory lies there, whatever it is called in their own file system.

    The kernel tells of a death a moment before the process is gone from the list.
    """
    places = {_identity(str(path)) for path in (place / "work",) if path.exists()}
    deadline = time.monotonic() + PATIENCE_SECONDS
    while found := [pid for pid in _process_numbers() if _identity(f"/proc/{pid}/cwd") in places]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return found


def _process_numbers() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:  # it is gone, or belongs to somebody else
        return None
    return status.st_dev, status.st_ino


def _own_groups() -> list[str]:
    hierarchy = find_hierarchy()
    parents = set(hierarchy.parents.values()) if hierarchy is not None else set()
    return [
        f"{parent}/{name}" for parent in parents for name in os.listdir(parent) if name.startswith(label())
    ]


def _lines(path: str) -> set[str]:
    return set(Path(path).read_text(encoding="utf-8").splitlines())


def _is_ours(line: str, place: Path) -> bool:
    return str(place) in line or "corral" in line
