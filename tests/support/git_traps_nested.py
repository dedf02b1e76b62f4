"""Repositories in the repository: git visits them from the top, and obeys their configuration."""

from __future__ import annotations

from support.git_trap import DIRECTORIES, MORE, STATES, Trap, harmless, sprung

#: Where the submodules belong, which are in the index and not initialised.
_LIB = "if os.path.islink('vendor'): clear('vendor')\nclear('vendor/lib')\n"
_OTHER = _LIB.replace("lib", "more")
_ORIGIN = "origin = f'[remote \"origin\"]\\n\\turl = {OUT}/../lib.git\\n'\n"
#: A commit on the branch `other` has the repository; on this branch it is nothing that git knows.
_IN_BRANCH = """
nested('n-branch', MONITOR)
commit, at = git('rev-parse', 'HEAD', cwd='n-branch'), git('rev-parse', 'other')
tree = git('ls-tree', at) + f'\\n160000 commit {commit}\\tn-branch\\n'
changed = git('commit-tree', git('mktree', '--missing', data=tree.encode()), '-p', at, '-m', 'sub')
git('update-ref', 'refs/heads/other', changed)
"""
#: A git directory where git keeps those of submodules.
_MODULE = """
nested('n-module', config, hooks)
os.makedirs('.git/modules', exist_ok=True)
subprocess.run(['cp', '-r', 'n-module/.git', '.git/modules/more'], check=True, capture_output=True)
clear('n-module')
"""

_PLACES = (
    sprung("nested-added", "nested('n-added', MONITOR); git('add', 'n-added')", "status"),
    sprung("nested-untracked", "nested('n-untracked', MONITOR)", "add .", "commit -a -m work"),
    sprung("nested-in-branch", _IN_BRANCH, "switch other", "status"),
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
    harmless(
        "git does not look for a repository among its own files",
        "nested-in-tracked",
        "nested('src', MONITOR)",
        "status",
        "add .",
        "commit -a -m work",
        "status",
    ),
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
    ),
)
TRAPS = (*_DESCRIBED, *_SUBMODULE, *_PLACES, *_WAYS)
