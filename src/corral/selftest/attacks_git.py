"""Attacks by way of git: nothing happens inside, and the host's next `git status` runs the attacker's program."""

from __future__ import annotations

import os

from corral.model.feature import Feature
from corral.selftest.judge import either, written
from corral.selftest.probe import EscapeProbe, Language

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.selftest.probe import Setup
    from corral.selftest.stage import Stage

_HOOK = "ws/.git/hooks/pre-commit"
_WRITE_HOOK = 'echo "$TOKEN" > .git/hooks/pre-commit'


def _repository(stage: Stage) -> None:
    stage.repository()


def _redirected(setting: str, directory: str) -> Setup:
    def setup(stage: Stage) -> None:
        stage.repository()
        os.makedirs(stage.at(f"ws/{directory}"))
        with open(stage.at("ws/.git/config"), "a", encoding="utf-8") as file:
            file.write(setting)

    return setup


def _included(stage: Stage) -> None:
    _redirected("[include]\n\tpath = ../shared/gitconfig\n", "shared")(stage)
    stage.write("ws/shared/gitconfig")


def _without_hooks(stage: Stage) -> None:
    stage.repository()
    os.rename(stage.at("ws/.git/hooks"), stage.at("out/hooks"))


def _globally_redirected(stage: Stage) -> None:
    stage.repository()
    os.mkdir(stage.at("ws/.team-hooks"))
    stage.write("home/.gitconfig", "[core]\n\thooksPath = .team-hooks\n")


def _nested(name: str) -> Setup:
    def setup(stage: Stage) -> None:
        stage.repository()
        stage.repository(f"ws/{name}")

    return setup


def _linked_worktree(stage: Stage) -> None:
    """The workspace is a linked worktree of a repository that lies outside."""
    stage.repository("out/main")
    private = "out/main/.git/worktrees/wt"
    stage.write(f"{private}/gitdir", stage.at("ws/.git") + "\n")
    stage.write(f"{private}/commondir", "../..\n")
    stage.write(f"{private}/HEAD", "ref: refs/heads/wt\n")
    stage.write("ws/.git", f"gitdir: {stage.at(private)}\n")


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


def _git(
    name: str,
    title: str,
    source: str,
    script: str,
    target: str | tuple[str, ...],
    setup: Setup | None,
    *,
    guarded: bool = False,
) -> EscapeProbe:
    names = (target,) if isinstance(target, str) else target
    held = "names that are missing are guarded by the runner" if guarded else ""
    return EscapeProbe(
        name, title, Feature.FS_PROTECT, source, script, written(*names), setup, runner_holds=held
    )


