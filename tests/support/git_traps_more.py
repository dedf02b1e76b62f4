"""The configuration and the hooks, what stands for the whole repository, and what lies in the worktree."""

from __future__ import annotations

from support.git_trap import DIRECTORIES, FILES, GONE, MORE, STATES, harmless, sprung

_NOT_CONFIGURED = "filters and drivers are in the configuration alone"
_STORE = """
shutil.copytree('.git', '.store', symlinks=True); write('.store/config', CONFIG); os.rename('.git', '.gone')
"""
#: Where `.git` is no repository, git takes the directory itself for one, if it looks like one.
_BARE = """
shutil.copytree('.git', '.copy', symlinks=True)
for name in ('objects', 'refs', 'index'): shutil.move('.copy/' + name, name)
write('HEAD', 'ref: refs/heads/main\\n')
write('config', CONFIG + '\\tworktree = .\\n'); os.unlink('.git/HEAD')
"""
#: From twenty-seven files in this one directory git infers how many there are, and packs them unasked.
_MANY = """
for n in range(40): write(f'.git/objects/17/{n:038x}', '')
link('.git/gc.log', AIM + '/new')
"""

_CONFIGURATION = (
    sprung(
        "config-append",
        "with open('.git/config', 'a') as file: file.write(MONITOR)",
        "status",
        held=True,
    ),
    sprung(
        "config-replace",
        "write('.git/config.lock', CONFIG); os.rename('.git/config.lock', '.git/config')",
        "status",
        group=STATES,
        held=True,
    ),
    sprung(
        "config-worktree",
        "write('.git/config.worktree', MONITOR)",
        "sparse-checkout set --no-cone /src/ /README",
        "status",
    ),
    sprung(
        "commondir",
        "shutil.copytree('.git', '.common', symlinks=True); write('.common/config', CONFIG)\n"
        "write('.git/commondir', '../.common\\n')",
        "status",
        group=DIRECTORIES,
    ),
    sprung(
        "config-remote",
        "git('init', '-q', '--template=', '--bare', 'n-remote')\n"
        "write('n-remote/hooks/pre-receive', HOOK, 0o755)\n"
        "git('remote', 'add', 'upstream', WS + '/n-remote')",
        "push upstream main",
        group=MORE,
    ),
    sprung(
        "config-output",
        "git('config', 'format.outputDirectory', DIR)",
        "commit --allow-empty -m empty",
        "format-patch -1",
        group=MORE,
    ),
    sprung("hook", "write('.git/hooks/post-checkout', HOOK, 0o755)", "checkout topic", held=True),
    sprung(
        "hooks-link",
        "write('.hooks/post-checkout', HOOK, 0o755); link('.git/hooks', '../.hooks')",
        "checkout topic",
        group=MORE,
        held=True,
    ),
)

_REPOSITORY = (
    sprung("repository-at-the-top", _BARE, "status", group=GONE),
    sprung(
        "repository-moved",
        "os.rename('.git', '.gone'); shutil.copytree('.gone', '.git', symlinks=True)\n"
        "write('.git/config', CONFIG)",
        "status",
        group=GONE,
        held=True,
    ),
    sprung(
        "repository-pointer",
        _STORE + "write('.git', 'gitdir: .store\\n')",
        "status",
        group=GONE,
        held=True,
    ),
    sprung(
        "repository-link",
        _STORE + "os.symlink('.store', '.git')",
        "status",
        group=GONE,
        held=True,
    ),
)

_OBJECTS = (
    sprung(
        "object-directories",
        "for n in range(256):\n"
        "    if not os.path.exists(f'.git/objects/{n:02x}'): link(f'.git/objects/{n:02x}', EMPTY)",
        "commit --allow-empty -m empty",
        group=STATES,
    ),
    sprung(
        "object-link",
        "known = git('hash-object', '--stdin', data=b'note\\n')\n"
        "link(f'.git/objects/{known[:2]}/{known[2:]}', VICTIM)",
        "notes add -m note",
    ),
    sprung("many-objects", _MANY, "commit --allow-empty -m empty", group=DIRECTORIES),
    sprung(
        "alternates",
        "write('.git/objects/info/alternates', f'{AIM}/repository/.git/objects\\n'); write('same', '2\\n')",
        "add .",
        group=STATES,
        has_repository=True,
    ),
    harmless(
        "it changes what git shows, and nothing else",
        "grafts",
        'write(\'.git/info/grafts\', f\'{git("rev-parse", "main")} {git("rev-parse", "topic")}\\n\')',
        "log -p -1",
        group=STATES,
    ),
    harmless(
        "it changes what git shows, and nothing else",
        "shallow",
        "write('.git/shallow', git('rev-parse', 'main') + '\\n')",
        "fetch",
        group=STATES,
    ),
)

_WORKTREE = (
    sprung(
        "patch-link",
        "link('0001-work.patch', VICTIM); link('0001-empty.patch', VICTIM)",
        "commit --allow-empty -m empty",
        "format-patch -1",
    ),
    sprung(
        "patch-link-of-version",
        "link('v2-0001-work.patch', VICTIM); link('v2-0001-empty.patch', VICTIM)",
        "commit --allow-empty -m empty",
        "format-patch -v2 -1",
    ),
    sprung(
        "patch-link-below",
        "link('src/0001-work.patch', VICTIM); link('src/0001-empty.patch', VICTIM)",
        "commit --allow-empty -m empty",
        "-C src format-patch -1",
    ),
    sprung(
        "pipe", "clear('.git/TAG_EDITMSG'); os.mkfifo('.git/TAG_EDITMSG')", "tag -a v3", group=DIRECTORIES
    ),
    harmless(
        "git speaks to it only where core.fsmonitor is set",
        "pipe-of-monitor",
        "clear('.git/fsmonitor--daemon.ipc'); os.mkfifo('.git/fsmonitor--daemon.ipc')",
        "status",
        group=FILES,
    ),
    harmless(
        "git speaks to it only where core.fsmonitor is set",
        "socket-of-monitor",
        "clear('.git/fsmonitor--daemon.ipc'); os.chdir('.git')\n"
        "socket.socket(socket.AF_UNIX).bind('fsmonitor--daemon.ipc')",
        "status",
        group=STATES,
    ),
    harmless(
        "git removes a link before it writes a file of the worktree",
        "tracked-link",
        "link('conflict.txt', VICTIM); link('src/app.py', VICTIM)",
        "restore .",
        "merge other",
        group=DIRECTORIES,
    ),
    harmless(
        "git removes a link before it makes a directory of the worktree",
        "tracked-directory-link",
        "link('tools', DIR)",
        "restore .",
        "checkout topic",
        group=DIRECTORIES,
    ),
    harmless(
        _NOT_CONFIGURED,
        "attributes",
        "write('.gitattributes', '* filter=evil-x diff=evil-x merge=evil-x\\n')",
        "add .",
        "diff",
        "merge other",
    ),
    harmless(
        _NOT_CONFIGURED,
        "info-attributes",
        "write('.git/info/attributes', '* filter=evil-x diff=evil-x merge=evil-x\\n')",
        "add .",
        "diff",
        "merge other",
    ),
)
TRAPS = (*_CONFIGURATION, *_OBJECTS, *_WORKTREE)
#: After these the repository is another.
LAST = _REPOSITORY
