"""Links, marks and repositories that an earlier command left behind open nothing to a later one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.stories import corral, home, plant, user_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.stories import Run

__all__ = ["corral", "home"]  # fixtures


def git(*words: str, cwd: Path) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@localhost", *words],
        cwd=cwd,
        check=True,
        capture_output=True,
    )


@pytest.mark.parametrize(
    "trick", ["rm -rf bin; ln -s {home}/.ssh bin", "ln -s {home}/.ssh lib", "ln -s {home}/.ssh versions"]
)
def test_a_tool_directory_that_was_a_workspace_shows_nothing_else(
    corral: Run, home: Path, trick: str
) -> None:
    (home / ".dotfiles" / "bin").mkdir(parents=True)
    path = {"PATH": f"{home}/.dotfiles/bin:{os.environ['PATH']}"}
    plant(corral, trick.format(home=home), cwd=".dotfiles", **path)

    done = corral("run", "-c", f"echo alive; cat {home}/.ssh/key", **path)

    assert done.stdout == b"alive\n", done.stderr


def test_the_marks_of_an_installation_show_no_project(corral: Run, home: Path) -> None:
    user_file(home, denied_paths=["${workspace}/.env"])
    (home / "ws" / ".env").write_text("SECRET KEY")
    (home / "ws" / "bin").mkdir()
    (home / "other").mkdir()
    path = {"PATH": f"{home}/ws/bin:{os.environ['PATH']}"}
    forge = "touch pyvenv.cfg; ln -s . share; mkdir -p lib/python3.11; touch bin/python lib/python3.11/os.py"
    plant(corral, forge, **path)
    (home / "other" / ".venv" / "bin").mkdir(parents=True)
    (home / "other" / ".env").write_text("x")
    plant(corral, f"ln -s {home}/ws/bin/python .venv/bin/python", cwd="other", **path)

    done = corral("run", "-c", f"echo alive; cat {home}/ws/.env", cwd="other", **path)

    assert done.stdout == b"alive\n", done.stderr


@pytest.mark.parametrize("gone", ["the table", "the file"])
def test_trust_does_not_come_back_with_what_was_taken_out(corral: Run, home: Path, gone: str) -> None:
    file = home / "ws" / "pyproject.toml"
    trusted = f'[tool.corral.sandbox]\nreadonly_paths = ["{home}/.ssh"]\n'
    file.write_text(trusted)
    assert corral("policy", "trust", "--yes").returncode == 0
    assert b"SECRET KEY" in corral("run", "--", "cat", f"{home}/.ssh/key").stdout
    file.write_text('[project]\nname = "x"\n') if gone == "the table" else file.unlink()
    assert b"SECRET KEY" not in corral("run", "--", "cat", f"{home}/.ssh/key").stdout

    plant(corral, f"cat > pyproject.toml <<'END'\n{trusted}END")

    assert b"SECRET KEY" not in corral("run", "--", "cat", f"{home}/.ssh/key").stdout


@pytest.mark.parametrize("target", [".git/hooks", "vendor"])
@pytest.mark.parametrize("options", [(), ("-p", "strict", "--write", "build")])
def test_a_writable_path_that_became_a_link_is_not_followed(
    corral: Run, home: Path, target: str, options: tuple[str, ...]
) -> None:
    ws = home / "ws"
    for name in ("build", "vendor"):
        (ws / name).mkdir()
    user_file(home, readwrite_paths=["${workspace}/build"], readonly_paths=["${workspace}/vendor"])
    corral("run", "-c", f"mv build b; ln -s {target} build")
    if not (ws / "build").is_symlink():  # it is a mount point of its own: then there is nothing to plant
        (ws / "build").rmdir()
        (ws / "build").symlink_to(target)

    corral("run", *options, "-c", f"echo alive; echo evil > {target}/planted; echo evil > build/planted")

    assert not (ws / target / "planted").exists()


def test_a_path_in_a_writable_one_that_became_a_link_is_not_followed(corral: Run, home: Path) -> None:
    """Outside the workspace as well: what is granted twice over is no mount, and can be replaced."""
    (home / "data" / "out").mkdir(parents=True)
    user_file(home, readwrite_paths=["~/data", "~/data/out"])
    plant(corral, f"rmdir {home}/data/out; ln -s {home}/.ssh {home}/data/out")

    done = corral("run", "-c", f"cat {home}/.ssh/key; echo evil > {home}/.ssh/planted")

    assert b"SECRET KEY" not in done.stdout and not (home / ".ssh" / "planted").exists()


def test_a_readable_path_by_the_name_of_a_link_outlives_the_link(corral: Run, home: Path) -> None:
    ws = home / "ws"
    (ws / "third").mkdir()
    (ws / "vendor").symlink_to("third")
    user_file(home, readonly_paths=["${workspace}/vendor"])

    corral("run", "-c", "rm vendor; mkdir o; ln -s o vendor")
    done = corral("run", "-c", "echo alive; echo evil > third/planted")

    assert done.stdout == b"alive\n" and not (ws / "third" / "planted").exists()


@pytest.fixture
def hooked(home: Path) -> Path:
    """A repository whose configuration has its hooks in the worktree, with a commit."""
    ws = home / "ws"
    (ws / "tools" / "hooks").mkdir(parents=True)
    (ws / "tools" / "hooks" / "pre-commit").write_text("#!/bin/sh\n")
    git("add", "-A", cwd=ws)
    git("commit", "-qm", "x", cwd=ws)
    git("config", "core.hooksPath", "tools/hooks", cwd=ws)
    return ws


@pytest.mark.parametrize("where", ["ws", "ws/tools", "wt", "ws/nested"])
def test_hooks_in_a_worktree_are_held_wherever_the_configuration_is(
    corral: Run, home: Path, hooked: Path, where: str
) -> None:
    for name in ("wt", "ws/nested"):
        git("worktree", "add", "-q", "--detach", str(home / name), cwd=hooked)
    top = home / where if where != "ws/tools" else hooked
    cwd = where if where != "ws/nested" else "ws"
    hook = top / "tools" / "hooks" / "pre-commit"

    corral("run", "-c", f"echo evil >> {hook}; echo evil > {hook.parent}/post-commit", cwd=cwd)

    assert hook.read_text() == "#!/bin/sh\n"
    assert not (hook.parent / "post-commit").exists()


def test_a_repository_beside_its_worktree_is_held_too(corral: Run, home: Path) -> None:
    """`.git` is a file that leads to it, in the same workspace."""
    ws = home / "apart"
    git("init", "-q", f"--separate-git-dir={ws}/.repo", str(ws), cwd=home)
    before = (ws / ".repo" / "config").read_bytes()

    corral("run", "-c", "echo evil > .repo/hooks/pre-commit; echo evil >> .repo/config", cwd="apart")

    assert not (ws / ".repo" / "hooks" / "pre-commit").exists()
    assert (ws / ".repo" / "config").read_bytes() == before
    done = corral("run", "-c", "touch x && git add x && git status --short", cwd="apart")
    assert done.stdout.startswith(b"A  x\n"), done.stderr


def test_a_hook_that_is_a_link_holds_what_it_leads_to(corral: Run, home: Path) -> None:
    ws = home / "ws"
    (ws / "check.sh").write_text("#!/bin/sh\n")
    (ws / ".git" / "hooks" / "pre-commit").symlink_to("../../check.sh")

    corral("run", "-c", "echo evil >> check.sh")

    assert (ws / "check.sh").read_text() == "#!/bin/sh\n"


def test_a_link_below_does_not_become_the_workspace(corral: Run, home: Path) -> None:
    (home / "ws" / "sub").symlink_to(home / ".ssh")

    assert corral("run", "--cwd", "sub", "--", "touch", "planted").returncode == 2
    assert corral("run", "--", "touch", "planted", cwd=".ssh").returncode == 2
    assert not (home / ".ssh" / "planted").exists()


def test_a_tool_that_bypasses_finds_no_planted_interpreter(corral: Run, home: Path) -> None:
    tool = home / "tools" / "mytool"
    tool.parent.mkdir()
    tool.write_text("#!/usr/bin/env planted-python\n")
    tool.chmod(0o755)
    user_file(home, bypass_tools=[str(tool)])
    (home / "ws" / "bin").mkdir()
    (home / "ws" / "sub").mkdir()
    path = {"PATH": f"{home}/ws/bin:{home}/tools:{os.environ['PATH']}"}
    plant(
        corral,
        f"printf '#!/bin/sh\\ncat {home}/.ssh/key' > bin/planted-python; chmod +x bin/planted-python",
        **path,
    )

    done = corral("run", "--", "mytool", cwd="ws/sub", **path)

    assert b"SECRET KEY" not in done.stdout
