"""Protected names in a kept sandbox: what the host makes is noticed, what a command makes does not stay."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading

import pytest

from corral.model.errors import PolicyError, SetupError
from corral.model.feature import Feature
from corral.policy.compose import build_policy
from corral.protected_names.guard import Guard
from corral.sandbox import Sandbox
from support.descriptors import count_descriptors
from support.keeping import Keeper, wait_until

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from corral.sessions.session import Session

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


def private_work(session: Session) -> None:
    """What a command leaves in a private area, and must find there again."""
    session.run("mkdir /tmp/deep; echo kept > /tmp/deep/file; echo mine > ~/.gitconfig").check()


def found(session: Session) -> str:
    return session.run("cat /tmp/deep/file ~/.gitconfig").stdout


def test_what_the_host_makes_meanwhile_is_protected_from_the_next_command_on(keeper: Keeper) -> None:
    session = keeper.session()
    private_work(session)
    made = keeper.work / ".envrc"
    made.write_text("the user's own")

    assert session.run("echo evil >> .envrc").exit_code != 0
    assert made.read_text() == "the user's own"
    assert found(session) == "kept\nmine\n"
    assert session.made_anew == 1


def test_what_cannot_go_along_is_said_by_the_next_result(keeper: Keeper) -> None:
    """Where another program makes the private areas, they end with its sandbox."""
    session = keeper.session(backend="bubblewrap")
    private_work(session)
    made = keeper.work / ".envrc"
    made.write_text("the user's own")

    first, second = session.run("echo evil >> .envrc"), session.run("true")

    assert first.exit_code != 0 and made.read_text() == "the user's own"
    assert "/tmp" in first.notes[0] and "lost" in first.notes[0]
    assert found(session) == "" and not second.notes


def test_a_file_without_a_copy_that_the_host_replaces_is_protected(keeper: Keeper) -> None:
    protected = keeper.work / ".envrc"
    protected.write_text("the user's own")
    session = keeper.session()
    private_work(session)
    replace(protected)

    assert session.run("echo evil >> .envrc").exit_code != 0
    assert "evil" not in protected.read_text()
    assert found(session) == "kept\nmine\n"


def test_what_the_host_replaces_again_and_again_is_protected(keeper: Keeper, config: Path) -> None:
    session = keeper.session()
    private_work(session)
    before = count_descriptors()
    for _ in range(3):
        replace(config)
        session.run("echo 'fsmonitor = evil' >> .git/config; echo evil > .git/config")
        assert "evil" not in config.read_text()

    assert session.made_anew == 3
    assert found(session) == "kept\nmine\n"
    assert count_descriptors() <= before


def test_what_cannot_be_planned_is_an_error_until_it_can(keeper: Keeper, config: Path) -> None:
    """Nothing is lost meanwhile, but what has to be made anew."""
    session = keeper.session()
    private_work(session)
    config.with_name("new").write_text("[core")
    config.with_name("new").rename(config)
    for _ in range(2):
        with pytest.raises(PolicyError) as refused:
            session.run("touch ran")
        assert refused.value.code == "git-config"
    replace(config)

    session.run("echo evil >> .git/config")

    assert found(session) == "kept\nmine\n"
    assert "evil" not in config.read_text() and not (keeper.work / "ran").exists()


def test_what_runs_in_the_background_is_ended_with_the_old_sandbox(keeper: Keeper, config: Path) -> None:
    """It could change the host's new file, which nothing covers there."""
    session = keeper.session()
    private_work(session)
    started = session.start(["sleep", "1000"])
    session.run("(until [ -e go ]; do sleep 0.01; done; echo evil > .git/config; touch done) & true").check()
    replace(config)

    next_one = session.run("true")
    (keeper.work / "go").touch()

    assert "(2)" in next_one.notes[0]
    assert started.wait(30).signal == 9
    assert found(session) == "kept\nmine\n"
    assert not (keeper.work / "done").exists() and "evil" not in config.read_text()


def test_a_command_that_somebody_waits_for_is_not_ended(keeper: Keeper, config: Path) -> None:
    session = keeper.session()
    results = []
    waits = threading.Thread(
        target=lambda: results.append(session.run("touch began; until [ -e go ]; do sleep 0.01; done"))
    )
    waits.start()
    wait_until((keeper.work / "began").exists, "the first command runs")
    replace(config)

    with pytest.raises(SetupError) as stale:
        session.run("echo evil > .git/config")
    (keeper.work / "go").touch()
    waits.join()

    assert (stale.value.code, stale.value.ran) == ("session-stale", False)
    assert "still runs" in stale.value.why and "corral session reset" in stale.value.fix
    assert results[0].ok
    session.run("echo evil > .git/config")
    assert "evil" not in config.read_text() and session.made_anew == 1


