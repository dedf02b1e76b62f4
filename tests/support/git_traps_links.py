"""Links under every name that git opens for writing: the user's next command then writes elsewhere."""

from __future__ import annotations

from support.git_trap import DIRECTORIES, FILES, GONE, MORE, STATES, Trap

_RENAMED = "git writes a new file and renames it over the link"
_LOCK = "git makes a lock with O_EXCL, which follows no link"
_UNLINKED = "git removes the link before it writes the file"
_READ = "git only reads it"
_SPLIT = "only a split commit graph is written there"

#: Name in .git | where it leads | commands, `;` between them | why they do not write there.
#: `file` is a file, `new` a name that is not there, `up` a file by a relative path, the others directories.
_WRITTEN = """
COMMIT_EDITMSG            | file | commit --allow-empty -m empty |
MERGE_MSG                 | file | merge other |
SQUASH_MSG                | up   | merge --squash topic |
TAG_EDITMSG               | file | tag -a v3 |
NOTES_EDITMSG             | new  | notes edit |
EDIT_DESCRIPTION          | file | branch feature; branch --edit-description feature |
ADD_EDIT.patch            | file | add -e |
FETCH_HEAD                | up   | fetch |
AUTO_MERGE                | file | merge other |
MERGE_MODE                | file | merge other |
MERGE_AUTOSTASH           | file | merge --autostash topic |
logs/HEAD                 | file | commit --allow-empty -m empty |
logs/ORIG_HEAD            | file | commit --allow-empty -m empty; reset --soft HEAD |
logs/CHERRY_PICK_HEAD     | file | cherry-pick other |
logs/refs/heads/main      | up   | commit --allow-empty -m empty |
logs/refs/tags/v2         | file | tag v2 |
logs/refs/remotes/origin/main | file | fetch |
packed-refs               | new  | pack-refs --all |
gc.pid                    | file | gc |
info/sparse-checkout      | file | sparse-checkout set --no-cone /src/ /README |
objects/info/commit-graph | new  | commit-graph write --reachable |
objects/pack/multi-pack-index | new | repack -ad; multi-pack-index write |
rr-cache                  | dir  | merge other |
rebase-apply              | dir  | am --abort |
worktrees                 | dir  | worktree prune |
"""
_DIRECTORIES = """
COMMIT_EDITMSG            | new  | commit --allow-empty -m empty |
MERGE_MSG                 | new  | merge other |
FETCH_HEAD                | file | fetch |
index                     | new  | add . |
rebase-merge              | dir  | rebase --quit |
sequencer                 | dir  | cherry-pick other |
NOTES_MERGE_WORKTREE      | dir  | notes merge --abort |
refs/notes                | empty | notes add -m note |
refs/tags                 | empty | tag v2 |
refs/remotes              | empty | fetch |
refs/bisect               | dir  | bisect start |
objects/pack              | packs | repack -ad |
objects/info              | dir  | update-server-info |
logs                      | dir  | commit --allow-empty -m empty |
refs/heads                | empty | branch feature |
"""
_SELDOM = f"""
addp-hunk-edit.diff       | file | add -e | `git add --patch` alone writes it, and needs a terminal
ORIG_HEAD                 | file | reset --soft HEAD | {_RENAMED}
MERGE_HEAD                | new  | merge other | git takes it for a merge that is not concluded
CHERRY_PICK_HEAD          | new  | cherry-pick other | {_RENAMED}
REVERT_HEAD               | new  | revert --no-commit v1 | {_RENAMED}
REBASE_HEAD               | new  | rebase other | {_RENAMED}
BISECT_START              | new  | bisect start | {_UNLINKED}
BISECT_LOG                | new  | bisect start | {_UNLINKED}
BISECT_NAMES              | file | bisect start | {_UNLINKED}
BISECT_TERMS              | file | bisect start; bisect bad; bisect good v1 | {_UNLINKED}
BISECT_EXPECTED_REV       | file | bisect start; bisect bad; bisect good v1 | {_UNLINKED}
BISECT_ANCESTORS_OK       | new  | bisect start; bisect bad; bisect good v1 | {_UNLINKED}
BISECT_FIRST_PARENT       | new  | bisect start | {_UNLINKED}
BISECT_RUN                | new  | bisect start | {_UNLINKED}
NOTES_MERGE_REF           | new  | notes merge --abort | {_RENAMED}
refs/heads/feature        | new  | branch feature | {_RENAMED}
refs/tags/v2              | new  | tag v2 | {_RENAMED}
refs/stash                | new  | stash | {_RENAMED}
refs/remotes/origin/main  | new  | fetch | {_RENAMED}
refs/notes/commits        | new  | notes add -m note | {_RENAMED}
packed-refs.new           | file | pack-refs --all | git removes it and makes it anew with O_EXCL
shallow                   | new  | fetch | a shallow fetch alone writes it
gc.log                    | file | gc | {_READ} unless it works in the background
gc.log.lock               | file | gc | {_LOCK}
gc.pid.lock               | new  | gc | {_LOCK}
description               | file | status | {_READ}
info/exclude              | file | status | {_READ}
info/grafts               | file | log -p -1 | {_READ}
info/refs                 | file | update-server-info | {_RENAMED}
objects/info/packs        | file | update-server-info | {_RENAMED}
objects/info/alternates   | file | gc | {_READ}
objects/info/commit-graphs/commit-graph-chain | new | commit-graph write --reachable | {_SPLIT}
objects/info/commit-graphs | dir | commit-graph write --reachable | {_SPLIT}
objects/maintenance.lock  | new  | maintenance run | {_LOCK}
COMMIT_EDITMSG            | up   | commit --allow-empty -m empty |
logs/refs                 | dir  | branch feature |
"""
_GONE = f"""
HEAD                      | new  | commit --allow-empty -m empty | a repository without HEAD is none
HEAD.lock                 | new  | switch other | {_LOCK}
index.lock                | new  | add . | {_LOCK}
config.lock               | new  | branch feature; branch --edit-description feature | {_LOCK}
packed-refs.lock          | new  | pack-refs --all | {_LOCK}
shallow.lock              | new  | fetch | {_LOCK}
refs/heads/main.lock      | new  | commit --allow-empty -m empty | {_LOCK}
refs/heads/main           | file | commit --allow-empty -m empty | {_RENAMED}
"""
#: Objects are taken out of the packs before these go.
_UNPACK = """
for name in os.listdir('.git/objects/pack'):
    if name.endswith('.pack'):
        with open('.git/objects/pack/' + name, 'rb') as file: data = file.read()
        clear('.git/objects/pack'); os.mkdir('.git/objects/pack')
        git('unpack-objects', '-q', data=data); break
"""
#: Refs are packed before a directory of theirs goes: the repository is whole without it.
_LINK = {
    "file": "link({path!r}, VICTIM)",
    "new": "link({path!r}, AIM + '/new')",
    "up": "link({path!r}, '../' * {depth} + '../out/' + NAME + '/startup')",
    "dir": "link({path!r}, DIR)",
    "empty": "git('pack-refs', '--all'); link({path!r}, EMPTY)",
    "packs": _UNPACK + "link({path!r}, EMPTY)",
}


