"""Attacks by way of git: nothing happens inside, and the host's next `git status` runs a program."""

from __future__ import annotations

import os

from corral.model.feature import Feature
from corral.selftest.judge import written
from corral.selftest.probe import EscapeProbe, Language

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.selftest.probe import Setup
    from corral.selftest.stage import Stage

HOOK = "ws/.git/hooks/pre-commit"
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


def _included_hooks(stage: Stage) -> None:
    _redirected("[include]\n\tpath = ../shared\n", ".team-hooks")(stage)
    stage.write("ws/shared", "[core]\n\thooksPath = .team-hooks\n")


def _named_program(stage: Stage) -> None:
    setting = '[filter "x"]\n\tclean = ./tools/clean.sh\n[core]\n\tfsmonitor = tools/clean.sh\n'
    _redirected(setting, "tools")(stage)
    stage.write("ws/tools/clean.sh", "#!/bin/sh\ncat\n", mode=0o755)


def _without_hooks(stage: Stage) -> None:
    stage.repository()
    os.rename(stage.at("ws/.git/hooks"), stage.at("out/hooks"))


def _globally_redirected(stage: Stage) -> None:
    stage.repository()
    os.mkdir(stage.at("ws/.team-hooks"))
    stage.write("home/.gitconfig", "[core]\n\thooksPath = .team-hooks\n")