def test_what_a_command_left_that_nobody_could_take_away_is_not_taken_for_the_hosts(
    keeper: Keeper, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = keeper.session()
    session.run("true")
    monkeypatch.setattr(Guard, "_inspect", lambda *_: None)
    with pytest.raises(SetupError):
        session.run("echo evil > .envrc")
    monkeypatch.undo()

    with pytest.raises(SetupError) as stale:
        session.run("true")

    assert str(keeper.work / ".envrc") in stale.value.why
    (keeper.work / ".envrc").unlink()
    assert session.run("true").ok


def test_areas_that_a_command_has_made_unfit_are_lost_and_nothing_else(keeper: Keeper, config: Path) -> None:
    """The workspace lies in a private area, and a link leads elsewhere where it should be mounted."""
    (keeper.work / "deep" / "er").mkdir(parents=True)
    inner = Keeper(keeper.work / "deep" / "er")
    outside = keeper.work / "deep" / "er" / ".envrc"
    session = inner.session()
    above, name = os.path.split(os.path.dirname(keeper.work))
    try:
        session.run(f"cd {above}; mv {name} elsewhere; ln -s /usr {name}").check()
        outside.write_text("the user's own")

        done = session.run("echo evil >> .envrc")

        assert done.exit_code != 0 and "lost" in done.notes[0]
        assert outside.read_text() == "the user's own"
    finally:
        inner.close()


def test_areas_that_a_command_has_closed_are_lost_and_nothing_else(keeper: Keeper, config: Path) -> None:
    """The workspace lies in a private area, and nobody may enter the directory above it."""
    session = keeper.session()
    session.run(f"chmod 000 {keeper.work.parent}", cwd="/").check()
    outside = keeper.work / ".envrc"
    outside.write_text("the user's own")

    done = session.run("echo evil >> .envrc")

    assert done.exit_code != 0 and "lost" in done.notes[0]
    assert outside.read_text() == "the user's own"
    assert session.run("echo well").stdout == "well\n"


def test_areas_are_kept_when_it_fails_without_them_too(
    keeper: Keeper, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = keeper.session()
    private_work(session)
    replace(config)

    def fails(*_: object) -> None:
        raise SetupError("namespaces", "the sandbox could not be set up", why="too many", fix="wait")

    monkeypatch.setattr("corral.sessions.successor._started", fails)
    with pytest.raises(SetupError):
        session.run("true")
    monkeypatch.undo()

    assert not session.run("true").notes
    assert found(session) == "kept\nmine\n"


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
    wait_until(lambda: not planted.exists(), "it was removed, with no command running")
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
        wait_until(lambda name=name: not name.exists(), "it was removed while the commands go on")
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


@pytest.mark.parametrize("name", ["the repository's", "the caller's"])
def test_what_a_configuration_names_that_the_host_changes_in_its_place_is_protected(
    keeper: Keeper, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A file that is written and not replaced is the same one to every mount."""
    own = tmp_path / "own.gitconfig"
    own.write_text("[core]\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(own))
    hook = keeper.work / "hk/pre-commit"
    hook.parent.mkdir()
    hook.write_text("the user's own")
    session = keeper.session()
    private_work(session)
    with (config if name == "the repository's" else own).open("a") as file:
        file.write("[core]\n\thooksPath = hk\n")

    assert session.run("echo evil > hk/pre-commit").exit_code != 0
    assert hook.read_text() == "the user's own"
    assert found(session) == "kept\nmine\n" and session.made_anew == 1


def test_settings_of_a_command_are_no_change_of_the_hosts(keeper: Keeper) -> None:
    subprocess.run(["git", "init", "-q", keeper.work], check=True)
    session = keeper.session()
    session.run("git config user.name ada && git config user.name bob").check()
    session.run("git config user.email a@b").check()

    assert session.run("true").ok and session.made_anew == 0
    settings = (keeper.work / ".git/config").read_text()
    assert "bob" in settings and "a@b" in settings


def test_a_repository_that_a_command_makes_is_no_change_of_the_hosts(keeper: Keeper) -> None:
    session = keeper.session()
    session.run("git init -q . && git config user.name ada").check()
    session.run("git config user.email a@b; touch a; git add a; git commit -qm a").check()

    assert session.run("git log --oneline").ok and session.made_anew == 0


@pytest.mark.parametrize("waived", ["", "fs.protect"])
@pytest.mark.parametrize("name", ["settings.yml", "directory/file", "private/file"])
def test_what_is_stricter_than_the_workspace_stays_so_when_the_host_replaces_it(
    keeper: Keeper, name: str, waived: str
) -> None:
    """As editors do: the mount goes with the old one, and the new one lies in the writable directory."""
    file = keeper.work / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("the user's own")
    top = keeper.work / name.partition("/")[0]
    kind = "private" if name.startswith("private") else "read"
    policy = build_policy("moderate", (f"filesystem:{kind}:{top}",))
    sandbox = Sandbox(
        policy, workspace=keeper.work, backend="native", waive=[Feature(waived)] if waived else []
    )
    with sandbox.session() as session:
        session.run(f"echo evil > {name}")
        assert file.read_text() == "the user's own"
        top.rename(keeper.work / "old")
        file.parent.mkdir(exist_ok=True)
        file.write_text("the user's own")
        session.run(f"echo evil > {name}")

        assert file.read_text() == "the user's own"
        assert session.made_anew == 1


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_repository_that_a_command_made_and_the_host_took_for_its_own_is_protected(
    keeper: Keeper, is_replaced: bool
) -> None:
    hook = keeper.work / ".githooks/pre-commit"
    session = keeper.session()
    session.run("git init -q . && mkdir .githooks && echo x > .githooks/pre-commit").check()
    assert session.run("true").ok and session.made_anew == 0
    if is_replaced:  # maybe with the number of the old one
        shutil.rmtree(keeper.work / ".git")
        subprocess.run(["git", "init", "-q", keeper.work], check=True)
    hook.write_text("the user's own")
    subprocess.run(["git", "-C", keeper.work, "config", "core.hooksPath", ".githooks"], check=True)
    (keeper.work / ".git/hooks/pre-push").write_text("the user's own")

    session.run("echo evil > .githooks/pre-commit; rm .git/hooks/pre-push")

    assert hook.read_text() == (keeper.work / ".git/hooks/pre-push").read_text() == "the user's own"
    assert session.made_anew == 1


@pytest.mark.parametrize("by_host", ["settings", "hooks"])
def test_a_repository_further_down_that_the_host_configures_is_protected(
    keeper: Keeper, by_host: str
) -> None:
    """Also one that a command has made; its own settings are no reason to begin anew."""
    session = keeper.session()
    session.run("git init -q a/sub && git -C a/sub config user.name ada && mkdir a/sub/hk").check()
    assert session.run("git -C a/sub config user.name bob").ok and session.made_anew == 0
    sub = keeper.work / "a/sub"
    hook = sub / ("hk/pre-commit" if by_host == "settings" else ".git/hooks/pre-commit")
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("the user's own")
    if by_host == "settings":
        subprocess.run(["git", "-C", sub, "config", "core.hooksPath", "hk"], check=True)

    session.run(f"echo evil > {hook.relative_to(keeper.work)}")

    assert hook.read_text() == "the user's own"
    assert session.made_anew == 1
    assert session.run("true").ok and session.made_anew == 1


@pytest.mark.parametrize(("place", "worktree"), [("n/.git", ".."), ("n", ".")])
def test_a_repository_that_is_written_file_by_file_runs_nothing(
    keeper: Keeper, place: str, worktree: str
) -> None:
    """By `write_file`: its caller passes on what an agent says. The last file makes it a repository."""
    ran, monitor = keeper.work.parent / "ran", keeper.work.parent / "monitor"
    monitor.write_text(f"#!/bin/sh\ntouch {ran}\n")
    monitor.chmod(0o755)
    files = {
        "config": "[core]\nrepositoryformatversion = 0\nbare = false\n"
        f"worktree = {worktree}\nfsmonitor = {monitor}\n",
        "objects/x": "",
        "refs/x": "",
        "HEAD": "ref: refs/heads/main\n",
    }
    session = keeper.session()
    session.run("true").check()

    refused = []
    for name, text in files.items():
        try:
            session.write_file(f"{place}/{name}", text, parents=True)
        except PolicyError as problem:
            refused.append(problem.code)
    session.run("true").check()
    session.close()

    assert refused == ["file-protected"]
    _work_in(keeper.work / "n")
    assert not ran.exists()
    for name, text in files.items():
        (keeper.work / place / name).write_text(text)
    _work_in(keeper.work / "n")
    assert ran.exists(), "the control: git runs what it says"


def _work_in(directory: Path) -> None:
    for command in (("add", "."), ("status",)):
        subprocess.run(["git", *command], cwd=directory, capture_output=True, check=False)
