"""Detours: what git reads in another way than it seems, and repositories that it reaches in a roundabout way.

Many change the index or HEAD of the whole repository, or stand in each other's place: those lie alone.
"""

from __future__ import annotations

from support.git_trap import ALONE, DIRECTORIES, FILES, MORE, STATES, sprung

#: Further down than anybody searches, and in the index of the repository around it.
_FAR = "a/b/c/d/e/f/g/h/inner"

#: The git directory of one worktree says that it has another; there git finds what is in its index.
_ELSEWHERE = """
nested('n-other'); nested('n-other/node_modules/inner', MONITOR)
git('add', '-f', 'node_modules/inner', cwd='n-other'); git('commit', '-qm', 'x', cwd='n-other')
os.makedirs('node_modules/modules', exist_ok=True); os.rename('n-other/.git', 'node_modules/modules/other')
git('config', '-f', 'node_modules/modules/other/config', 'core.worktree', '../../../n-other')
write('n-elsewhere/.git', 'gitdir: ../node_modules/modules/other\\n'); git('add', '-f', 'n-elsewhere')
"""
#: The same, and the worktree is a git directory: what git takes out of its index it writes there.
_INTO_REPOSITORY = """
nested('n-into'); write('n-into/config', CONFIG); write('n-into/hooks/post-checkout', HOOK, 0o755)
git('add', '.', cwd='n-into'); git('commit', '-qm', 'x', cwd='n-into')
os.makedirs('node_modules/modules', exist_ok=True); os.rename('n-into/.git', 'node_modules/modules/into')
git('config', '-f', 'node_modules/modules/into/config', 'core.worktree', '../../../.git')
clear('n-into'); write('n-into/.git', 'gitdir: ../node_modules/modules/into\\n')
"""
#: It has neither objects nor refs, but names the directory that has.
_BARE = """
os.makedirs('node_modules', exist_ok=True); git('init', '-q', '--template=', '--bare', 'node_modules/common')
with open('node_modules/common/config', 'a') as file:
    file.write(f'[remote "origin"]\\n\\turl = .\\n\\tuploadpack = {EVIL}\\n')
write('src/HEAD', 'ref: refs/heads/main\\n'); write('src/commondir', WS + '/node_modules/common\\n')
"""
_REPOSITORIES = (
    sprung("nested-worktree-elsewhere", _ELSEWHERE, "status"),
    sprung(
        "nested-worktree-in-repository", _INTO_REPOSITORY, "-C n-into checkout -- .", "status", group=ALONE
    ),
    sprung("bare-with-commondir", _BARE, "-C src fetch", group=MORE),
)

#: A linked worktree of the repository, with a repository in its own index.
_LINKED = f"""
git('worktree', 'add', '-q', '--detach', 'wt'); nested('wt/{_FAR}', MONITOR)
git('add', '-f', '{_FAR}', cwd='wt'); git('commit', '-qm', 'x', cwd='wt')
"""
_LINKED_TRAPS = (
    sprung(
        "linked-in-index",
        _LINKED + "git('add', '-f', 'wt'); os.unlink('.git/worktrees/wt/gitdir')",
        "status",
        group=ALONE,
    ),
    sprung(
        "linked-without-pointer",
        _LINKED + "os.unlink('.git/worktrees/wt/gitdir')",
        "-C wt status",
        group=DIRECTORIES,
    ),
    sprung(
        "linked-with-relative-pointer",
        _LINKED + "write('.git/worktrees/wt/gitdir', '../../../wt/.git\\n')",
        "-C wt status",
        group=STATES,
    ),
    sprung(
        "linked-with-another-pointer",
        _LINKED + "write('.git/worktrees/wt/gitdir', WS + '/src/.git\\n')",
        "-C wt status",
        group=MORE,
    ),
    # Relative to the directory in which git was started, and to that of the file for newer ones.
    sprung(
        "worktree-outside-by-relative-path",
        "at = f'.git/worktrees/{NAME}'; write(f'{at}/gitdir', f'../out/{NAME}/empty/.git\\n')\n"
        "write(f'{at}/commondir', '../..\\n'); write(f'{at}/HEAD', 'ref: refs/heads/feature\\n')",
        "worktree repair",
        group=MORE,
    ),
)

