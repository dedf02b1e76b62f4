"""A repository with a history, its remote, a user's home, and files outside that nobody may touch.

It is made once and copied for each test: a copy takes a hundredth of the time. It has few files for the same
reason: no samples of hooks, and objects are packed.

    world/ws           the workspace: branches main, topic, and other, which conflicts; a tag, a stash
    world/remote.git   its `origin`, which is one commit ahead
    world/lib.git      that of the submodules `vendor/ready`, and `vendor/lib` and `vendor/more`, which are in
                       the index and not initialised
    world/home         ~/.gitconfig with a name, an address and an editor
    world/out/TRAP     what a trap aims at: `startup`, `dir`, `empty`, and a program to be run
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from support.git_trap import script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from support.git_trap import Trap

#: As in a shell that somebody has just opened; no program of the workspace is on it.
PATH = "/usr/local/bin:/usr/bin:/bin"
#: Where the template stood: absolute names in it are written anew in every copy.
PLACE = "/place-of-the-template"
#: What no trap may change; a prefix of every program that no command may run.
ORIGINAL, EVIL = "original\n", "evil-"

_GITCONFIG = """\
[user]
	name = A Person
	email = person@localhost
[core]
	editor = true
	fsync = none
[init]
	defaultBranch = main
[pull]
	rebase = false
[protocol "file"]
	allow = always
"""
_HOOK = "#!/bin/sh\nexit 0\n"
_LIB = """
git init -q --template= --bare lib.git; git init -q --template= lib; cd lib
echo 1 > lib.c; git add .; git commit -qm one; echo 2 > lib.c; git commit -qam two
git push -q ../lib.git main; cd ..
"""
_HISTORY = """
git init -q --template= --bare remote.git; git init -q --template= ws; cd ws
mkdir src tools; echo 'print(1)' > src/app.py; echo tool > tools/tool.txt
echo read > README; echo 1 > conflict.txt
git add .; git commit -qm 'first commit'; git tag v1
git branch topic; git branch other
git checkout -q other; echo other > conflict.txt; git commit -qam 'other side'
git checkout -q topic; echo topic > topic.txt; git add .; git commit -qm 'topic'
git checkout -q main; echo main > conflict.txt; git commit -qam 'main side'
git remote add origin PLACE/remote.git
one=$(git -C ../lib rev-parse main~1); two=$(git -C ../lib rev-parse main)
mkdir .git/modules; git clone -q --template= --separate-git-dir=.git/modules/ready ../lib.git vendor/ready
git -C vendor/ready checkout -q $one; echo 'gitdir: ../../.git/modules/ready' > vendor/ready/.git
git config -f .git/modules/ready/config core.worktree ../../../vendor/ready
git config -f .git/modules/ready/config remote.origin.url PLACE/lib.git
git config submodule.ready.url PLACE/lib.git; git config submodule.ready.active true
for name in lib more ready; do
    printf '[submodule "%s"]\\n\\tpath = vendor/%s\\n\\turl = ../lib.git\\n' $name $name >> .gitmodules
    mkdir -p vendor/$name; git update-index --add --cacheinfo 160000,$one,vendor/$name
