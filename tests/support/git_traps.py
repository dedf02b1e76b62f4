"""Everything that we can think of that a command leaves in a repository for the user's next git command.

To add a trap, write it into one of the lists; `python -m support.git_table NAME` says what springs it.
"""

from __future__ import annotations

from support import (
    git_traps_detours,
    git_traps_files,
    git_traps_links,
    git_traps_more,
    git_traps_nested,
    git_traps_states,
)
from support.git_commands import SITTINGS
from support.git_trap import GROUPS, Trap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: In the order in which they are planted: what needs git to be planted, before what would be in its way.
TRAPS: tuple[Trap, ...] = (
    *git_traps_states.TRAPS,
    *git_traps_detours.TRAPS,
    *git_traps_files.TRAPS,
    *git_traps_nested.TRAPS,
    *git_traps_more.TRAPS,
    *git_traps_links.TRAPS,
    *git_traps_files.LAST,
    *git_traps_more.LAST,
)


def springing(traps: Iterable[Trap] = TRAPS) -> list[list[str]]:
    """Of everything that people type, in sittings, what springs one of the traps."""
    named = {command for trap in traps if not trap.harmless for command in trap.commands}
    chosen = ([command for command in sitting if command in named] for sitting in SITTINGS)
    return [sitting for sitting in chosen if sitting]


def in_group(group: str) -> tuple[Trap, ...]:
    """All that can lie in one repository."""
    assert group in GROUPS, group
    return tuple(trap for trap in TRAPS if trap.group == group)
