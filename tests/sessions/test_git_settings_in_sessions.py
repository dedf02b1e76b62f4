"""Settings of git in a kept sandbox: taken over after each command, and the copy is what the file is."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from corral.model.errors import PolicyError
from support.keeping import wait_until

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from support.keeping import Keeper

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")


@pytest.fixture
def config(keeper: Keeper) -> Path:
    subprocess.run(["git", "init", "-q"], cwd=keeper.work, check=True)
    return keeper.work / ".git/config"


def _copies() -> list[str]:
    from corral.host.real import state_directory

    place = os.path.join(state_directory(), "copies")
    return os.listdir(place) if os.path.isdir(place) else []


def test_settings_are_taken_over_after_each_command(keeper: Keeper, config: Path) -> None:
    before = config.read_text()
    session = keeper.session()

    for name in ("A", "B"):
        assert session.run(f"git config user.name {name}").violations == ()
        assert config.read_text() == f"{before}[user]\n\tname = {name}\n"


def test_what_is_refused_is_told_once_and_gone_for_the_next_command(keeper: Keeper, config: Path) -> None:
    before = config.read_text()
    session = keeper.session()

    first = session.run("git config core.fsmonitor ./evil")
    second = session.run("git config core.fsmonitor")

    assert [violation.subject for violation in first.violations] == [str(config)]
    assert second.violations == ()
    assert second.exit_code == 1
    assert config.read_text() == before


def test_what_the_host_writes_is_seen_by_the_next_command(keeper: Keeper, config: Path) -> None:
    session = keeper.session()
    session.run("git config user.name A")
    with config.open("a") as file:
        file.write("[user]\n\temail = host@localhost\n")

    assert session.run("git config user.email").stdout == "host@localhost\n"
    assert session.run("git config user.name B").violations == ()
    assert "host@localhost" in config.read_text()
    assert "name = B" in config.read_text()


def test_what_the_caller_writes_from_outside_is_judged_alike(keeper: Keeper, config: Path) -> None:
    session = keeper.session()
    written = config.read_text() + "[user]\n\tname = A\n"
    with pytest.raises(PolicyError, match="did not stay") as refused:
        session.write_file(".git/config", f"{written}[core]\n\tfsmonitor = ./evil\n")

    assert config.read_text() == written
    assert "core.fsmonitor" in refused.value.why


def test_what_is_found_beside_a_command_is_told_with_its_result(keeper: Keeper, config: Path) -> None:
    session = keeper.session()
    first = session.start("touch there; while [ ! -e go ]; do sleep 0.01; done")
    wait_until((keeper.work / "there").exists, "the first command runs")

    session.write_file(".git/config", f"{config.read_text()}[core]\n\tfsmonitor = ./evil\n")
    (keeper.work / "go").touch()

    assert "core.fsmonitor" in first.wait().violations[0].detail


def test_commands_that_run_at_once_lose_nothing(keeper: Keeper, config: Path) -> None:
    session = keeper.session()
    first = session.start("touch there; while [ ! -e go ]; do sleep 0.01; done; git config user.name A")
    wait_until((keeper.work / "there").exists, "the first command runs")

    assert session.run("git config user.email b@c").violations == ()
    (keeper.work / "go").touch()
    assert first.wait().violations == ()

    assert "name = A" in config.read_text()
    assert "email = b@c" in config.read_text()


def test_nothing_is_left_when_a_session_ends(keeper: Keeper, config: Path) -> None:
    before = _copies()
    session = keeper.session()
    session.run("git config user.name A")

    assert len(_copies()) == len(before) + 1
    session.reset()
    assert len(_copies()) == len(before) + 1
    session.close()
    assert _copies() == before


def test_two_sessions_hold_both(keeper: Keeper, config: Path) -> None:
    first, second = keeper.session(), keeper.session()

    assert first.run("git config user.name A").violations == ()
    assert second.run("git config user.name").stdout == "A\n"
    assert second.run("echo '[core] fsmonitor = ./evil' >> .git/config").violations != ()
    assert "evil" not in config.read_text()
