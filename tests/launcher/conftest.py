"""Fixtures: the launcher, built once plainly and once with sanitizers and fault injection."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
for place in (str(HERE.parents[1] / "src"), str(HERE)):
    if place not in sys.path:
        sys.path.insert(0, place)

import launching  # noqa: E402  (needs the paths above)

from corral.untrusted_files.removal import remove_tree  # noqa: E402
from support.host_mounts import host_mounts  # noqa: E402
from support.once import made_once  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def _built(factory: pytest.TempPathFactory, name: str, flags: list[str]) -> Iterator[Path]:
    """Compiled once for all workers; each has a copy, in a directory every user may enter."""
    yield from _copied(made_once(factory, name, lambda path: launching.build(path, flags)))


def _copied(built: Path) -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="test-launcher-"))
    directory.chmod(0o755)
    yield Path(shutil.copy(built, directory))
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def plain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What is shipped, or what was given to be tested."""
    given = request.config.getoption("--launcher")
    if given:
        yield from _copied(Path(given))
    else:
        yield from _built(tmp_path_factory, "corral-launch", [*launching.STRICT, "-static"])


@pytest.fixture(scope="session")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With sanitizers, and with FAULT records."""
    yield from _built(tmp_path_factory, "corral-launch-checked", launching.SANITIZED)


@pytest.fixture(scope="session", params=["plain", "checked"])
def launcher(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


@pytest.fixture(params=[0, launching.ORDINARY], ids=["root", "ordinary"])
def user(request: pytest.FixtureRequest) -> int:
    if os.getuid() == 0:
        return int(request.param)
    if request.param == 0:
        pytest.skip("needs root")
    return os.getuid()


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """An empty directory of the host that every user may reach and write."""
    directory = Path(tempfile.mkdtemp(prefix="test-launcher-"))
    directory.chmod(0o777)
    yield directory
    remove_tree(str(directory.parent), directory.name)  # the kernel makes some that only root may enter


def _children() -> set[int]:
    listed = (path.read_text() for path in Path("/proc/self/task").glob("*/children"))
    return {int(pid) for text in listed for pid in text.split()}


def _survivors(known: set[int], seconds: float) -> set[int]:
    """Children that are still there after a while; the dead among them are reaped."""
    end = time.monotonic() + seconds
    while True:
        living = {pid for pid in _children() - known if os.waitpid(pid, os.WNOHANG)[0] == 0}
        if not living or time.monotonic() > end:
            return living
        time.sleep(0.01)


@pytest.fixture(scope="session", autouse=True)
def orphans_come_to_us() -> None:
    """A process that loses its parent becomes a child of the test, where it is seen."""
    pr_set_child_subreaper = 36
    assert ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0) == 0


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No mount on the host and no process, whatever a test did."""
    mounts, children = host_mounts(), _children()
    yield
    assert host_mounts() == mounts
    assert _survivors(children, seconds=0.5) == set()
