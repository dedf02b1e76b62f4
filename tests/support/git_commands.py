"""What people type: git commands in an order that makes sense, and none needs that another succeeded.

They come in sittings. Each sitting begins with what the command in the sandbox left: git itself removes some
traps (`commit` clears away MERGE_MSG and its like), and then a later command would not meet them. Before each
the user has changed a line of README. No network is needed, and the editor is `true`.
"""

from __future__ import annotations

import shlex

_SITTINGS = (
    # Look around, and work.
    """
    status
    status --short --branch
    diff
    diff --cached
    diff --submodule=diff
    log -p -1
    show
    ls-files
    ls-files --others --modified
    branch
    tag
    remote -v
    config --list
    reflog
    describe
    blame README
    shortlog HEAD
    grep --recurse-submodules read
    sparse-checkout list
    stash
    stash list
    stash show -p
    stash pop
    commit --allow-empty -m empty
    add -e
    add .
    commit -a -m work
    commit --amend --no-edit
    reset --soft HEAD
    format-patch -1
    format-patch -v2 -1
    -C src format-patch -1
    apply --check 0001-work.patch
    am 0001-work.patch
    am --abort
    branch feature
    branch --edit-description feature
    branch -m feature renamed
    branch -d renamed
    tag v2
    tag -a v3
    notes add -m note
    notes edit
    switch other
    status
    switch main
    checkout topic
    checkout -
    """,
    """
    merge --squash topic
    commit --no-edit
    """,
    # Throw changes away.
    """
    restore .
    restore --staged .
    checkout -- .
    checkout-index --all --force
    reset --hard
    checkout topic
    """,
    # Take up what is in progress, or end it.
    """
    rebase --edit-todo
    stash
    rebase --continue
    rebase --skip
    rebase --abort
    rebase --quit
    """,
    """
    am --continue
    am --skip
    am --abort
    """,
    """
    am --quit
    cherry-pick --continue
    cherry-pick --skip
    cherry-pick --abort
    cherry-pick --quit
    """,
    """
    revert --continue
    revert --abort
    merge --continue
    merge --abort
    bisect good v1
    bisect log
    bisect reset
    notes merge --abort
    """,
    # Join branches.
    """
    merge other
    rerere
    merge --abort
    merge --squash other
    reset --hard
    merge topic
    """,
    """
    cherry-pick other
    cherry-pick --abort
    cherry-pick topic
    revert --no-edit HEAD
    revert --no-commit v1
    revert --abort
    """,
    """
    stash
    rebase other
    rebase --continue
    rebase --skip
    rebase --abort
    rebase --apply other
    rebase --abort
    """,
    """
    bisect start
    bisect bad
    bisect good v1
    bisect reset
    """,
    # Share, and what belongs to other repositories.
    """
    fetch
    fetch upstream
    pull
    stash
    pull --rebase
    push
    push upstream main
    remote update
    remote prune origin
    submodule status
    submodule sync
    submodule update --init
    submodule foreach git status
    mv vendor/lib vendor/moved
    """,
    """
    -C src status
    -C src fetch
    -C wt status
    -C vendor/lib status
    -C vendor/lib log -1
    -C vendor/lib checkout -- .
    -C vendor/lib commit --allow-empty -m empty
    """,
    """
    merge --autostash topic
    worktree list
    worktree repair
    worktree prune
    worktree add wt topic
    worktree remove wt
    """,
    # Tidy up.
    """
    pack-refs --all
    commit-graph write --reachable
    update-server-info
    maintenance run
    repack -ad
    multi-pack-index write
    gc
    reflog expire --expire=now --all
    gc --prune=now
    fsck
    sparse-checkout set --no-cone /src/ /README
    sparse-checkout disable
    stash --include-untracked
    stash drop
    clean -nd
    clean -fd
    status
    """,
)


def words_of(command: str) -> tuple[str, ...]:
    """The words of a command as it is typed, without `git`."""
    return tuple(shlex.split(command))


SITTINGS = tuple(
    tuple(line.strip() for line in sitting.splitlines() if line.strip()) for sitting in _SITTINGS
)
COMMANDS = tuple(dict.fromkeys(command for sitting in SITTINGS for command in sitting))
