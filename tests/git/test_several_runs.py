"""The same where one run is not enough: traps laid in two runs, beside another run, in a session.

Here is also what depends on the host: its settings, its user, and repositories that are its own, which
nothing that a command leaves may make corral change.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from corral.sandbox import Sandbox
from support.git_confined import confined, environment_of_corral, plant_confined, require_native, table
from support.git_trap import Trap, sprung
from support.git_watch import sit
from support.keeping import Keeper, python, wait_until

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.git_stage import Stage

    MakeStage = Callable[..., Stage]
    #: A trap whose code is planted in one run after the other, and what the user did before all.
    Story = tuple[Trap, tuple[str, ...], str]

ORDINARY = "ordinary"


def _story(
    name: str, *runs: str, commands: tuple[str, ...] = ("status",), host: str = "true", is_rare: bool = False
) -> object:
    story = (Trap(name, "", commands, has_repository=True), runs, host)
    return pytest.param(story, id=name, marks=[pytest.mark.thorough] if is_rare else [])


def _pointer(blank: str) -> tuple[str, str]:
    """A git directory whose name ends in a blank, and which the next run does not know."""
    return (
        f"nested('sub'); store = 'node_modules/store' + {blank!r}\n"
        "os.makedirs('node_modules'); os.rename('sub/.git', store)\n"
        "write('sub/.git', f'gitdir: {WS}/{store}\\n'); git('add', '-f', 'sub')",
        f"with open('node_modules/store' + {blank!r} + '/config', 'a') as file: file.write(MONITOR)",
    )


_IN_MODULE = (
    "nested('n'); nested('n/inner', MONITOR); nested('t'); os.makedirs('n/.git/modules')\n"
    "os.rename('t/.git', 'n/.git/modules/a'); os.rename('n/inner/.git', 'n/.git/modules/a/evil')\n"
    "clear('t'); git('add', '-f', 'n')",
    "write('n/inner/.git', 'gitdir: ../.git/modules/a/evil\\n')\n"
    "git('-c', 'core.fsmonitor=false', 'add', '-f', 'inner', cwd='n')",
)
#: The index has a directory for all that is in it, among that a repository; at first nothing is there.
_SPARSE = (
    "nested('x/node_modules/inner'); write('x/f', '1'); git('add', '-f', 'x'); git('commit', '-qm', 'x')\n"
    "for name in ('core.sparseCheckout', 'core.sparseCheckoutCone', 'index.sparse'):\n"
    "    git('config', name, 'true')\n"
    "write('.git/info/sparse-checkout', '/*\\n!/*/\\n/src/\\n'); clear('x')\n"
    "tree = bytes.fromhex(git('rev-parse', 'HEAD:x'))\n"
    "head = struct.pack('>10I', 0, 0, 0, 0, 0, 0, 0o40000, 0, 0, 0) + tree\n"
    "kept = [entry for entry in index_entries() if not entry[0].startswith(b'x/')]\n"
    "data = b'DIRC' + struct.pack('>II', 3, len(kept) + 1)\n"
    "for name, head in sorted([(b'x/', head), *kept]):\n"
    "    flags = (0x4000 | len(name), 0x4000) if name == b'x/' else (len(name),)\n"
    "    entry = head + struct.pack(f'>{len(flags)}H', *flags) + name\n"
    "    data += entry + bytes(8 - len(entry) % 8)\n"
    "data += b'sdir' + bytes(4); write('.git/index', data + hashlib.sha1(data).digest())",
    "nested('x/node_modules/inner', MONITOR)",
)
_ALTERNATES = (
    "write('.git/objects/info/alternates', '')",
    "write('same', '2\\n')\n"
    "with open('.git/objects/info/alternates', 'a') as file: file.write(f'{AIM}/repository/.git/objects\\n')",
)
_OBJECT = "known = git('hash-object', '--stdin', data=b'note\\n'); first, rest = known[:2], known[2:]\n"
_MOVED_LINK = (
    _OBJECT + "link(f'.git/objects/stage/{first}/{rest}', VICTIM)",
    _OBJECT + "os.rename(f'.git/objects/stage/{first}', f'.git/objects/{first}')",
)
_MOVED_OBJECTS = (
    _OBJECT + "link(f'stage/{first}/{rest}', VICTIM)",
    "nested('sub'); git('repack', '-adq', cwd='sub'); os.rename('sub/.git/objects/pack', 'stage/pack')\n"
    "clear('sub/.git/objects'); os.rename('stage', 'sub/.git/objects')",
)
#: Git takes a file there for refs, if it may be executed.
_NO_REFS = (
    "nested('sub', MONITOR); git('-c', 'core.fsmonitor=false', 'add', '-f', 'sub')\n"
    "git('checkout', '-q', '--detach'); git('pack-refs', '--all')\n"
    "clear('.git/refs'); write('.git/refs', '', 0o755)"
)
#: Where the repository's own setting says that hooks are, and it holds in every worktree.
_OWN_HOOKS = """
mkdir .githooks; printf '#!/bin/sh\\n' > .githooks/pre-push; chmod 755 .githooks/pre-push
git add .githooks; git commit -qm hooks; git config core.hooksPath .githooks
"""
_HOOKS_IN_WORKTREE = (
    "git('worktree', 'add', '-q', '--detach', 'wt')\n"
    "for name in ('post-index-change', 'pre-commit'): write(f'wt/.githooks/{name}', HOOK, 0o755)\n"
    "git('-c', 'core.hooksPath=/dev/null', 'add', '-f', 'wt'); os.utime('wt/README', (0, 0))"
)
_HOOKS_BEHIND_LINK = (
    "os.environ.update(GIT_CONFIG_COUNT='1', GIT_CONFIG_KEY_0='core.hooksPath', GIT_CONFIG_VALUE_0='/none')\n"
    "nested('sub'); write('hooks-of-sub/post-index-change', HOOK, 0o755)\n"
    "link('sub/.githooks', '../hooks-of-sub'); git('add', '-f', 'sub'); os.utime('sub/file', (0, 0))"
)
#: Where the plan does not look: a repository that is clean at first; one that is put together of old parts.
_LATER_AMONG_PACKAGES = (
    "nested('node_modules/later')",
    "with open('node_modules/later/.git/config', 'a') as file: file.write(MONITOR)\n"
    "git('-c', 'core.fsmonitor=', 'add', '-f', 'node_modules/later')",
)
_OLD_PARTS = (
    "nested('node_modules/old', MONITOR); os.rename('node_modules/old/.git', 'node_modules/old/parts')\n"
    "os.rename('node_modules/old/parts/HEAD', 'node_modules/old/HEAD')",
    "os.rename('node_modules/old/HEAD', 'node_modules/old/parts/HEAD')\n"
    "os.rename('node_modules/old/parts', 'node_modules/old/.git')",
)
#: Who keeps settings in a repository works there, too: the files that git reads everywhere are links to it.
_OWN_SETTINGS = "mkdir dot; mv ~/.gitconfig dot/gitconfig; ln -s $PWD/dot/gitconfig ~/.gitconfig"
STORIES = [
    _story(
        "settings-of-the-user",
        "try: write('dot/gitconfig', MONITOR)\nexcept OSError: pass",
        host=_OWN_SETTINGS,
    ),
    _story(
        "templates-of-the-user",
        "try: write('tpl/hooks/post-commit', HOOK, 0o755)\nexcept OSError: pass",  # it may be gone by then
        commands=("init new", "-C new commit --allow-empty -m empty"),
        host="git config --global init.templateDir $PWD/tpl",
    ),
    _story(
        "hooks-of-bare-in-their-own-place",
        "write('far/own.git/mine/pre-receive', HOOK, 0o755)",
        commands=("push far/own.git main",),
        host="git init -q --bare far/own.git; git -C far/own.git config core.hooksPath mine",
    ),
    _story(
        "bare-behind-the-name-of-a-remote",
        "nested('n', hooks=['pre-receive']); os.makedirs('node_modules', exist_ok=True)\n"
        "os.rename('n/.git', 'node_modules/r.git'); git('config', '-f', 'node_modules/r.git/config', "
        "'core.bare', 'true'); os.symlink('node_modules/r.git', 'mirror')",
        commands=("push mirror main:refs/heads/new",),
    ),
    _story("changed-later-among-packages", *_LATER_AMONG_PACKAGES),
    _story("old-parts-among-packages", *_OLD_PARTS, commands=("add -f .", "status")),
    _story("pointer-to-name-with-blank", *_pointer(" ")),
    _story("pointer-to-name-with-tab", *_pointer("\t"), is_rare=True),
    _story("module-of-nested", *_IN_MODULE),
    _story("sparse-directory-filled-later", *_SPARSE),
    _story("alternates-empty-at-first", *_ALTERNATES, commands=("add .",)),
    _story("link-moved-among-objects", *_MOVED_LINK, commands=("notes add -m note",)),
    _story("nested-beside-refs-that-are-a-file", _NO_REFS),
    _story("objects-moved-as-a-whole", *_MOVED_OBJECTS, commands=("-C sub notes add -m note",)),
    _story(
        "hooks-of-own-setting-in-worktree",
        _HOOKS_IN_WORKTREE,
        commands=("status", "-C wt commit --allow-empty -m empty"),
        host=_OWN_HOOKS,
    ),
    _story(
        "hooks-of-user-setting-behind-link",
        _HOOKS_BEHIND_LINK,
        host="git config --global core.hooksPath .githooks",
    ),
]


def _as_host(made: Stage, line: str) -> None:
    subprocess.run(["/bin/sh", "-ec", line], cwd=made.ws, env=made.environment, check=True)


@pytest.mark.parametrize("story", STORIES)
def test_no_git_command_springs_what_runs_left_one_after_the_other(
    stage: MakeStage, packages: Path, request: pytest.FixtureRequest, story: Story
) -> None:
    require_native(request)
    trap, runs, host = story
    made = stage((trap,))
    _as_host(made, host)

    for number, code in enumerate(runs):
        needed = {trap.name} if number == 0 else set()  # what the first has left may be gone
        plant_confined(made, packages, (sprung(trap.name, code),), needed)

    made.edit()
    found = sit(made, trap.commands)
    assert not found, table(found)


@pytest.mark.parametrize("story", STORIES)
def test_the_control_springs_what_runs_left_one_after_the_other(stage: MakeStage, story: Story) -> None:
    trap, runs, host = story
    made = stage((trap,))
    _as_host(made, host)

    said = [made.plant((sprung(trap.name, code),)) for code in runs]

    made.edit()
    found = sit(made, trap.commands)
    assert {*said} == {f"planted {trap.name}\n"}
    assert trap.name in {finding.trap for finding in found}, table(found)


#: With modes that keep the owner, who is no root, from removing it.
_LINK = "link('.git/logs/HEAD', VICTIM); "
_NESTED = "nested('d/sub', MONITOR); git('add', '-f', 'd/sub'); "
_COMMIT = "commit --allow-empty -m empty"
SEALED = [
    pytest.param(sprung(name, code, command), id=name, marks=[pytest.mark.thorough] if is_rare else [])
    for name, code, command, is_rare in (
        ("link-in-read-only-directory", _LINK + "os.chmod('.git/logs', 0o555)", _COMMIT, False),
        ("nested-read-only", _NESTED + "os.chmod('d/sub/.git', 0o555)", "status", False),
        ("nested-unreadable", _NESTED + "os.chmod('d/sub/.git', 0o111)", "status", True),
        ("nested-in-unreadable-directory", _NESTED + "os.chmod('d', 0o111)", "status", True),
    )
]


@pytest.mark.parametrize("trap", SEALED)
def test_modes_do_not_keep_a_trap_in_its_place(
    stage: MakeStage, packages: Path, request: pytest.FixtureRequest, trap: Trap
) -> None:
    require_native(request)
    made = stage((trap,), ORDINARY)

    plant_confined(made, packages, (trap,))

    found = sit(made, trap.commands)
    assert not found, table(found)


@pytest.mark.parametrize("trap", SEALED)
def test_the_control_springs_a_trap_with_such_modes(stage: MakeStage, trap: Trap) -> None:
    made = stage((trap,), ORDINARY)
    said = made.plant((trap,))

    found = sit(made, trap.commands)

    assert said == f"planted {trap.name}\n"
    assert {finding.trap for finding in found} == {trap.name}


def test_a_link_goes_from_a_repository_that_is_read_only(
    stage: MakeStage, packages: Path, request: pytest.FixtureRequest
) -> None:
    """Git does nothing there either, until its owner has made it writable again."""
    require_native(request)
    trap = sprung("sealed", _LINK + "os.chmod('.git/logs', 0o555); os.chmod('.git', 0o555)")
    made = stage((trap,), ORDINARY)

    plant_confined(made, packages, (trap,))

    assert not (made.ws / ".git/logs/HEAD").is_symlink()


_BELOW = sprung(
    "below",
    "if os.path.isdir('src'): os.chdir('src')\nclear('dir'); os.symlink(DIR, 'dir')",
    "rm -f src/dir/startup",
)


@pytest.mark.parametrize("is_confined", [True, False])
def test_the_index_of_a_repository_around_the_workspace_leads_nowhere(
    stage: MakeStage, packages: Path, request: pytest.FixtureRequest, *, is_confined: bool
) -> None:
    made = stage((_BELOW,))
    _as_host(made, "mkdir src/dir; echo original > src/dir/startup; git add src; git commit -qm dir")

    if is_confined:
        require_native(request)
        plant_confined(made, packages, (_BELOW,), below="src")
    else:
        made.plant((_BELOW,))

    found = sit(made, _BELOW.commands)
    assert bool(found) != is_confined, table(found)


#: The host's own, and what a command leaves so that it looks as if the command had made it.
_SETTING = "git config core.sshCommand 'ssh -i key'\n"
_GITLINK = "git('update-index', '--add', '--cacheinfo', '160000,' + git('rev-parse', 'HEAD') + ',{path}')"
LOOKALIKES = {
    "a pointer leads there": (".git", _SETTING, "write('sub/.git', 'gitdir: ../.git\\n')"),
    "a link leads there": (".git", _SETTING, "link('sub/.git', '../.git')"),
    "it is in the index by a link": (".git", _SETTING, "link('g', '.git'); " + _GITLINK.format(path="g")),
}


@pytest.mark.parametrize(("repository", "host", "code"), LOOKALIKES.values(), ids=LOOKALIKES)
def test_hooks_and_settings_of_the_host_stay(
    *, stage: MakeStage, packages: Path, request: pytest.FixtureRequest, repository: str, host: str, code: str
) -> None:
    require_native(request)
    trap = sprung("own", code)
    made = stage((trap,))
    _as_host(made, host)
    before = _own(made, repository)

    plant_confined(made, packages, (trap,))

    assert _own(made, repository) == before


def _own(made: Stage, repository: str = ".git") -> dict[str, tuple[int, str]]:
    """The very files, not ones like them: a mount that protects one is on no other."""
    files = {name: made.ws / repository / name for name in ("config", "hooks/pre-commit")}
    return {name: (path.stat().st_ino, path.read_text()) for name, path in files.items() if path.exists()}


_POINTER = "write('sub/.git', 'gitdir: ../.git\\n')"
_REPLACE = "write('.git/new', CONFIG); os.rename('.git/new', '.git/config')"
#: Until somebody has opened the pipe for writing.
_WAIT = "print('ready', flush=True); open('go').close()\n"
#: A process that goes on when its command has ended, and says what became of it.
_LEAVE = """
import os, sys
os.mkdir('sub')
with open('sub/.git', 'w') as file: file.write('gitdir: ../.git\\n')
if os.fork(): sys.exit()
os.setsid()
nothing = os.open('/dev/null', os.O_RDWR)
for number in range(3): os.dup2(nothing, number)
open('go').close()
try:
    with open('.git/new', 'w') as file: file.write(f'[core]\\n\\tfsmonitor = {sys.argv[1]}/own/evil-own\\n')
    os.rename('.git/new', '.git/config')
    said = 'replaced'
