"""Everything that we can think of that a command leaves in a repository for the user's next git command.

To add a trap, write it into one of the lists; `python -m support.git_table NAME` says what springs it.
"""

from __future__ import annotations

from support import git_traps_files, git_traps_links, git_traps_more, git_traps_nested, git_traps_states
from support.git_trap import GROUPS, Trap

#: In the order in which they are planted: what needs git to be planted, before what would be in its way.
TRAPS: tuple[Trap, ...] = (
    *git_traps_states.TRAPS,
    *git_traps_files.TRAPS,
    *git_traps_nested.TRAPS,
    *git_traps_more.TRAPS,
    *git_traps_links.TRAPS,
    *git_traps_files.LAST,
    *git_traps_more.LAST,
)


def in_group(group: str) -> tuple[Trap, ...]:
    """All that can lie in one repository."""
    assert group in GROUPS, group
    return tuple(trap for trap in TRAPS if trap.group == group)