def _traps(table: str, group: str) -> list[Trap]:
    found = []
    for line in table.strip().splitlines():
        name, where, commands, why = (part.strip() for part in line.split("|"))
        path = f".git/{name}"
        code = _LINK[where].format(path=path, depth=path.count("/"))
        typed = tuple(command.strip() for command in commands.split(";"))
        found.append(Trap(f"link-{where}-{name.replace('/', '-')}", code, typed, why, group))
    return found


_REFS = Trap("link-empty-refs", _LINK["empty"].format(path=".git/refs"), ("branch feature",), group=STATES)
_OBJECTS = Trap("link-dir-objects", "link('.git/objects', DIR)", ("add .",), group=GONE)
#: A sandbox has mounts in these.
_MODULES = Trap(
    "link-dir-modules",
    "clear('.git/modules'); link('.git/modules', DIR)",
    ("submodule update --init",),
    group=FILES,
    held=True,
)
_INFO = Trap("link-dir-info", "link('.git/info', DIR)", ("update-server-info",), group=DIRECTORIES, held=True)
TRAPS = (
    _REFS,
    _OBJECTS,
    _INFO,
    _MODULES,
    *_traps(_WRITTEN, FILES),
    *_traps(_DIRECTORIES, DIRECTORIES),
    *_traps(_SELDOM, MORE),
    *_traps(_GONE, GONE),
)
