"""fs.protect: files that the host runs later are neither changed nor planted."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace

import pytest

from corral.model.feature import Feature
from corral.model.plan import StdioMode
from support.confinement import attempt, confine, python, shell
from support.doors import SEND, open_door, receive, redirected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from support.confinement import Case, Stage

pytestmark = pytest.mark.proves(Feature.FS_PROTECT)


@pytest.fixture
def hooks(stage: Stage) -> Path:
    """The hooks of a repository in the workspace."""
    directory = stage.work / ".git/hooks"
    directory.mkdir(parents=True)
    (stage.work / ".git/config").write_text("[core]\n")
    return directory


def test_no_hook_is_planted_in_a_repository(backend: Case, stage: Stage, hooks: Path) -> None:
    done = attempt(
        backend,
        stage,
        shell("echo evil > .git/hooks/pre-commit"),
        effect=lambda _: (hooks / "pre-commit").exists(),
        reset=(hooks / "pre-commit").unlink,
    )

    assert not done.worked


def test_the_configuration_of_a_repository_cannot_be_changed(
    backend: Case, stage: Stage, hooks: Path
) -> None:
    config = hooks.parent / "config"

    done = attempt(
        backend,
        stage,
        shell("echo 'fsmonitor = evil' >> .git/config"),
        effect=lambda _: "evil" in config.read_text(),
        reset=lambda: config.write_text("[core]\n"),
    )

    assert not done.worked


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_settings_of_git_are_changed_in_a_copy(backend: Case, stage: Stage, hooks: Path) -> None:
    """What is harmless is taken over where commands have a copy, what runs a program nowhere."""
    config = hooks.parent / "config"
    original = "[core]\n\trepositoryformatversion = 0\n"
    (hooks.parent / "objects").mkdir()
    (hooks.parent / "refs").mkdir()
    (hooks.parent / "HEAD").write_text("ref: refs/heads/main\n")
    config.write_text(original)

    done = attempt(
        backend,
        stage,
        shell("git config user.name Somebody; git config core.fsmonitor ./evil"),
        effect=lambda _: "evil" in config.read_text(),
        reset=lambda: config.write_text(original),
    )

    assert not done.worked
    if backend.backend.name == "native":
        assert config.read_text() == f"{original}[user]\n\tname = Somebody\n"
        said = done.result.stderr_bytes.decode().splitlines()  # where a command line tells it
        refused = [violation.detail for violation in done.result.violations] or said
        assert len(refused) == 1 and "core.fsmonitor" in refused[0]


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_the_hosts_git_neither_follows_nor_runs_what_a_command_left(
    backend: Case, stage: Stage, hooks: Path
) -> None:
    """A link where git writes its message, a rebase with a step to run, a repository with a monitor."""
    victim, ran = stage.outside / "startup", stage.outside / "ran"
    victim.write_text("mine\n")
    shutil.rmtree(hooks.parent)
    _git(stage, "init", "-q", "--template=", ".")
    _git(stage, "commit", "-q", "--allow-empty", "-m", "first")
    script = (
        f"ln -sf {victim} .git/COMMIT_EDITMSG; "
        f"mkdir .git/rebase-merge; echo 'exec touch {ran}' > .git/rebase-merge/git-rebase-todo; "
        "for name in onto orig-head; do git rev-parse HEAD > .git/rebase-merge/$name; done; "
        "echo detached HEAD > .git/rebase-merge/head-name; touch .git/rebase-merge/interactive; "
        "git init -q --template= sub; cd sub; "
        "git -c user.name=x -c user.email=x commit -q --allow-empty -m x; "
        f"git config core.fsmonitor 'touch {ran};'; cd ..; git -c advice.addEmbeddedRepo=false add sub"
    )

    def follow(_: bytes) -> bool:
        for command in ("status", "commit -q --allow-empty -m evil", "rebase --continue"):
            _git(stage, *command.split(), check=False)
        return victim.read_text() != "mine\n" or ran.exists()

    def reset() -> None:
        victim.write_text("mine\n")
        ran.unlink(missing_ok=True)
        for name in (".git/rebase-merge", "sub"):
            shutil.rmtree(stage.work / name, ignore_errors=True)
        (stage.work / ".git/COMMIT_EDITMSG").unlink(missing_ok=True)
        _git(stage, "read-tree", "HEAD")

    done = attempt(backend, stage, shell(script), effect=follow, reset=reset)

    assert not done.worked


def _git(stage: Stage, *words: str, check: bool = True) -> None:
    """As the user types it, with nothing of the developer's in it."""
    identity = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {"HOME": str(stage.home), "PATH": "/usr/bin:/bin", "GIT_EDITOR": "true", **identity}
    subprocess.run(
        ["git", *words],
        cwd=stage.work,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=check,
    )


def test_a_start_file_that_is_missing_cannot_be_planted(backend: Case, stage: Stage) -> None:
    planted = stage.work / ".envrc"

    done = attempt(
        backend,
        stage,
        shell("echo evil > .envrc"),
        effect=lambda _: planted.exists(),
        reset=planted.unlink,
    )

    assert not done.worked


def test_a_repository_cannot_be_swapped_for_another(backend: Case, stage: Stage, hooks: Path) -> None:
    def reset() -> None:
        shutil.rmtree(stage.work / ".git")
        (stage.work / "old").rename(stage.work / ".git")

    done = attempt(
        backend,
        stage,
        shell("mv .git old; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; true"),
        effect=lambda _: (hooks / "pre-commit").exists(),
        reset=reset,
    )

    assert not done.worked


