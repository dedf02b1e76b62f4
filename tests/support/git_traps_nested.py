"""Repositories in the repository: git visits them from the top, and obeys their configuration."""

from __future__ import annotations

from support.git_trap import ALONE, DIRECTORIES, MORE, STATES, Trap, harmless, sprung

#: Where the submodules belong, which are in the index and not initialised.
_LIB = "if os.path.islink('vendor'): clear('vendor')\nclear('vendor/lib')\n"
_OTHER = _LIB.replace("lib", "more")
_ORIGIN = "origin = f'[remote \"origin\"]\\n\\turl = {OUT}/../lib.git\\n'\n"
#: A commit on the branch `other` has the repository; on this branch it is nothing that git knows.
_IN_BRANCH = """
nested('{path}', MONITOR)
git('read-tree', '--index-output=.git/other-index', 'other')
os.environ['GIT_INDEX_FILE'] = '.git/other-index'
git('update-index', '--add', '--cacheinfo', '160000,' + git('rev-parse', 'HEAD', cwd='{path}') + ',{path}')
changed = git('commit-tree', git('write-tree'), '-p', 'other', '-m', 'sub')
del os.environ['GIT_INDEX_FILE']
git('update-ref', 'refs/heads/other', changed)
"""
#: A git directory where git keeps those of submodules.
_MODULE = """
nested('n-module', config, hooks)
os.makedirs('.git/modules', exist_ok=True)
subprocess.run(['cp', '-r', 'n-module/.git', '.git/modules/more'], check=True, capture_output=True)
clear('n-module')
"""

#: Git leaves blanks in the name of a directory as they are; without them it is another one, and harmless.
_BLANK = """
nested('n-blank', MONITOR)
for name in ('.store-blank', '.store-blank '): shutil.copytree('n-blank/.git', name)
write('.store-blank/config', '[core]\\n\\trepositoryformatversion = 0\\n')
clear('n-blank/.git'); write('n-blank/.git', 'gitdir: ../.store-blank \\n'); git('add', 'n-blank')
"""
#: By its words the path is the harmless one; by the link it is another.
_THROUGH_LINK = """
nested('n-through', MONITOR); os.makedirs('elsewhere/place'); link('n-way', 'elsewhere/place')
for name in ('.store-through', 'elsewhere/.store-through'): shutil.copytree('n-through/.git', name)
write('.store-through/config', '[core]\\n\\trepositoryformatversion = 0\\n')
clear('n-through/.git'); write('n-through/.git', 'gitdir: ../n-way/../.store-through\\n')
git('add', 'n-through')
"""
_IN_POINTER = """
nested('n-leads'); nested('n-leads/node_modules/inner', MONITOR); git('add', '.', cwd='n-leads')
git('commit', '-qm', 'x', cwd='n-leads'); os.rename('n-leads/.git', '.store-leads')
write('n-leads/.git', 'gitdir: ../.store-leads\\n'); git('add', 'n-leads')
"""
#: More directories than anybody looks into.
_MANY = """
nested('n-many', MONITOR)
for n in range(3000): os.makedirs(f'many/{n}')
for n in range(8): shutil.copytree('n-many', f'many/{n * 300}/deeper')
clear('n-many')
"""
#: A directory that looks like a git directory is one for a git that is started in it.
_BARE = """
nested('n-bare', MONITOR + '\\tworktree = .\\n')
for name in ('HEAD', 'objects', 'refs', 'index', 'config'):
    shutil.move('n-bare/.git/' + name, '{path}/' + name)
clear('n-bare')
"""
_DEEP = "/".join("bcdefghijk")
#: Two branches that have merged each other, and neither names the repository any more: only what git makes of
#: the commits before does. What is not there git has the promisor's program bring.
_CRISS_CROSS = """
nested('n-cross', f'[remote "o"]\\n\\turl = .\\n\\tpromisor = true\\n\\tuploadpack = {EVIL}\\n')
with open('n-cross/.git/config', 'a') as file:
    file.write('[core]\\n\\trepositoryformatversion = 1\\n[extensions]\\n\\tpartialClone = o\\n')
shutil.copytree('n-cross', PATH); clear('n-cross')
def tree(mark):
    entries = git('ls-tree', 'HEAD') + '\\n'
    inner = '160000 commit ' + (mark or '1') * 40 + '\\t' + os.path.basename(PATH) + '\\n'
    for name in reversed(PATH.split('/')[:-1]):
        inner = '040000 tree ' + git('mktree', '--missing', data=inner.encode()) + f'\\t{name}\\n'
    return git('mktree', '--missing', data=(entries + inner * bool(mark)).encode())
def commit(mark, *above):
    words = [word for one in above for word in ('-p', one)]
    return git('commit-tree', tree(mark), *words, '-m', 'cross')
first = commit('1', git('rev-parse', 'HEAD')); left, right = commit('2', first), commit('3', first)
ours, theirs = commit('', left, right), commit('', right, left, first)
git('update-ref', 'refs/heads/other', theirs); git('update-ref', 'HEAD', ours)
"""

