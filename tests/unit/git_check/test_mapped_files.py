"""In memory (tmpfs) a file that a process has mapped has no new time when that process changes it."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from corral.git_check.check import RepositoryCheck
from corral.git_check.files import MOST_TEXT_BYTES
from corral.git_check.scope import scope_of
from corral.untrusted_files.unchanged import TICK_NS, tells_of_mappings
from support.git_repository import CONFIG, EVIL, make_repository, put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Checking = Callable[[], RepositoryCheck]

_MEMORY = "/dev/shm"
_COMMENT = "#" + "x" * 80 + "\n"


@pytest.fixture
def workspace() -> Iterator[Path]:
    if not os.path.isdir(_MEMORY) or tells_of_mappings(os.stat(_MEMORY).st_dev):
        pytest.skip(f"{_MEMORY} is not in memory")
    place = Path(tempfile.mkdtemp(dir=_MEMORY))
    make_repository(place / ".git")
    yield place
    shutil.rmtree(place)


@pytest.fixture
def keeping(workspace: Path, tmp_path: Path, make_plan) -> Checking:
    """A check as one run has it, begun, which remembers what the runs before have found."""

    def make() -> RepositoryCheck:
        plan = make_plan(writable=(str(workspace),), worktrees=(str(workspace),))
        check = RepositoryCheck(scope_of(plan), str(tmp_path / "quarantine"), str(tmp_path / "memory"))
        check.begin()
        return check

    return make


def _settle() -> None:
    began = time.time_ns()
    while time.time_ns() < began + 2 * TICK_NS:
        time.sleep(0.001)


def _change_mapped(path: Path, content: bytes) -> None:
    """Read first: what is mapped for reading and writing is then written without the kernel's knowing."""
    before = path.stat()
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        assert mapped[:1]
        mapped[: len(content)] = content
    after = path.stat()
    assert (after.st_ctime_ns, after.st_size) == (before.st_ctime_ns, before.st_size)
    assert path.read_bytes().startswith(content)


def test_a_repository_that_the_host_made_since_the_last_run_is_not_told_by_its_time(
    keeping: Checking, workspace: Path
) -> None:
    first = keeping()
    first.sweep()
    first.close()
    inner = make_repository(workspace / "node_modules/x/.git", CONFIG + _COMMENT)
    _settle()
    check = keeping()
    _change_mapped(inner / "config", f"[core]\n{EVIL}#".encode())

    assert check.sweep() == ()
    assert EVIL not in (inner / "config").read_text()


def test_nor_is_a_file_that_is_too_large_to_be_read(keeping: Checking, workspace: Path) -> None:
    hook = workspace / "node_modules/x/.git/hooks/post-checkout"
    other = workspace / "node_modules/x/.git/hooks/pre-push"
    make_repository(workspace / "node_modules/x/.git")
    for path in (hook, other):
        put(path, "#!/bin/sh\n" + _COMMENT + "#" * MOST_TEXT_BYTES)
    _settle()
    check = keeping()
    _change_mapped(hook, b"#!/bin/sh\n./evil\n#")

    assert check.sweep() == ()
    assert not hook.exists()
    assert other.exists()  # which is the host's own
