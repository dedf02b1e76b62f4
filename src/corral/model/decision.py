"""Decision: what a policy answers about one path or one connection, and why."""

from __future__ import annotations

from enum import StrEnum

from corral.model.record import Record


class Reason(StrEnum):
    """What a decision rests on."""

    GRANTED = "granted"
    READ_ONLY = "read-only"  # granted, but not for writing
    DENIED = "denied"
    HIDDEN = "hidden"  # denied in every home, whatever the policy says
    PROTECTED = "protected"  # a name that the host may run or trust later
    PRIVATE = "private"  # the sandbox has its own there, empty at first
    STRUCTURAL = "structural"  # /proc and /dev are made anew
    NOT_EXECUTABLE = "not executable"  # whatever is granted, it is no program
    NOT_GRANTED = "not granted"  # no rule is about it
    UNCONFINED = "unconfined"  # there is no sandbox
    REFUSED = "refused"  # by this policy nothing runs in this workspace


class Decision(Record):
    allowed: bool
    reason: Reason
    subject: str  # the real path, links followed; or the endpoint
    rule: str = ""  # the path, endpoint or host of the rule that decided; empty for none
    is_missing: bool = False