_PLACES = (
    sprung("nested-added", "nested('n-added', MONITOR); git('add', 'n-added')", "status"),
    sprung("nested-untracked", "nested('n-untracked', MONITOR)", "add .", "commit -a -m work"),
    sprung("nested-in-branch", _IN_BRANCH.format(path="n-branch"), "switch other", "status"),
    sprung(
        "nested-deep-in-branch",
        _IN_BRANCH.format(path=f"deep/{_DEEP}"),
        "switch other",
        "status",
        group=DIRECTORIES,
    ),
    sprung(
        "nested-among-packages-in-branch",
        _IN_BRANCH.format(path="node_modules/branch"),
        "switch other",
        "status",
        group=STATES,
    ),
    sprung("nested-deep-untracked", f"nested('deep/{_DEEP}', MONITOR)", "add .", "commit -a -m work"),
    sprung(
        "nested-among-packages-untracked",
        "nested('node_modules/untracked', MONITOR)",
        "add .",
        "commit -a -m work",
    ),
    sprung(
        "path-of-a-remote-link",
        "link('upstream', f'{AIM}/repository/.git')",
        "push upstream main:refs/heads/new",
        group=ALONE,
        has_repository=True,
    ),
    sprung(
        "path-of-a-remote-pointer",
        "write('upstream', f'gitdir: {AIM}/repository/.git\\n')",
        "push upstream main:refs/heads/new",
        group=ALONE,
        has_repository=True,
    ),
    *(
        sprung(f"criss-cross-{name}", f"PATH = {path!r}\n{_CRISS_CROSS}", "merge other", group=ALONE)
        for name, path in (("packages", "node_modules/x"), ("repository", ".git/x"), ("logs", ".git/logs/x"))
    ),
    sprung("nested-among-many", _MANY, "add .", "commit -a -m work", group=ALONE),
    sprung("nested-pointer-with-blank", _BLANK, "status"),
    sprung("nested-pointer-through-link", _THROUGH_LINK, "status"),
    sprung("nested-in-pointer", _IN_POINTER, "status"),
    sprung(
        "nested-pointer-into-worktrees",
        "nested('n-worktree', MONITOR); shutil.copytree('n-worktree/.git', '.git/worktrees/own')\n"
        "clear('n-worktree/.git'); write('n-worktree/.git', 'gitdir: ../.git/worktrees/own\\n')\n"
        "git('add', 'n-worktree')",
        "status",
    ),
    sprung("nested-deep", "nested('a/b/c/d/e', MONITOR); git('add', 'a/b/c/d/e')", "status"),
    sprung(
        "nested-among-packages",
        "nested('node_modules/a/b', MONITOR); git('add', '-f', 'node_modules/a/b')",
        "status",
    ),
    sprung(
        "nested-in-nested",
        "nested('n-outer'); nested('n-outer/inner', MONITOR)\n"
        "git('add', 'inner', cwd='n-outer'); git('commit', '-qm', 'x', cwd='n-outer'); git('add', 'n-outer')",
        "status",
    ),
    sprung(
        "nested-pointer",
        "nested('n-pointer', MONITOR); os.rename('n-pointer/.git', '.store-pointer')\n"
        "write('n-pointer/.git', 'gitdir: ../.store-pointer\\n'); git('add', 'n-pointer')",
        "status",
    ),
    sprung(
        "nested-pointer-into-repository",
        "nested('n-inside', MONITOR); shutil.copytree('n-inside/.git', '.git/objects/inside')\n"
        "write('n-inside/.git', 'gitdir: ../.git/objects/inside\\n'); git('add', 'n-inside')",
        "status",
    ),
    sprung(
        "nested-link",
        "nested('n-link', MONITOR); os.rename('n-link/.git', '.store-link')\n"
        "os.symlink('../.store-link', 'n-link/.git'); git('add', 'n-link')",
        "status",
    ),
    sprung(
        "nested-foreign",
        "nested('n-foreign'); git('add', 'n-foreign')\n"
        "write('n-foreign/.git', f'gitdir: {AIM}/repository/.git\\n')",
        "status",
        has_repository=True,
    ),
    sprung("nested-in-tracked", "nested('src', MONITOR)", "-C src status", group=STATES),
    sprung("bare-in-tracked", _BARE.format(path="src"), "-C src status"),
    sprung("bare-in-submodule", _BARE.format(path="vendor/lib"), "-C vendor/lib status", group=MORE),
)

