"""Where repositories lie inside a directory: the one search that the plan and the look afterwards share."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MOST_DEPTH = 6
MOST_DIRECTORIES = 4096
NEVER_ENTERED = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", "target", "dist"})


def find_worktrees(
    root: str,
    subdirectories: Callable[[str], Iterable[str]],
    has_git: Callable[[str], bool],
    give_up: Callable[[str], None],
) -> Iterator[str]:
    """Directories below a root that have a `.git`, level by level; the search is bounded.

    `give_up` is called with the first directory that is not looked into because there are too many.
    INVARIANT: the plan of the next run takes what it finds for the host's own. So what a command has made is
    looked for as far as the plan looks.
    """
    queue = [(root, 0)]
    for looked, (directory, level) in enumerate(queue):  # grows while it is gone through
        if looked == MOST_DIRECTORIES:
            give_up(directory)
            return
        for name in subdirectories(directory):
            if name in NEVER_ENTERED:
                continue
            path = f"{directory}/{name}"
            if has_git(path):
                yield path
            if level + 1 < MOST_DEPTH:
                queue.append((path, level + 1))
