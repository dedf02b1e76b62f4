"""Plans and launches for the runner, small and with nothing of a host in them; guards over a workspace."""

from __future__ import annotations

import os

import pytest

from corral.git_check.check import RepositoryCheck
from corral.git_check.scope import scope_of
from corral.model.feature import Feature
from corral.model.launch import Launch
from corral.model.plan import Command, Grant, PathKind, Plan, ResolvedPath, ResolvedPolicy, Shield
from corral.model.policy import FsAccess, Limits, NetPolicy, Policy
from corral.protected_names.guard import Guard
from support.git_repository import make_repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from corral.model.plan import Search, WatchedName


@pytest.fixture
def make_plan() -> Callable[..., Plan]:
    def make(
        argv: tuple[str, ...] = ("/bin/true",),
        *,
        limits: Limits | None = None,
        requires: frozenset[Feature] = frozenset(),
        waived: frozenset[Feature] = frozenset(),
        stdin: bytes = b"",
        cwd: str = "/",
        watches: tuple = (),
        writable: tuple[str, ...] = (),
        worktrees: tuple[str, ...] = (),
        shields: tuple[Shield, ...] = (),
    ) -> Plan:
        grants = tuple(
            Grant(ResolvedPath(path, path, PathKind.DIRECTORY), FsAccess.WRITE) for path in writable
        )
        resolved = ResolvedPolicy(
            *(grants, (), (), (), ()),
            *(NetPolicy(), limits or Limits(), frozenset(), True, False, ()),
            *(cwd, "/", 0, 0, "/tmp", requires),
        )
        command = Command(argv, cwd, stdin)
        return Plan(
            "0" * 16, command, resolved, shields, (), watches, (), waived, Policy(), worktrees=worktrees
        )

    return make


@pytest.fixture
def make_launch() -> Callable[..., Launch]:
    def make(plan: Plan, **changes: object) -> Launch:
        env = (("PATH", "/usr/bin:/bin"),)
        return Launch("test", plan.command.argv, env, {}, cwd=plan.command.cwd).replace(**changes)

    return make


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A workspace to watch over."""
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def guarding(tmp_path: Path) -> Iterator[Callable[..., Guard]]:
    """Starts guards, and closes them afterwards."""
    opened: list[Guard] = []

    def start(*watches: WatchedName, searches: tuple[Search, ...] = ()) -> Guard:
        opened.append(Guard(watches, str(tmp_path / "quarantine"), searches=searches))
        return opened[-1]

    yield start
    for guard in opened:
        guard.close()


@pytest.fixture
def git(place: Path) -> Path:
    """The git directory of the workspace, which the plan knows."""
    (place / "away").symlink_to(place.parent)
    return make_repository(place / ".git")


@pytest.fixture
def check(git: Path, checking: Callable[..., RepositoryCheck]) -> RepositoryCheck:
    made = checking(str(git.parent))
    made.begin()
    return made


@pytest.fixture
def checking(place: Path, tmp_path: Path, make_plan) -> Callable[..., RepositoryCheck]:
    def make(*worktrees: str, watches: tuple[WatchedName, ...] = ()) -> RepositoryCheck:
        held = [f"{worktree}/.git/{name}" for worktree in worktrees for name in ("config", "hooks")]
        held = [path for path in held if os.path.lexists(path)]
        shields = tuple(Shield(ResolvedPath(path, path, PathKind.FILE)) for path in held)
        plan = make_plan(writable=(str(place),), worktrees=worktrees, watches=watches, shields=shields)
        return RepositoryCheck(scope_of(plan), str(tmp_path / "quarantine"))

    return make