def git_attack(  # noqa: PLR0917 (the fields of a probe, in their order)
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
    git_attack(
        "git-plant-hook",
        "Plant a pre-commit hook in the repository.",
        "B18",
        _WRITE_HOOK,
        HOOK,
        _repository,
    ),
    git_attack(
        "git-config-command",
        "Name a program to run in .git/config (core.fsmonitor, a filter), by editing or replacing it.",
        "B18, B19, fletch #564",
        'printf "[core]\\n\\tfsmonitor = ./%s\\n" "$TOKEN" > c; cat c >> .git/config; mv -f c .git/config;'
        ' printf "[filter \\"x\\"]\\n\\tclean = ./%s\\n" "$TOKEN" > .git/config.lock;'
        " mv -f .git/config.lock .git/config",
        "ws/.git/config",
        _repository,
    ),
    git_attack(
        "git-config-worktree",
        "Plant .git/config.worktree and .git/commondir, which were not there.",
        "B20",
        'echo "$TOKEN" > .git/config.worktree; echo "$TOKEN" > .git/commondir',
        ("ws/.git/config.worktree", "ws/.git/commondir"),
        _repository,
        guarded=True,
    ),
    git_attack(
        "git-rename-ancestor",
        "Rename .git away and put another one in its place.",
        "A5, codex #39623",
        f"mv .git .g2 && mkdir -p .git/hooks && {_WRITE_HOOK}",
        HOOK,
        _repository,
    ),
    git_attack(
        "git-replace-hooks-by-link",
        "Replace .git/hooks by a symbolic link to a directory of one's own.",
        "A7, srt #221",
        'mkdir evil; echo "$TOKEN" > evil/pre-commit; rm -rf .git/hooks; mv .git/hooks .git/h2;'
        " ln -s ../evil .git/hooks",
        HOOK,
        _repository,
    ),
    EscapeProbe(
        "git-exchange-hooks",
        "Exchange .git/hooks, or .git itself, with another directory in one step (RENAME_EXCHANGE).",
        Feature.FS_PROTECT,
        "A7, A12",
        """
os.makedirs('evil/hooks'); open('evil/pre-commit', 'w').write(TOKEN)
open('evil/hooks/pre-commit', 'w').write(TOKEN)
for one in (b'.git/hooks', b'.git'):
    if libc.renameat2(-100, b'evil', -100, one, 2) == 0: break
""",
        written(HOOK),
        _repository,
        language=Language.PYTHON,
    ),
    git_attack(
        "git-missing-hooks",
        "Make .git/hooks where the repository has none.",
        "A6, CVE-2026-25725",
        f"mkdir -p .git/hooks; {_WRITE_HOOK}; sleep 0.2; mkdir -p .git/hooks; {_WRITE_HOOK}",
        HOOK,
        _without_hooks,
        guarded=True,
    ),
    git_attack(
        "git-missing-repository",
        "Make a whole .git, with a hook, in a workspace that is no repository.",
        "A6, CVE-2026-25725",
        f"mkdir -p .git/hooks; {_WRITE_HOOK}",
        HOOK,
        None,
        guarded=True,
    ),
    git_attack(
        "git-bare-repository",
        "Make the workspace itself a bare repository, whose config names a program.",
        "corral (git's safe.bareRepository)",
        'mkdir objects refs; echo "ref: refs/heads/x" > HEAD;'
        ' printf "[core]\\n\\tworktree = .\\n\\tfsmonitor = ./%s\\n" "$TOKEN" > config;'
        " mv HEAD HEAD2; mv HEAD2 HEAD;"
        " [ -e HEAD ] && cat config >> HEAD",
        "ws/HEAD",
        None,
        guarded=True,
    ),
    git_attack(
        "git-info-attributes",
        "Rename .git/info away and plant attributes in a new one.",
        "corral (protected_names/guard.py)",
        'mv .git/info .git/i2; mkdir -p .git/info; echo "* filter=$TOKEN" > .git/info/attributes',
        "ws/.git/info/attributes",
        _repository,
    ),
    git_attack(
        "git-redirected-hooks",
        "Write into the hooks directory that core.hooksPath names.",
        "B21, sandy #82",
        'echo "$TOKEN" > .githooks/pre-commit; mv .githooks g2; mkdir .githooks;'
        ' echo "$TOKEN" > .githooks/pre-commit',
        "ws/.githooks/pre-commit",
        _redirected("\thooksPath = .githooks\n", ".githooks"),
    ),
    git_attack(
        "git-redirected-hooks-comment",
        "The same, where the setting has a comment behind it and its name is quoted.",
        "corral (planning/git.py)",
        'echo "$TOKEN" > "team hooks/pre-commit"',
        "ws/team hooks/pre-commit",
        _redirected('\thooksPath = "team hooks" ; ours\n', "team hooks"),
    ),
    git_attack(
        "git-redirected-hooks-missing",
        "Make the missing directory that core.hooksPath names, after renaming the one above it.",
        "corral (planning/protect.py)",
        'mv tools t2; mkdir -p tools/hooks; echo "$TOKEN" > tools/hooks/pre-commit; sleep 0.1',
        "ws/tools/hooks/pre-commit",
        _redirected("\thooksPath = tools/hooks\n", "tools"),
    ),
    git_attack(
        "git-global-hooks-path",
        "Write into the hooks directory that the user's own ~/.gitconfig names.",
        "corral (planning/git.py)",
        'echo "$TOKEN" > .team-hooks/pre-commit',
        "ws/.team-hooks/pre-commit",
        _globally_redirected,
    ),
    git_attack(
        "git-included-config",
        "Change the file in the workspace that .git/config includes.",
        "B21",
        'echo "$TOKEN" >> shared/gitconfig; rm -rf shared; mkdir -p shared; echo "$TOKEN" > shared/gitconfig',
        "ws/shared/gitconfig",
        _included,
    ),
    git_attack(
        "git-included-hooks-path",
        "Write into the hooks directory that a file names which .git/config includes.",
        "corral (planning/git.py)",
        'echo "$TOKEN" > .team-hooks/pre-commit',
        "ws/.team-hooks/pre-commit",
        _included_hooks,
    ),
    git_attack(
        "git-named-program",
        "Change a script in the workspace that .git/config names as filter and fsmonitor.",
        "corral (planning/git.py)",
        'echo "$TOKEN" >> tools/clean.sh; mv tools t2; mkdir -p tools; echo "$TOKEN" > tools/clean.sh',
        "ws/tools/clean.sh",
        _named_program,
    ),
)