_GO_ALONG = """
import os, time
os.mkdir('planted')
os.chdir('planted')
os.rename('../planted', '../.vscode')
for _ in range(500):
    if not os.path.lexists(WORK + '/.vscode'): break
    time.sleep(0.01)
open('../evil', 'w').close()
"""


def test_nobody_goes_along_into_a_quarantine_in_the_workspace(
    backend: Case, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From there `..` would lead to corral's own files, beneath the mounts that hold them."""
    state = stage.work / "state"
    kept = state / "corral/quarantine"
    kept.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("XDG_STATE_HOME", str(state))

    done = attempt(
        backend,
        replace(stage, quarantine=kept / "run"),
        python(f"WORK = {str(stage.work)!r}{_GO_ALONG}"),
        effect=lambda _: bool(list(kept.rglob("evil"))),
        reset=(kept / "evil").unlink,
        control=shell("touch state/corral/quarantine/evil"),
    )

    assert not done.worked
    assert not (stage.work / ".vscode").exists()


@pytest.mark.parametrize("name", ["hooks/pre-commit", "config"])
def test_a_directory_that_outlives_the_sandbox_is_protected_still(
    backend: Case, stage: Stage, hooks: Path, name: str
) -> None:
    target = hooks.parent / name

    def plant(_: bytes) -> bool:
        door.write(f".git/{name}", "evil")
        return target.exists() and "evil" in target.read_text()

    def reset() -> None:
        if name == "config":
            target.write_text("[core]\n")
        else:
            target.unlink()

    with open_door(stage.work) as door:
        done = attempt(backend, stage, SEND, effect=plant, reset=reset)

    assert door.came == 2
    assert not done.worked


_SWAP_HOOKS = receive("""
os.rename('.git/hooks', '.git/old', src_dir_fd=given, dst_dir_fd=given)
os.mkdir('.git/hooks', dir_fd=given)
os.close(os.open('.git/hooks/pre-commit', os.O_CREAT | os.O_WRONLY, 0o755, dir_fd=given))
""")


@pytest.mark.parametrize("rule", ["deny", "private"])
def test_a_directory_of_another_sandbox_is_no_way_around_one_that_hides_it(
    backend: Case, stage: Stage, hooks: Path, rule: str
) -> None:
    """One sandbox shows .git, and holds its hooks. It hands a way there to another one, which hides .git."""
    _skip_where_there_is_no_such_area(backend, rule)

    def reset() -> None:
        shutil.rmtree(hooks)
        (hooks.parent / "old").rename(hooks)

    with open_door(stage.work) as door:
        confine(backend, stage, SEND.argv)
        with door.handing_on():
            done = attempt(
                backend,
                stage,
                _SWAP_HOOKS,
                effect=lambda _: (hooks / "pre-commit").exists(),
                reset=reset,
                capabilities=[f"filesystem:{rule}:${{workspace}}/.git"],
            )

    assert b"received" in done.result.stdout_bytes
    if backend.backend.name in _ENGINES:
        assert done.worked, "it is held by now: docs/limits.md, Denied directories in containers"
        pytest.xfail("docs/limits.md, Denied directories in containers")
    assert not done.worked


_ENGINES = frozenset({"docker", "podman"})


def _skip_where_there_is_no_such_area(case: Case, rule: str) -> None:
    if case.backend.name in _ENGINES and rule == "private":
        pytest.skip("engines refuse a private area in a granted path")
    if case.backend.name == "firejail" and rule == "private" and os.getuid() != 0:
        pytest.skip("firejail makes such an area for root alone")


@pytest.mark.parametrize(
    ("number", "flags"), [(0, os.O_RDONLY), (1, os.O_WRONLY | os.O_APPEND)], ids=["stdin", "stdout"]
)
def test_a_protected_file_that_the_caller_gives_stays_what_it_is(
    backend: Case, stage: Stage, number: int, flags: int
) -> None:
    """As by `corral run < .envrc`, or `>> .envrc`. What is printed is the caller's wish; nothing else is."""
    given, ran = stage.work / ".envrc", stage.work / "ran"
    given.write_text("export A=1\n")

    def reset() -> None:
        given.write_text("export A=1\n")
        ran.unlink()

    with redirected(number, given, flags):
        done = attempt(
            backend,
            stage,
            shell(f"touch ran; echo evil > /proc/self/fd/{number}; true"),
            effect=lambda _: not given.read_text().startswith("export A=1\n"),
            reset=reset,
            stdio=StdioMode.INHERIT,
        )

    assert ran.exists()
    assert not done.worked


_CHANGES = """
mkdir more; echo evil > more/new.sh; mv more deep/more
echo evil > deep/down/run.sh
rm deep/down/run.sh; echo evil > deep/down/run.sh
mv deep moved; mkdir -p deep/down; echo evil > deep/down/run.sh
"""


def test_what_fulfils_a_protected_pattern_is_neither_changed_nor_made(backend: Case, stage: Stage) -> None:
    program = stage.work / "deep/down/run.sh"

    def place() -> None:
        for name in ("deep", "moved", "more"):
            shutil.rmtree(stage.work / name, ignore_errors=True)
        program.parent.mkdir(parents=True)
        program.write_text("good")

    place()
    done = attempt(
        backend,
        stage,
        shell(_CHANGES),
        effect=lambda _: any("evil" in path.read_text() for path in stage.work.rglob("*.sh")),
        reset=place,
        capabilities=["filesystem:protect:*.sh"],
    )

    assert not done.worked
