"""Files of a repository that say more than git expects: the index, trees, refs, worktrees, remotes."""

from __future__ import annotations

from support.git_trap import ALONE, DIRECTORIES, FILES, STATES, UNBORN, Trap, harmless, sprung

_NO_LINKS = "git writes through no link that lies on the way in the worktree"
_NO_SUCH_PATH = "git takes no such path out of a tree"
_NO_SUCH_NAME = "git refuses the name"
_NOT_CONFIGURED = "filters and drivers are in the configuration alone"

_INDEX = (
    sprung("index-hook", "add_to_index('.git/hooks/post-checkout', 0o100755, HOOK)", "restore ."),
    sprung("index-configuration", "add_to_index('.git/config', 0o100644, CONFIG)", "restore .", "status"),
    sprung("index-outside", "add_to_index(f'../out/{NAME}/startup', 0o100644, 'evil')", "restore ."),
    sprung("index-outside-new", "add_to_index(f'../out/{NAME}/new', 0o100644, 'evil')", "checkout -- ."),
    sprung("index-absolute", "add_to_index(VICTIM, 0o100644, 'evil')", "restore ."),
    sprung(
        "index-version-4",
        "add_to_index('.git/hooks/post-commit', 0o100755, HOOK); git('update-index', '--index-version', '4')",
        "restore .",
        group=DIRECTORIES,
    ),
    sprung(
        "index-split",
        "add_to_index('.git/hooks/post-merge', 0o100755, HOOK); git('update-index', '--split-index')",
        "restore .",
        group=STATES,
    ),
    harmless(
        "it is another directory where names are told apart by case",
        "index-other-case",
        "add_to_index('.GIT/hooks/post-checkout', 0o100755, HOOK)",
        "restore .",
    ),
    harmless(
        _NO_LINKS,
        "index-through-link",
        "add_to_index('n-through', 0o120000, DIR); add_to_index('n-through/startup', 0o100644, 'evil')",
        "restore .",
    ),
    harmless(
        _NO_LINKS,
        "index-through-link-on-disk",
        "link('n-disk', DIR); add_to_index('n-disk/startup', 0o100644, 'evil')",
        "restore .",
    ),
    harmless(
        "what is in the index as a file is no repository, whatever is in it",
        "index-pointer",
        "add_to_index('n-git/.git', 0o100644, f'gitdir: {AIM}/repository/.git')",
        "restore .",
        "status",
        has_repository=True,
    ),
    harmless(
        "git uses the extension only where core.fsmonitor is set",
        "index-monitor",
        "for option in ('--fsmonitor', '--untracked-cache'): git('update-index', option, check=False)",
        "status",
        group=DIRECTORIES,
    ),
    harmless(
        "git only reads the shared part, and dies of what it finds there",
        "index-shared-link",
        "git('update-index', '--split-index')\n"
        "for name in os.listdir('.git'):\n"
        "    if name.startswith('sharedindex.'): link('.git/' + name, VICTIM)",
        "status",
        "add .",
        group=ALONE,
    ),
)

#: A tree that git would refuse to write: each entry a mode, a name, and an object.
_TREE = """
def tree(*entries):
    data = b''.join(f'{mode} {name}\\0'.encode() + bytes.fromhex(oid) for mode, name, oid in entries)
    return git('hash-object', '-t', 'tree', '--literally', '-w', '--stdin', data=data)
def branch(top):
    git('update-ref', 'refs/heads/topic', git('commit-tree', top, '-p', 'v1', '-m', 'tree'))
def blob(text):
    return git('hash-object', '-w', '--stdin', data=text.encode())
hook = ('100755', 'post-checkout', blob(HOOK))
"""
_TREES = (
    ("tree-hook", "branch(tree(('40000', '.git', tree(('40000', 'hooks', tree(hook))))))"),
    ("tree-slash", "branch(tree(('100755', '.git/hooks/post-checkout', hook[2])))"),
    (
        "tree-outside",
        "branch(tree(('40000', '..', tree(('40000', 'out', tree(('100644', 'new', hook[2])))))))",
    ),
    (
        "tree-through-link",
        "branch(tree(('120000', 'a', blob(DIR)), ('40000', 'a', tree(('100644', 'startup', hook[2])))))",
    ),
)