#: `2` is what a file in the victim's history has: git finds it there, and sets the time of the pack.
_ALTERNATES = """
objects = f'{AIM}/repository/.git/objects'; write('same', '2\\n')
def alternates(text): write('.git/objects/info/alternates', text)
"""
_ALTERNATE_TRAPS = tuple(
    sprung(f"alternates-{name}", _ALTERNATES + code, "add .", group=group, has_repository=True)
    for name, code, group in (
        ("quoted", "alternates(f'\"{objects}\"\\n')", FILES),
        (
            "after-form-feed",
            "os.makedirs('.git/objects/x\\f#'); up = '../' * 4\n"
            "alternates(f'x\\f#/{up}out/{NAME}/repository/.git/objects\\n')",
            ALONE,
        ),
        (
            "of-alternates",
            "write('node_modules/far/objects/info/alternates', objects + '\\n')\n"
            "alternates(f'{WS}/node_modules/far/objects\\n')",
            ALONE,
        ),
        (
            "with-link-to-packs",
            "link('far/objects/pack', f'{objects}/pack'); alternates(f'{WS}/far/objects\\n')",
            ALONE,
        ),
        (
            "with-link-to-object",
            "known = git('hash-object', 'same')\n"
            "link(f'far/objects/{known[:2]}/{known[2:]}', VICTIM); alternates(f'{WS}/far/objects\\n')",
            ALONE,
        ),
        ("behind-many-lines", "alternates('\\n' * (4 << 20) + f'{objects}\\n')", ALONE),
    )
)

#: Git writes a message over the index, which it has read; it is one that git refuses to be given.
_MESSAGE = """
for name in git('ls-files').splitlines():
    if os.path.isfile(name) and os.access(name, os.W_OK): os.utime(name, (0, 0))
write('new', 'work'); os.utime('new', (0, 0)); git('add', 'new'); git('write-tree'); git('status')
for n in range(1000):
    blob = bytes.fromhex(git('hash-object', '-w', '--stdin', data=f'{CONFIG}#{n}\\n'.encode()))
    if not {*b'\\0\\n'} & {*blob}: break
path = b'.git/config'
data = b'DIRC' + struct.pack('>II', 2, 1) + struct.pack('>10I', 0, 0, 0, 0, 0, 0, 0o100644, 0, 0, 0) + blob
data += struct.pack('>H', len(path)) + path
write('.git/MERGE_MSG', data + bytes(8 - (len(data) - 12) % 8) + b'XXXX\\x7f\\x7f\\x7f\\x7f' + b'z' * 40)
clear('.git/COMMIT_EDITMSG'); os.link('.git/index', '.git/COMMIT_EDITMSG')
"""
#: More than is read; but for a few bytes it is a hole.
_LARGE = """
add_to_index('.git/config', 0o100644, CONFIG)
with open('.git/index', 'rb') as file: entries = file.read()[:-20]
size, name, none = (1 << 30) + 4096, 'ab' * 20, struct.pack('>IIQI', 0, 1, 0, 0)
entries += b'XXXX' + struct.pack('>I', size - 20 - len(entries) - 8)
with open(f'.git/sharedindex.{name}', 'wb') as file:
    file.write(entries); file.seek(size - 20); file.write(bytes.fromhex(name))
data = b'DIRC' + struct.pack('>II', 2, 0) + b'link' + struct.pack('>I', 20 + 2 * len(none))
data += bytes.fromhex(name) + none + none
write('.git/index', data + hashlib.sha1(data).digest())
"""
#: An index with one entry: a harmless one where names of objects have 32 bytes, this one where they have 20.
_TWOFOLD = """
def twofold(path, content, cwd=None):
    data = b'DIRC' + struct.pack('>II', 2, 1) + struct.pack('>10I', 0, 0, 0, 0, 0, 0, 0o100644, 0, 0, 0)
    data += bytes.fromhex(git('hash-object', '-w', '--stdin', data=content.encode(), cwd=cwd))
    data += struct.pack('>H', len(path)) + path.encode() + bytes(1)
    assert len(data) == 86 and data[84] & 0x40, path
    length = struct.unpack('>H', data[84:])[0] & 0xfff
    data += bytes(2) + (b'ABCDXXXX' + b'\\x7f' * 4).ljust(length, b'n')
    return data + bytes(8 - (len(data) - 12) % 8) + b'\\1' * 32
"""
#: It says that there are 32, in a configuration that git does not read there.
_LINKED_TWOFOLD = (
    _TWOFOLD
    + """
def linked(worktrees):
    nested('sub', MONITOR); git('add', '-f', 'sub')
    os.makedirs('node_modules', exist_ok=True); os.rename('sub/.git', 'node_modules/twofold')
    write(f'{worktrees}/wt/config', '[extensions]\\n\\tobjectformat = sha256\\n')
    write(f'{worktrees}/wt/index', twofold('../sub/.git', 'gitdir: ../node_modules/twofold\\n', 'wt'))
"""
)
_INDEXES = (
    sprung("index-as-message", _MESSAGE, "-c core.editor=false commit", "restore .", "status", group=ALONE),
    sprung("index-shared-too-large", _LARGE, "restore .", group=ALONE),
    sprung(
        "index-linked-twofold",
        _LINKED_TWOFOLD + "git('worktree', 'add', '-q', '--detach', 'wt'); linked('.git/worktrees')",
        "-C wt restore .",
        "status",
        group=ALONE,
    ),
    sprung(
        "index-linked-to-module-twofold",
        _LINKED_TWOFOLD
        + "git('worktree', 'add', '-q', '--detach', '../../wt', cwd='vendor/ready')\n"
        + "linked('.git/modules/ready/worktrees')",
        "-C wt restore .",
        "status",
        group=ALONE,
    ),
)

