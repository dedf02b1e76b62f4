"""Protected names in a kept sandbox: what the host makes is noticed, what a command makes does not stay."""

from __future__ import annotations

import contextlib
import os

import pytest

from corral.model.errors import SetupError
from corral.model.feature import Feature
from support.keeping import wait_until

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from support.keeping import Keeper

BACKENDS = ("native", "bubblewrap")


@pytest.fixture
def config(keeper: Keeper) -> Path:
    """The configuration of a repository in the workspace."""
    (keeper.work / ".git/hooks").mkdir(parents=True)
    (keeper.work / ".git/config").write_text("[core]\n")
    return keeper.work / ".git/config"


def replace(path: Path) -> None:
    """As every careful program writes a file: the old one is in the mounts, the new one is not."""
    new = path.with_name(f"{path.name}.lock")
    new.write_text("[core]\n\tbare = false\n")
    new.rename(path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_the_host_makes_meanwhile_makes_a_session_stale(keeper: Keeper, backend: str) -> None:
    session = keeper.session(backend=backend)
    session.run("true")
    made = keeper.work / ".envrc"
    made.write_text("the user's own")

    with pytest.raises(SetupError) as stale:
        session.run("echo evil >> .envrc")

    assert stale.value.code == "session-stale"
    assert made.read_text() == "the user's own"
    session.reset()
    assert session.run("echo evil >> .envrc").exit_code != 0
    assert made.read_text() == "the user's own"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "with-a-background-process"])
def test_what_the_host_replaces_makes_a_session_stale(
    keeper: Keeper, config: Path, backend: str, is_busy: bool
) -> None:
    session = keeper.session(backend=backend)
    session.run("true")
    if is_busy:
        session.start(["sleep", "1000"])
        session.run("sleep 1000 & true")
    replace(config)

    with pytest.raises(SetupError) as stale:
        session.run("echo 'fsmonitor = evil' >> .git/config")

    assert stale.value.code == "session-stale"
    assert "evil" not in config.read_text()


def test_what_is_protected_keeps_its_number_from_others(keeper: Keeper, config: Path) -> None:
    """A number that is free again may be that of the next file, and nothing would seem to have changed."""
    session = keeper.session()
    session.run("true")
    before = config.stat()
    replace(config)

    held = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one by which they were listed
            status = os.fstat(int(number))
            held.add((status.st_dev, status.st_ino))
    assert (before.st_dev, before.st_ino) in held


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_command_plants_is_in_its_own_result(keeper: Keeper, backend: str) -> None:
    session = keeper.session(backend=backend)
    before = session.run("true")
    done = session.run("echo evil > .envrc")
    after = session.run("true")

    assert not (keeper.work / ".envrc").exists()
    assert [violation.feature for violation in done.violations] == [Feature.FS_PROTECT]
    assert not before.violations and not after.violations


def test_what_is_left_running_cannot_plant_between_commands(keeper: Keeper) -> None:
    session = keeper.session()
    planted, go = keeper.work / ".envrc", keeper.work / "go"
    session.run("(until [ -e go ]; do sleep 0.01; done; echo evil > .envrc; touch done; sleep 1000) & true")
    go.touch()

    wait_until((keeper.work / "done").exists, "it was planted")
    wait_until(lambda: not planted.exists(), "it was taken away, with no command running")
    told = session.run("true").violations
    assert [violation.subject for violation in told] == [str(planted)]
    assert not session.run("true").violations


def test_a_long_command_cannot_plant_when_a_shorter_one_has_ended(keeper: Keeper) -> None:
    """The first that runs for long makes the guard listen to the kernel: for everyone."""
    session = keeper.session()
    planted, go = keeper.work / ".envrc", keeper.work / "go"
    first, second = (
        session.start(f"until [ -e go ]; do sleep 0.01; done; echo evil > {name}; touch {mark}; sleep 1000")
        for name, mark in ((".envrc", "first"), (".mcp.json", "second"))
    )
    session.run("sleep 1")  # long enough for it to listen
    go.touch()

    for name, mark in ((planted, "first"), (keeper.work / ".mcp.json", "second")):
        wait_until((keeper.work / mark).exists, "it was planted")
        wait_until(lambda name=name: not name.exists(), "it was taken away while the commands go on")
    assert first.is_running and second.is_running


def test_two_sessions_in_one_workspace_hold_both(keeper: Keeper, config: Path) -> None:
    first, second = keeper.session(), keeper.session()
    for session in (first, second, first):
        assert session.run("echo evil >> .git/config; echo evil > .git/hooks/pre-commit").exit_code != 0
        done = session.run("mkdir -p sub/.git/hooks; echo evil > .envrc; true")
        assert done.violations
    first.close()

    assert second.run("echo 'fsmonitor = evil' >> .git/config").violations
    assert "evil" not in config.read_text()
    assert not (keeper.work / ".envrc").exists()
    assert os.listdir(keeper.work / ".git/hooks") == []
