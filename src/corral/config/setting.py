"""Setting: one value of one key, and where it was said."""

from __future__ import annotations

import os
from enum import StrEnum

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from corral.config.keys import Key


class Source(StrEnum):
    """Where a value can come from, in the order in which they count."""

    DEFAULT = "default"
    PRESET = "preset"
    USER = "user file"
    PROJECT = "project file"
    ENVIRONMENT = "environment"
    FLAG = "flag"


def shorten(path: str) -> str:
    """A path with the home directory as ~."""
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if home != "/" and path.startswith(home + "/") else path


class Origin(Record):
    """Where something was said. `str()` is what a person can look up: `~/x/corral.toml:3:1`, `--net`."""

    source: Source
    name: str = ""  # a file, a variable, a flag
    line: int = 0
    column: int = 0
    agent: str = ""  # said in this agent's section

    def __str__(self) -> str:
        name = shorten(self.name)
        place = f"{name}:{self.line}:{self.column}" if self.line else name or self.source.value
        return f"{place} (agent {self.agent})" if self.agent else place

    def to_json(self) -> dict[str, object]:
        """All of it, under the names of the fields."""
        fields: dict[str, object] = {"source": self.source.value, "name": self.name, "agent": self.agent}
        if self.line:
            return {**fields, "line": self.line, "column": self.column}
        return fields


class Setting(Record):
    key: Key
    value: Any  # canonical; for a list one element, for a table one (name, value)
    origin: Origin


class Section(Record):
    """The settings of one file for one agent; the empty name is for all of them."""

    agent: str
    settings: tuple[Setting, ...]


class FileSettings(Record):
    """All that one file says."""

    file: str
    sections: tuple[Section, ...]
    agents: frozenset[str]  # defined here, even if nothing is said about them

    @property
    def is_empty(self) -> bool:
        """Whether nothing is said at all, as in most files called pyproject.toml."""
        return not self.agents and not any(section.settings for section in self.sections)

    def for_agent(self, agent: str) -> tuple[Setting, ...]:
        """What holds for everyone, then what holds for this agent."""
        found = [section for section in self.sections if section.agent in {"", agent}]
        return tuple(
            setting
            for section in sorted(found, key=lambda section: section.agent != "")
            for setting in section.settings
        )