_WAYS = (
    sprung(
        "nested-filter",
        "nested('n-filter', f'[filter \"x\"]\\n\\tclean = {EVIL}\\n'); git('add', 'n-filter')\n"
        "write('n-filter/.gitattributes', '* filter=x'); write('n-filter/file', 'xett')",
        "status",
    ),
    sprung(
        "nested-hook",
        "nested('n-hook', hooks=['post-index-change']); git('add', 'n-hook')\n"
        "os.utime('n-hook/file', (0, 0))",
        "status",
    ),
    sprung(
        "nested-hooks-path",
        "nested('n-hooks', '[core]\\n\\thooksPath = ../n-hooks-of\\n'); git('add', 'n-hooks')\n"
        "write('n-hooks-of/post-index-change', HOOK, 0o755); os.utime('n-hooks/file', (0, 0))",
        "status",
    ),
    sprung(
        "nested-include",
        "nested('n-include', '[include]\\n\\tpath = ../../n-included\\n'); git('add', 'n-include')\n"
        "write('n-included', MONITOR)",
        "status",
    ),
    sprung(
        "nested-external-diff",
        "nested('n-diff', f'[diff]\\n\\texternal = {EVIL}\\n'); git('add', 'n-diff')\n"
        "write('n-diff/file', 'changed'); git('commit', '-qam', 'x', cwd='n-diff')",
        "diff --submodule=diff",
    ),
    sprung(
        "nested-text-conversion",
        "nested('n-text', f'[diff \"x\"]\\n\\ttextconv = {EVIL}\\n'); git('add', 'n-text')\n"
        "write('n-text/.gitattributes', '* diff=x'); write('n-text/file', 'changed')",
        "diff --submodule=diff",
    ),
    sprung(
        "nested-index-link",
        "nested('n-index'); git('add', 'n-index'); link('n-index/.git/index', AIM + '/new')",
        "status",
    ),
)