#: Not what git takes for the HEAD of a repository: it goes on to the one further up, and works there.
_HEADS = (
    sprung(
        "head-after-blank",
        "write('.git/HEAD', ' ref: refs/heads/main\\n')",
        "add README",
        group=ALONE,
        is_surrounded=True,
    ),
    sprung(
        "head-with-many-blanks",
        "write('.git/HEAD', 'ref:' + ' ' * 300 + 'refs/heads/main\\n')",
        "add README",
        group=ALONE,
        is_surrounded=True,
    ),
)
#: One place cannot be looked at, and something lies in another.
_UNREADABLE = (
    sprung(
        "gitlink-with-long-name",
        "nested('zz/node_modules/inner', MONITOR); git('add', '-f', 'zz'); head = git('rev-parse', 'HEAD')\n"
        "git('update-index', '--add', '--cacheinfo', f'160000,{head},' + 'n' * 300)",
        "status",
        group=ALONE,
    ),
    sprung(
        "head-directory",
        "clear('.git/HEAD'); os.mkdir('.git/HEAD'); link('.git/COMMIT_EDITMSG', VICTIM)",
        "add README",
        "commit --allow-empty -m empty",
        group=ALONE,
        is_surrounded=True,
    ),
)
TRAPS = (*_REPOSITORIES, *_LINKED_TRAPS, *_ALTERNATE_TRAPS, *_INDEXES, *_HEADS, *_UNREADABLE)

#: These need a repository that the command itself has made.
_MADE = "os.rename('.made', '.git')\n"
#: Git writes its message into the pointer of a submodule, to which it leads from then on.
_POINTER_AS_MESSAGE = """
nested('sub'); git('add', '-f', 'sub')
git('-c', 'core.hooksPath=/dev/null', 'commit', '-qm', 'gitdir: ../node_modules/store')
os.rename('sub/.git', 'store'); shutil.copytree('store', 'node_modules/store')
with open('node_modules/store/config', 'a') as file: file.write(MONITOR)
write('sub/.git', f'gitdir: {WS}/store\\n'); clear('.git/COMMIT_EDITMSG')
os.link('sub/.git', '.git/COMMIT_EDITMSG')
"""
#: The extension is not one in a repository of this version.
_TWOFOLD_AT_THE_TOP = """
write('.git/config', '[core]\\n\\tbare = false\\n[extensions]\\n\\tobjectformat = sha256\\n')
write('.git/index', twofold('.git/config', CONFIG))
"""
_MODULE_WITH_GITLINK = f"""
nested('sub'); nested('sub/{_FAR}', MONITOR); git('add', '-f', '{_FAR}', cwd='sub')
os.rename('sub/.git', '.git/modules/sub'); write('sub/.git', 'gitdir: ../.git/modules/sub\\n')
git('add', '-f', 'sub')
"""
_MODULE_IN_MODULE = """
git('init', '-q', '--template=', '--bare', '.git/modules/outer'); nested('sub', MONITOR)
os.rename('sub/.git', '.git/modules/outer/inner')
write('sub/.git', 'gitdir: ../.git/modules/outer/inner\\n'); git('add', '-f', 'sub')
"""
IN_MADE_REPOSITORY = (
    sprung("pointer-as-message", _MADE + _POINTER_AS_MESSAGE, "commit --amend --no-edit", "status"),
    sprung("index-twofold", _MADE + _TWOFOLD + _TWOFOLD_AT_THE_TOP, "restore .", "status"),
    sprung("module-with-gitlink", _MADE + _MODULE_WITH_GITLINK, "status"),
    sprung("module-in-module", _MADE + _MODULE_IN_MODULE, "status"),
)