except OSError as problem:
    said = str(problem)
with open('saying', 'w') as file: file.write(said)
os.rename('saying', 'done')
"""


class Gate:
    """A stage with a setting of the host's, and a pipe there: who opens it waits, until it is opened here."""

    def __init__(self, made: Stage) -> None:
        self.made = made
        self._handle = -1
        _as_host(made, _SETTING)
        os.mkfifo(made.ws / "go")
        self.before = _own(made)

    def open(self) -> None:
        self._handle = os.open(self.made.ws / "go", os.O_RDWR)  # waits for nobody

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)


@pytest.fixture
def gate(request: pytest.FixtureRequest, stage: MakeStage) -> Iterator[Gate]:
    require_native(request)
    gate = Gate(stage((sprung("own", ""),)))
    yield gate
    gate.close()


def test_settings_stay_protected_when_a_run_beside_has_ended(gate: Gate, packages: Path) -> None:
    made = gate.made
    beside = subprocess.Popen(
        confined(made, [sprung("own", _WAIT + _REPLACE)]),
        cwd=made.ws,
        env=environment_of_corral(made, packages),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with beside:
        assert beside.stdout is not None
        try:
            assert beside.stdout.readline() == "ready\n"
            plant_confined(made, packages, (sprung("own", _POINTER),))
        finally:
            gate.open()
        said = beside.stdout.read()

    assert said.startswith("refused own")
    assert _own(made) == gate.before
    assert sit(made, ["status"]) == []


def test_settings_stay_protected_from_what_a_command_left_in_a_session(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = gate.made
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    keeper, done = Keeper(made.ws), made.ws / "done"
    try:
        left = keeper.session().run(python(_LEAVE, str(made.out)))
        gate.open()
        wait_until(done.exists, "what was left says how it went")
    finally:
        keeper.close()

    assert left.exit_code == 0
    assert done.read_text() != "replaced"
    assert _own(made) == gate.before


def test_the_control_springs_settings_that_were_replaced(stage: MakeStage) -> None:
    made = stage((sprung("own", ""),))
    for code in (_POINTER, _REPLACE):
        made.plant((sprung("own", code),))

    assert {finding.trap for finding in sit(made, ["status"])} == {"own"}


def test_of_very_many_findings_the_number_is_told(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    plant = "printf '[core]\\n\\tfsmonitor = ./x\\n' >> r$i/.git/config"
    line = f"for i in $(seq 40); do git init -q r$i; {plant}; done"

    result = Sandbox("moderate", backend="native", workspace=work).run(line)

    assert result.ok and len(result.violations) == 33
    assert "8 more findings" in result.violations[-1].detail
