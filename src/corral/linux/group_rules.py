"""What groups of system calls have besides their calls: other calls do the same when an argument says so."""

from __future__ import annotations

from corral.linux.rule import (
    EPERM,
    Rule,
    different,
    equal,
    masked_any,
    masked_different,
    masked_equal,
)
from corral.model.rules.syscall_groups import GROUPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

O_TRUNC, O_ASYNC = 0x200, 0x2000
FALLOC_FL_COLLAPSE_RANGE = 0x08
RENAME_SPARING = 0x3  # RENAME_NOREPLACE and RENAME_EXCHANGE
F_SETFL, F_SETOWN, F_SETSIG, F_SETOWN_EX = 4, 8, 10, 15
FIOASYNC, FIOSETOWN, SIOCSPGRP, TIOCSIG = 0x5452, 0x8901, 0x8902, 0x40045436
PR_SET_PDEATHSIG, SIGCHLD = 1, 17

_CUTS = "cuts a file off"
_TELLS = "has the kernel send a signal"

_RULES: dict[str, tuple[Rule, ...]] = {
    "@remove": (
        Rule("renameat2", EPERM, "removes what it renames over", (masked_equal(4, RENAME_SPARING, 0),)),
    ),
    "@signal": (
        *(Rule("fcntl", EPERM, _TELLS, (equal(1, way),)) for way in (F_SETOWN, F_SETSIG, F_SETOWN_EX)),
        Rule("fcntl", EPERM, _TELLS, (equal(1, F_SETFL), masked_any(2, O_ASYNC))),
        *(
            Rule("ioctl", EPERM, _TELLS, (equal(1, way),))
            for way in (FIOASYNC, FIOSETOWN, SIOCSPGRP, TIOCSIG)
        ),
        Rule("prctl", EPERM, _TELLS, (equal(0, PR_SET_PDEATHSIG), different(1, 0))),
        Rule(
            "clone",
            EPERM,
            "a child's end sends its parent a signal of choice",
            (masked_different(0, 0xFF, 0), masked_different(0, 0xFF, SIGCHLD)),
        ),
    ),
    "@truncate": (
        Rule("open", EPERM, _CUTS, (masked_any(1, O_TRUNC),)),
        Rule("openat", EPERM, _CUTS, (masked_any(2, O_TRUNC),)),
        Rule("fallocate", EPERM, _CUTS, (masked_any(1, FALLOC_FL_COLLAPSE_RANGE),)),
    ),
}


def rules_of_groups(denied: Collection[str]) -> Iterator[Rule]:
    """Of the groups whose calls are all denied, by the group's name or one by one: the rest of each.

    So a policy needs no word for them, and one that denies more never permits more.
    """
    for name, rules in _RULES.items():
        if set(GROUPS[name]) <= set(denied):
            yield from (rule for rule in rules if rule.syscall not in denied)