done
git add .gitmodules; git commit -qm 'submodules'
git push -q ../remote.git main other topic v1
echo upstream > upstream.txt; git add .; git update-index --cacheinfo 160000,$two,vendor/lib
git update-index --cacheinfo 160000,$two,vendor/more
git commit -qm 'upstream'; git push -q ../remote.git main; git reset -q --hard HEAD~1
git update-ref refs/remotes/origin/main HEAD; git config branch.main.remote origin
git config branch.main.merge refs/heads/main
echo local > local.txt; git add .; git commit -qm 'local'
echo stashed >> README; git stash -q
cd ..; mv lib victim
for one in lib.git remote.git victim ws; do git -C $one repack -adq; git -C $one prune-packed; done
"""


def make_template(place: Path) -> Path:
    """Make everything but the victims below an empty directory."""
    home = place / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(_GITCONFIG)
    script = "set -e\n" + _LIB + _HISTORY.replace("PLACE", PLACE)
    environment = environment_of(place)
    subprocess.run(["/bin/sh", "-c", script], cwd=place, env=environment, check=True, capture_output=True)
    own = place / "ws/.git/hooks/pre-commit"
    own.parent.mkdir()
    own.write_text(_HOOK)  # the user's own: that it runs is no finding
    own.chmod(0o755)
    return place


def environment_of(root: Path) -> dict[str, str]:
    """The environment of the user: nothing of the developer who runs the tests is in it."""
    return {
        "HOME": str(root / "home"),
        "PATH": PATH,
        "LANG": "C.UTF-8",
        "TMPDIR": str(root / "tmp"),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
    }


#: Where the repository of the workspace is: in `.git`; in a directory beside it, to which `.git` is a pointer
#: or a link; elsewhere, the workspace being a linked worktree of it; nowhere, until a command makes it.
PLAIN, SEPARATE, LINK, LINKED, MADE = "plain", "separate", "link", "linked", "made"
_LAYOUTS = {
    PLAIN: (".git", "true"),
    SEPARATE: (".repository", "mv .git .repository; echo 'gitdir: .repository' > .git"),
    LINK: (".repository", "mv .git .repository; ln -s .repository .git"),
    LINKED: (
        "../main/.git",
        "git checkout -q --detach; cd ..; mv ws main; cd main; git worktree add -q ../ws main",
    ),
    MADE: (".git", "mv .git .made"),
}


class Stage:
    """One copy, owned by a user, with what the given traps aim at. It can be kept, and gone back to."""

    def __init__(
        self, place: Path, template: Path, traps: Iterable[Trap], uid: int, layout: str = PLAIN
    ) -> None:
        self.uid = uid
        self.is_spoilt = False  # something outside has changed
        self.root, self.logs, self._kept = place / "world", place / "logs", place / "kept"
        self.ws, self.out, self.home = (self.root / name for name in ("ws", "out", "home"))
        self.environment = environment_of(self.root)
        shutil.copytree(template, self.root, symlinks=True)
        for directory in (self.root / "tmp", self.logs):
            directory.mkdir()
        for config in (self.ws / ".git/config", self.ws / ".git/modules/ready/config"):
            config.write_text(config.read_text().replace(PLACE, str(self.root)))
        repository, arrange = _LAYOUTS[layout]
        subprocess.run(["/bin/sh", "-ec", arrange], cwd=self.ws, env=self.environment, check=True)
        self.repository = Path(os.path.normpath(self.ws / repository))  # that of all its worktrees
        for trap in traps:
            self._aim(self.out / trap.name, trap)
        if uid != os.geteuid():
            self._give_away()

    def _aim(self, place: Path, trap: Trap) -> None:
        """Make the victims of one trap, and the program that it would like to see run."""
        (place / "dir" / "inner").mkdir(parents=True)
        (place / "empty").mkdir()
        for name in ("startup", "dir/startup", "dir/inner/startup"):
            (place / name).write_text(ORIGINAL)
        program = place / f"{EVIL}{trap.name}"
        program.write_text(f'#!/bin/sh\necho "$@" >> "{place}/ran"\n')
        program.chmod(0o755)
        if trap.is_surrounded:
            subprocess.run(
                ["git", "init", "-q", "--template=", str(self.root)], env=self.environment, check=True
            )
        if trap.has_repository:
            shutil.copytree(self.root / "victim", place / "repository", symlinks=True)

    def _give_away(self) -> None:
        for top in (self.root, self.logs):
            for directory, folders, files in os.walk(top):
                for name in (".", *folders, *files):
                    os.chown(os.path.join(directory, name), self.uid, self.uid, follow_symlinks=False)

    def become(self) -> list[str]:
        """What to put before a command so that it runs as the user."""
        if self.uid == os.geteuid():
            return []
        return ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"]

    def plant(self, traps: Iterable[Trap]) -> str:
        """Plant traps unconfined; returns what was said of each."""
        argv = [*self.become(), interpreter(), "-I", "-S", "-c", script(traps), str(self.out)]
        done = subprocess.run(
            argv, cwd=self.ws, env=self.environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    def keep(self) -> None:
        """Remember everything as it is now. Pipes, sockets and owners too, which Python does not copy."""
        subprocess.run(["cp", "-a", str(self.root), str(self._kept)], check=True)

    def go_back(self) -> None:
        """Make everything as it was kept, under the same names: links lead to where they led."""
        changed = [self.ws, self.root / "remote.git"]
        if not self.repository.is_relative_to(self.ws):
            changed.append(self.repository.parent)
        if self.is_spoilt:
            changed += [self.out, self.home]
        subprocess.run(["rm", "-rf", *map(str, changed)], check=True)
        subprocess.run(
            ["cp", "-a", *(str(self._kept / path.name) for path in changed), str(self.root)], check=True
        )
        self.is_spoilt = False

    def edit(self) -> None:
        """What the user does in an editor between the command and git: README has a new line."""
        with open(os.open(self.ws / "README", os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW), "a") as file:
            file.write("a line of the user's\n")


def interpreter() -> str:
    """A Python that every user may run, inside of a sandbox as well."""
    return shutil.which("python3", path=PATH) or sys.executable
