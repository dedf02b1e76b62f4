"""Row: how much of a limit a command could get."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One line of the table."""

    enforcer: str  # "docker 20.10.24", "native, control groups 1"
    limit: str  # as the case is called: "memory", "memory of 4 processes"
    asked: float
    got: float
    unit: str

    @property
    def deviation(self) -> float:
        """How far what it got is from what was asked for: -0.01 is one percent less."""
        return self.got / self.asked - 1