_SUBMODULE = (
    sprung("submodule-in-place", _LIB + "nested('vendor/lib', MONITOR)", "status"),
    sprung(
        "submodule-hook",
        _LIB + _ORIGIN + "nested('vendor/lib', origin, ['post-checkout'])",
        "submodule update --init",
        group=DIRECTORIES,
    ),
    sprung(
        "submodule-worktree-outside",
        _LIB + "nested('vendor/lib', f'[core]\\n\\tworktree = {DIR}\\n')",
        "-C vendor/lib checkout -- .",
        group=STATES,
    ),
    sprung(
        "submodule-remote-program",
        _OTHER + _ORIGIN + "nested('vendor/more', origin + f'\\tuploadpack = {EVIL}\\n')",
        "fetch",
        group=MORE,
    ),
    sprung(
        "submodule-foreign",
        _OTHER + "write('vendor/more/.git', f'gitdir: {AIM}/repository/.git\\n')",
        "status",
        group=DIRECTORIES,
        has_repository=True,
    ),
    sprung(
        "module-hook",
        _OTHER + _ORIGIN + "config, hooks = origin, ['post-checkout']" + _MODULE + "os.mkdir('vendor/more')",
        "submodule update --init",
        held=True,
    ),
    sprung(
        "module-monitor",
        _OTHER
        + "config, hooks = MONITOR, []"
        + _MODULE
        + "write('vendor/more/.git', 'gitdir: ../../.git/modules/more\\n')",
        "status",
        group=STATES,
        held=True,
    ),
    sprung(
        "module-link",
        "os.makedirs('.git/modules', exist_ok=True); link('.git/modules/lib', EMPTY)",
        "submodule update --init",
        group=MORE,
        held=True,
    ),
)


#: The submodule that is initialised: git visits it, and what is in its own index from there.
_READY = (
    sprung(
        "ready-gitlink",
        "nested('vendor/ready/node_modules/inner', MONITOR)\n"
        "git('add', '-f', 'node_modules/inner', cwd='vendor/ready')",
        "status",
        group=DIRECTORIES,
    ),
    sprung("ready-index", "link('.git/modules/ready/index', AIM + '/new')", "status", group=STATES),
    sprung(
        "ready-configuration",
        "with open('.git/modules/ready/config', 'a') as file: file.write(MONITOR)",
        "status",
        group=MORE,
        held=True,
    ),
    sprung(
        "ready-pointer",
        "nested('n-ready', MONITOR); os.rename('n-ready/.git', '.store-ready'); clear('n-ready')\n"
        "write('vendor/ready/.git', 'gitdir: ../../.store-ready\\n')",
        "status",
        group=MORE,
        held=True,
    ),
)


def _described(why: str, name: str, text: str) -> Trap:
    code = f"write('.gitmodules', f'{text}')"
    return harmless(why, name, code, "submodule update --init", group=MORE, held=True)


_DESCRIBED = (
    _described(
        "git takes no command from .gitmodules",
        "gitmodules-command",
        '[submodule "lib"]\\n\\tpath = vendor/lib\\n\\turl = ../lib.git\\n\\tupdate = !{EVIL}\\n',
    ),
    _described(
        "git permits ext:: to nobody who has not configured it",
        "gitmodules-transport",
        '[submodule "lib"]\\n\\tpath = vendor/lib\\n\\turl = ext::{EVIL}\\n',
    ),
    _described(
        "git takes no address that begins like an option",
        "gitmodules-option",
        '[submodule "lib"]\\n\\tpath = vendor/lib\\n\\turl = --upload-pack={EVIL}\\n',
    ),
    _described(
        "git takes no name that leads upwards",
        "gitmodules-name",
        '[submodule "../../../out/{NAME}/empty/x"]\\n\\tpath = vendor/lib\\n\\turl = ../lib.git\\n',
    ),
    harmless(
        "git does not read .gitmodules through a link",
        "gitmodules-link",
        "link('.gitmodules', VICTIM)",
        "submodule update --init",
        "mv vendor/lib vendor/moved",
        group=MORE,
        held=True,
    ),
    harmless(
        "git puts no submodule behind a link",
        "submodule-behind-link",
        "link('vendor', EMPTY)",
        "submodule update --init",
        group=MORE,
        held=True,
    ),
)
TRAPS = (*_DESCRIBED, *_SUBMODULE, *_READY, *_PLACES, *_WAYS)
