"""Attacks that wait: the command ends, and the host's next git command follows, or runs, what it has left."""

from __future__ import annotations

import os

from corral.selftest.attacks.git import git_attack
from corral.selftest.judge import vanished

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.selftest.probe import Judge
    from corral.selftest.stage import Stage

_SOURCE = "corral (git_check/check.py)"
_HEAD = "ws/.git/HEAD"


def _repository(stage: Stage) -> None:
    stage.repository()
    stage.write("ws/.git/logs/HEAD", "")


def _link(*names: str) -> Judge:
    """One of the names is a link."""

    def judge(stage: Stage, _output: str) -> str:
        found = [name for name in names if os.path.islink(stage.at(name))]
        return f"{found[0]} is a link" if found else ""

    return judge


PROBES = (
    git_attack(
        "git-links-out",
        "Make files that git writes to (its log, its message, a directory of refs) links to files outside.",
        _SOURCE,
        'ln -sf "$OUT/secret" .git/logs/HEAD; ln -sf "$OUT/secret" .git/COMMIT_EDITMSG;'
        ' ln -s "$OUT" .git/refs/heads',
        "ws/.git/logs/HEAD",
        _repository,
        guarded=True,
    ).replace(judge=_link("ws/.git/logs/HEAD", "ws/.git/COMMIT_EDITMSG", "ws/.git/refs/heads")),
    git_attack(
        "git-rebase-steps",
        "Leave a rebase whose next step is a command, for `git rebase --continue`.",
        _SOURCE,
        'mkdir .git/rebase-merge; echo "exec ./$TOKEN" > .git/rebase-merge/git-rebase-todo',
        "ws/.git/rebase-merge/git-rebase-todo",
        _repository,
        guarded=True,
    ),
    git_attack(
        "git-old-remote",
        "Name a repository of one's own, with hooks, as the place to push to, as git did before 1.5.",
        _SOURCE,
        'mkdir -p .git/remotes; echo "URL: ./$TOKEN" > .git/remotes/origin',
        "ws/.git/remotes/origin",
        _repository,
        guarded=True,
    ),
    git_attack(
        "git-foreign-worktree",
        "Register a directory outside as a worktree: `git worktree repair` writes a .git there.",
        _SOURCE,
        'mkdir -p .git/worktrees/x; echo "$OUT/$TOKEN/.git" > .git/worktrees/x/gitdir',
        "ws/.git/worktrees/x/gitdir",
        _repository,
        guarded=True,
    ),
    git_attack(
        "git-nested-settings",
        "Make a repository whose configuration names a program, for `git status` to enter as a submodule.",
        _SOURCE,
        'mkdir -p sub/.git/objects sub/.git/refs; echo "ref: refs/heads/x" > sub/.git/HEAD;'
        ' printf "[core]\\n\\tfsmonitor = ./%s\\n" "$TOKEN" > sub/.git/config',
        "ws/sub/.git/config",
        _repository,
        guarded=True,
    ),
    git_attack(
        "git-broken-repository",
        "Break the repository, so that git works in the one above it.",
        _SOURCE,
        "rm .git/HEAD",
        _HEAD,
        _repository,
        guarded=True,
    ).replace(judge=vanished(_HEAD)),
)