#: Git follows what a ref says without looking at the name, and writes there: one line, the id of a commit.
_UPWARDS = "write({path!r}, f'ref: refs/../../../out/{{NAME}}/new\\n')"
_SYMBOLIC = f"""
refs/heads/feature       | branch feature | {FILES}
refs/remotes/origin/main | pull; push | {FILES}
refs/stash               | stash | {FILES}
refs/notes/commits       | notes add -m note | {FILES}
ORIG_HEAD                | reset --soft HEAD | {FILES}
refs/heads/main          | commit --allow-empty -m empty | {UNBORN}
HEAD                     | commit --allow-empty -m empty | {UNBORN}
"""
#: As long as the id of a commit, which is what a ref of that size is taken for.
_SIZED = "text = f'ref: refs/../../../out/{{NAME}}/'; write({path!r}, text.ljust({size} - 1, 'n') + '\\n')"
_REFS = (
    sprung("upwards-sized", _SIZED.format(path=".git/refs/tags/v2", size=65), "tag v2"),
    sprung(
        "upwards-tab",
        "write('.git/refs/heads/feature', f'ref:\\t\\t refs/../../../out/{NAME}/new')",
        "branch feature",
        group=DIRECTORIES,
    ),
    harmless(
        "git gives names of branches to no shell",
        "ref-names",
        "head = git('rev-parse', 'main') + '\\n'\n"
        "for name in ('--upload-pack=' + EVIL.replace('/', '@'), '$(evil-x)', ';evil-x', '`evil-x`'):\n"
        "    write(f'.git/refs/heads/{name}', head); write(f'.git/refs/tags/{name}', head)",
        "branch",
        "gc",
    ),
    harmless(
        "git writes no ref over a file that is none",
        "ref-of-configuration",
        "write('.git/refs/heads/feature', 'ref: refs/../config\\n')",
        "branch feature",
        group=STATES,
    ),
    harmless(
        "git follows no ref of that name when it writes it",
        "picked-upwards",
        _UPWARDS.format(path=".git/CHERRY_PICK_HEAD") + "; " + _UPWARDS.format(path=".git/REBASE_HEAD"),
        "cherry-pick other",
        "cherry-pick --abort",
        "rebase other",
        group=DIRECTORIES,
    ),
    harmless(
        _NO_SUCH_NAME,
        "packed-ref-upwards",
        "head = git('rev-parse', 'main'); git('pack-refs', '--all')\n"
        "with open('.git/packed-refs', 'a') as file: file.write(f'{head} refs/../../../out/{NAME}/new\\n')",
        "pack-refs --all",
        group=ALONE,
    ),
)

_WORKTREE = """
def worktree(place):
    write(f'.git/worktrees/{NAME}/gitdir', f'{place}/.git\\n')
    write(f'.git/worktrees/{NAME}/commondir', '../..\\n')
    write(f'.git/worktrees/{NAME}/HEAD', 'ref: refs/heads/feature\\n')
    if place.startswith(WS): write(f'{place}/.git', f'gitdir: {WS}/.git/worktrees/{NAME}\\n')
"""
_WORKTREES = (
    sprung("worktree-outside", _WORKTREE + "worktree(DIR)", "worktree repair"),
    sprung(
        "worktree-through-link",
        _WORKTREE + "link('w-way', DIR); worktree('/..' + f'{WS}/w-way/../empty')",
        "worktree repair",
    ),
    sprung(
        "worktree-link",
        "os.makedirs('.git/worktrees', exist_ok=True); link(f'.git/worktrees/{NAME}', DIR)",
        "worktree prune",
    ),
    sprung(
        "worktree-log",
        _WORKTREE + "worktree(f'{WS}/w-log'); link(f'.git/worktrees/{NAME}/logs/HEAD', VICTIM)",
        "branch feature",
        "branch -m feature renamed",
    ),
    harmless(
        "git reads it in that worktree alone",
        "worktree-configuration",
        _WORKTREE + "worktree(f'{WS}/w-config'); write(f'.git/worktrees/{NAME}/config.worktree', CONFIG)",
        "worktree list",
        "gc",
    ),
    harmless(
        "git reads it in that worktree alone",
        "worktree-commondir",
        _WORKTREE
        + "worktree(f'{WS}/w-common')\n"
        + "write(f'.git/worktrees/{NAME}/commondir', f'{AIM}/repository/.git\\n')",
        "worktree list",
        "gc",
        has_repository=True,
    ),
)

#: `upstream` is a name that many type; here it is in no configuration, and git looks at the older places.
_BARE = """
git('init', '-q', '--template=', '--bare', 'n-' + NAME); write(f'n-{NAME}/hooks/pre-receive', HOOK, 0o755)
"""
_REMOTES = (
    sprung(
        "remote-of-old",
        _BARE + "write('.git/remotes/upstream', f'URL: {WS}/n-{NAME}\\n')",
        "push upstream main",
    ),
    sprung(
        "branch-of-old",
        _BARE + "write('.git/branches/upstream', f'{WS}/n-{NAME}\\n')",
        "push upstream main",
        group=DIRECTORIES,
    ),
    harmless(
        "git permits ext:: to nobody who has not configured it",
        "remote-of-old-transport",
        "write('.git/remotes/upstream', f'URL: ext::{EVIL}\\n')",
        "fetch upstream",
        group=STATES,
    ),
)


def _refs() -> tuple[Trap, ...]:
    found = []
    for line in _SYMBOLIC.strip().splitlines():
        name, command, group = (part.strip() for part in line.split("|"))
        code = _UPWARDS.format(path=f".git/{name}")
        typed = command.split("; ")
        found.append(sprung(f"upwards-{name.replace('/', '-')}", code, *typed, group=group))
    return tuple(found)


TRAPS = (
    *_INDEX,
    *(harmless(_NO_SUCH_PATH, name, _TREE + code, "checkout topic") for name, code in _TREES),
    *_REFS,
    *_WORKTREES,
    *_REMOTES,
)
#: After these git finds its way no longer.
LAST = _refs()