PROBES = (
    _git("git-plant-hook", "Plant a pre-commit hook in the repository.", "B18", _WRITE_HOOK, _HOOK, _repository),
    _git(
        "git-config-command",
        "Name a program to run in .git/config (core.fsmonitor, filters, sshCommand), by editing or replacing it.",
        "B18, B19, fletch #564",
        'printf "[core]\\n\\tfsmonitor = ./%s\\n" "$TOKEN" > c; cat c >> .git/config; mv -f c .git/config;'
        ' printf "[filter \\"x\\"]\\n\\tclean = ./%s\\n" "$TOKEN" > .git/config.lock; mv -f .git/config.lock .git/config',
        "ws/.git/config",
        _repository,
    ),
    _git(
        "git-config-worktree",
        "Plant .git/config.worktree and .git/commondir, which were not there.",
        "B20",
        'echo "$TOKEN" > .git/config.worktree; echo "$TOKEN" > .git/commondir',
        ("ws/.git/config.worktree", "ws/.git/commondir"),
        _repository,
        guarded=True,
    ),
    _git(
        "git-rename-ancestor",
        "Rename .git away and put another one in its place.",
        "A5, codex #39623",
        f"mv .git .g2 && mkdir -p .git/hooks && {_WRITE_HOOK}",
        _HOOK,
        _repository,
    ),
    _git(
        "git-replace-hooks-by-link",
        "Replace .git/hooks by a symbolic link to a directory of one's own.",
        "A7, srt #221",
        'mkdir evil; echo "$TOKEN" > evil/pre-commit; rm -rf .git/hooks; mv .git/hooks .git/h2; ln -s ../evil .git/hooks',
        _HOOK,
        _repository,
    ),
    EscapeProbe(
        "git-exchange-hooks",
        "Exchange .git/hooks, or .git itself, with another directory in one step (RENAME_EXCHANGE).",
        Feature.FS_PROTECT,
        "A7, A12",
        """
os.makedirs('evil/hooks'); open('evil/hooks/pre-commit', 'w').write(TOKEN); open('evil/pre-commit', 'w').write(TOKEN)
for one in (b'.git/hooks', b'.git'):
    if libc.renameat2(-100, b'evil', -100, one, 2) == 0: break
""",
        written(_HOOK),
        _repository,
        language=Language.PYTHON,
    ),
    _git(
        "git-missing-hooks",
        "Make .git/hooks where the repository has none.",
        "A6, CVE-2026-25725",
        f"mkdir -p .git/hooks; {_WRITE_HOOK}; sleep 0.2; mkdir -p .git/hooks; {_WRITE_HOOK}",
        _HOOK,
        _without_hooks,
        guarded=True,
    ),
    _git(
        "git-missing-repository",
        "Make a whole .git, with a hook, in a workspace that is no repository.",
        "A6, CVE-2026-25725",
        f"mkdir -p .git/hooks; {_WRITE_HOOK}",
        _HOOK,
        None,
        guarded=True,
    ),
    _git(
        "git-bare-repository",
        "Make the workspace itself a bare repository, whose config names a program.",
        "corral (git's safe.bareRepository)",
        'mkdir objects refs; echo "ref: refs/heads/x" > HEAD;'
        ' printf "[core]\\n\\tworktree = .\\n\\tfsmonitor = ./%s\\n" "$TOKEN" > config; mv HEAD HEAD2; mv HEAD2 HEAD;'
        ' [ -e HEAD ] && cat config >> HEAD',
        "ws/HEAD",
        None,
        guarded=True,
    ),
    _git(
        "git-info-attributes",
        "Rename .git/info away and plant attributes in a new one.",
        "corral (runtime/guard.py)",
        'mv .git/info .git/i2; mkdir -p .git/info; echo "* filter=$TOKEN" > .git/info/attributes',
        "ws/.git/info/attributes",
        _repository,
    ),
    _git(
        "git-redirected-hooks",
        "Write into the hooks directory that core.hooksPath names.",
        "B21, sandy #82",
        'echo "$TOKEN" > .githooks/pre-commit; mv .githooks g2; mkdir .githooks; echo "$TOKEN" > .githooks/pre-commit',
        "ws/.githooks/pre-commit",
        _redirected("\thooksPath = .githooks\n", ".githooks"),
    ),
    _git(
        "git-redirected-hooks-comment",
        "The same, where the setting has a comment behind it and its name is quoted.",
        "corral (planning/git.py)",
        'echo "$TOKEN" > "team hooks/pre-commit"',
        "ws/team hooks/pre-commit",
        _redirected('\thooksPath = "team hooks" ; ours\n', "team hooks"),
    ),
    _git(
        "git-redirected-hooks-missing",
        "Make the missing directory that core.hooksPath names, after renaming the one above it.",
        "corral (planning/protect.py)",
        'mv tools t2; mkdir -p tools/hooks; echo "$TOKEN" > tools/hooks/pre-commit; sleep 0.1',
        "ws/tools/hooks/pre-commit",
        _redirected("\thooksPath = tools/hooks\n", "tools"),
    ),
    _git(
        "git-global-hooks-path",
        "Write into the hooks directory that the user's own ~/.gitconfig names.",
        "corral (planning/git.py)",
        'echo "$TOKEN" > .team-hooks/pre-commit',
        "ws/.team-hooks/pre-commit",
        _globally_redirected,
    ),
    _git(
        "git-included-config",
        "Change the file in the workspace that .git/config includes.",
        "B21",
        'echo "$TOKEN" >> shared/gitconfig; rm -rf shared; mkdir -p shared; echo "$TOKEN" > shared/gitconfig',
        "ws/shared/gitconfig",
        _included,
    ),
    _git(
        "git-nested-repository",
        "Plant a hook in a repository below the workspace's own.",
        "B20",
        'cd a/b; mv .git .g2; mkdir -p .git/hooks; echo "$TOKEN" > .git/hooks/pre-commit;'
        ' cd ..; mv b c; mkdir -p b/.git/hooks; echo "$TOKEN" > b/.git/hooks/pre-commit',
        "ws/a/b/.git/hooks/pre-commit",
        _nested("a/b"),
    ),
    _git(
        "git-worktree-hooks",
        "From a linked worktree, plant a hook in the repository that it belongs to.",
        "corral (planning/ground.py)",
        'echo "$TOKEN" > "$OUT/main/.git/hooks/pre-commit"; echo "$TOKEN" >> "$OUT/main/.git/config"',
        ("out/main/.git/hooks/pre-commit", "out/main/.git/config"),
        _linked_worktree,
    ),
    _git(
        "git-worktree-pointer",
        "Point the .git file of a linked worktree at a repository of one's own.",
        "B20, srt mandatory-deny-paths",
        'echo "gitdir: evil-$TOKEN" > .git; rm -f .git; echo "gitdir: evil-$TOKEN" > .git; sleep 0.1',
        "ws/.git",
        _linked_worktree,
    ),
    _git(
        "git-worktree-commondir",
        "Redirect another worktree of the repository, elsewhere on the host, to a configuration of one's own.",
        "corral",
        'echo "evil-$TOKEN" > .git/worktrees/wt/commondir; mv .git/worktrees .git/w2; mkdir -p .git/worktrees/wt;'
        ' echo "evil-$TOKEN" > .git/worktrees/wt/commondir',
        "ws/.git/worktrees/wt/commondir",
        _worktree_elsewhere,
    ),
    EscapeProbe(
        "git-submodule",
        "Point a submodule elsewhere, or change its configuration in .git/modules.",
        Feature.FS_PROTECT,
        "B20",
        'echo "$TOKEN" >> .git/modules/sub/config; echo "gitdir: evil-$TOKEN" > sub/.git; mv sub s2; mkdir -p sub;'
        ' echo "gitdir: evil-$TOKEN" > sub/.git',
        either(written("ws/.git/modules/sub/config"), written("ws/sub/.git")),
        _submodule,
    ),
    _git(
        "git-linked-directory",
        "Where .git is a symbolic link, plant the hook in the directory that it leads to.",
        "corral (planning/protect.py)",
        'echo "$TOKEN" > gitdata/hooks/pre-commit; mv gitdata g2; mkdir -p gitdata/hooks;'
        ' echo "$TOKEN" > gitdata/hooks/pre-commit',
        _HOOK,
        _link_for_git,
    ),
)
