"""Attacks on repositories that are not simply `.git` in the workspace: worktrees, submodules, links."""

from __future__ import annotations

import os

from corral.model.feature import Feature
from corral.selftest.attacks.git import HOOK, git_attack
from corral.selftest.judge import appeared, either, written
from corral.selftest.probe import EscapeProbe, where_mounted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.selftest.probe import Setup
    from corral.selftest.stage import Stage


def _nested(name: str) -> Setup:
    def setup(stage: Stage) -> None:
        stage.repository()
        stage.repository(f"ws/{name}")

    return setup


def _head_alone(stage: Stage) -> None:
    stage.write("ws/HEAD", "ref: refs/heads/main\n")


def _linked_worktree(stage: Stage) -> None:
    """The workspace is a linked worktree of a repository that lies outside."""
    stage.repository("out/main")
    private = "out/main/.git/worktrees/wt"
    stage.write(f"{private}/gitdir", stage.at("ws/.git") + "\n")
    stage.write(f"{private}/commondir", "../..\n")
    stage.write(f"{private}/HEAD", "ref: refs/heads/wt\n")
    stage.write("ws/.git", f"gitdir: {stage.at(private)}\n")


def _forged_worktree(stage: Stage) -> None:
    """A workspace below a directory called `worktrees`, prepared to look like a worktree of what is above."""
    above = "out/project"
    stage.workspace = stage.at(f"{above}/worktrees/ws")
    fake = f"{above}/worktrees/ws/fake"
    stage.write(f"{fake}/gitdir", f"{stage.workspace}/.git\n")
    stage.write(f"{fake}/commondir", stage.at(above) + "\n")
    stage.write(f"{above}/worktrees/ws/.git", f"gitdir: {stage.at(fake)}\n")


def _worktree_elsewhere(stage: Stage) -> None:
    """The workspace's repository has a linked worktree somewhere else on the host."""
    stage.repository()
    stage.write("ws/.git/worktrees/wt/commondir", "../..\n")
    stage.write("ws/.git/worktrees/wt/gitdir", stage.at("out/wt/.git") + "\n")


def _submodule(stage: Stage) -> None:
    stage.repository()
    stage.write("ws/.git/modules/sub/config", "[core]\n\tbare = false\n")
    stage.write("ws/sub/.git", "gitdir: ../.git/modules/sub\n")


def _link_for_git(stage: Stage) -> None:
    stage.repository(directory="gitdata")
    os.symlink("gitdata", stage.at("ws/.git"))


PROBES = (
    git_attack(
        "git-nested-repository",
        "Plant a hook in a repository below the workspace's own.",
        "B20",
        'cd a/b; mv .git .g2; mkdir -p .git/hooks; echo "$TOKEN" > .git/hooks/pre-commit;'
        ' cd ..; mv b c; mkdir -p b/.git/hooks; echo "$TOKEN" > b/.git/hooks/pre-commit',
        "ws/a/b/.git/hooks/pre-commit",
        _nested("a/b"),
    ),
    git_attack(
        "git-worktree-hooks",
        "From a linked worktree, plant a hook in the repository that it belongs to.",
        "corral (planning/resolved_policy.py)",
        'echo "$TOKEN" > "$OUT/main/.git/hooks/pre-commit"; echo "$TOKEN" >> "$OUT/main/.git/config"',
        ("out/main/.git/hooks/pre-commit", "out/main/.git/config"),
        _linked_worktree,
    ),
    git_attack(
        "git-worktree-pointer",
        "Point the .git file of a linked worktree at a repository of one's own.",
        "B20, srt mandatory-deny-paths",
        'echo "gitdir: evil-$TOKEN" > .git; rm -f .git; echo "gitdir: evil-$TOKEN" > .git; sleep 0.1',
        "ws/.git",
        _linked_worktree,
    ),
    git_attack(
        "git-worktree-commondir",
        "Redirect another worktree, elsewhere on the host, to a configuration of one's own.",
        "corral",
        'echo "evil-$TOKEN" > .git/worktrees/wt/commondir; mv .git/worktrees .git/w2;'
        " mkdir -p .git/worktrees/wt;"
        ' echo "evil-$TOKEN" > .git/worktrees/wt/commondir',
        "ws/.git/worktrees/wt/commondir",
        _worktree_elsewhere,
    ),
    EscapeProbe(
        "git-submodule",
        "Point a submodule elsewhere, or change its configuration in .git/modules.",
        Feature.FS_PROTECT,
        "B20",
        'echo "$TOKEN" >> .git/modules/sub/config; echo "gitdir: evil-$TOKEN" > sub/.git;'
        " mv sub s2; mkdir -p sub;"
        ' echo "gitdir: evil-$TOKEN" > sub/.git',
        either(written("ws/.git/modules/sub/config"), written("ws/sub/.git")),
        _submodule,
    ),
    git_attack(
        "git-linked-directory",
        "Where .git is a symbolic link, plant the hook in the directory that it leads to.",
        "corral (planning/protect.py)",
        'echo "$TOKEN" > gitdata/hooks/pre-commit; mv gitdata g2; mkdir -p gitdata/hooks;'
        ' echo "$TOKEN" > gitdata/hooks/pre-commit',
        HOOK,
        _link_for_git,
    ),
    EscapeProbe(
        "git-forged-worktree",
        "Come as a workspace that claims to be a worktree of the project above it, to get that as well.",
        Feature.FS_WRITE,
        "corral (planning/git.py)",
        'echo "$TOKEN" > "$OUT/project/pwn"',
        written("out/project/pwn"),
        _forged_worktree,
    ),
    git_attack(
        "git-deep-repository",
        "Plant a hook in a repository that lies deep in the workspace.",
        "corral (planning/protect.py)",
        'echo "$TOKEN" > a/b/c/d/e/.git/hooks/pre-commit',
        "ws/a/b/c/d/e/.git/hooks/pre-commit",
        _nested("a/b/c/d/e"),
    ),
    git_attack(
        "git-repository-around-a-head",
        "Make a repository of the workspace itself, in which a file named HEAD was already.",
        "corral (planning/protect.py)",
        'mkdir -p objects refs hooks; printf "[core]\\nfsmonitor = $TOKEN\\n" > config; sleep 0.1',
        "ws/objects",
        _head_alone,
        guarded=True,
    ).replace(judge=appeared("ws/objects")),
    git_attack(
        "git-closed-directory",
        "Close the directory that holds a repository, so that the next run does not find it; then open it.",
        "corral (planning/protect.py)",
        'chmod 755 packages; echo "$TOKEN" > packages/inner/.git/hooks/pre-commit',
        "ws/packages/inner/.git/hooks/pre-commit",
        _nested("packages/inner"),
    ).replace(earlier="chmod 300 packages"),
    git_attack(
        "git-repository-among-packages",
        "Plant a hook in a repository inside node_modules, dist or target, where no one looks.",
        "corral (planning/protect.py)",
        'echo "$TOKEN" > node_modules/linked/.git/hooks/pre-commit',
        "ws/node_modules/linked/.git/hooks/pre-commit",
        _nested("node_modules/linked"),
    ).replace(limits=where_mounted("repositories among packages are documented as not looked for")),
    EscapeProbe(
        "git-new-nested-repository",
        "Make a repository with a hook in a directory of one's own, and wait for somebody to enter it.",
        Feature.FS_PROTECT,
        "B20",
        'mkdir -p lib/.git/hooks; echo "$TOKEN" > lib/.git/hooks/pre-commit',
        written("ws/lib/.git/hooks/pre-commit"),
    ),
)
