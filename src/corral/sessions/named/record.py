"""SessionRecord: what is known of a named session without asking it. Every prompt reads it: nothing slow."""

from __future__ import annotations

import os

from corral.model.record import Record
from corral.sessions.named.session_directory import RECORD, open_session_directories

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from corral.sessions.named.session_directory import SessionDirectory

STARTING, RUNNING, FAILED, STOPPED = "starting", "running", "failed", "stopped"
_LIVING = frozenset({STARTING, RUNNING})
_MOST_BYTES = 65_536
_OVER = frozenset("ZX")


class SessionRecord(Record):
    """One session; every field is a line of its file."""

    name: str
    state: str
    pid: int = 0
    born: str = ""  # when that process was started: numbers are used again
    backend: str = ""
    policy: str = ""
    workspace: str = ""
    limits: str = ""
    began: float = 0.0
    ended: float = 0.0
    reason: str = ""  # why it is over
    idle_seconds: float = 0.0  # 0: no limit
    lifetime_seconds: float = 0.0
    output_bytes: int = 0  # 0: no limit
    is_fresh: bool = False  # every command gets a sandbox of its own
    check_mode: str = "off"  # how the text of each command is checked, by whoever sends it
    check_rules: str = ""  # files of rules for that, a line each
    token: str = ""  # TRUST: whoever cannot read this file is not served
    agent: str = ""  # for whom it runs commands

    @property
    def is_living(self) -> bool:
        """Whether its process is there, or should be."""
        return self.state in _LIVING


def write_entry(place: SessionDirectory, entry: SessionRecord) -> None:
    """Replace the record of a session. Raises OSError."""
    lines = (f"{field}={_encoded(getattr(entry, field))}" for field in SessionRecord._fields)
    place.replace(f"{entry.name}{RECORD}", "\n".join(lines).encode("ascii"))


def read_entry(place: SessionDirectory, name: str) -> SessionRecord | None:
    """The record of a session, held to what is really there; None if there is none, or it cannot be read."""
    text = place.read(f"{name}{RECORD}", _MOST_BYTES).decode("ascii", "replace")
    values: dict[str, Any] = {}
    for line in text.split("\n"):
        field, _, raw = line.partition("=")
        if field in SessionRecord._fields:
            try:
                values[field] = _decoded(raw, SessionRecord._defaults.get(field, ""))
            except ValueError:
                return None
    if values.get("name") != name or "state" not in values:
        return None
    return _judged(SessionRecord(**values))


def list_entries() -> Iterator[tuple[SessionDirectory, SessionRecord]]:
    """All sessions of this user, with the places they are in."""
    for place in open_session_directories():
        for name in place.names():
            entry = read_entry(place, name)
            if entry is not None:
                yield place, entry


def find_entry(name: str) -> tuple[SessionDirectory, SessionRecord] | None:
    """A session by its name; one that lives before one that is over."""
    found = None
    for place in open_session_directories():
        entry = read_entry(place, name)
        if entry is not None and entry.is_living:
            return place, entry
        found = found or (None if entry is None else (place, entry))
    return found


def birth(pid: int) -> str:
    """When a process was started, and since which start of the machine; empty if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()  # the name may hold spaces and parentheses
    except OSError:
        return ""
    if len(fields) < 20 or fields[0] in _OVER:  # nobody has asked how it ended, but it has
        return ""
    return f"{fields[19]} {_boot()}"


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def _judged(entry: SessionRecord) -> SessionRecord:
    if not entry.is_living or birth(entry.pid) == entry.born:
        return entry
    return entry.replace(
        state=FAILED, reason="its host process was killed, or the machine was started again since"
    )


def _encoded(value: object) -> str:
    return str(value).encode("unicode_escape").decode("ascii")


def _decoded(raw: str, like: object) -> object:
    if isinstance(like, bool):
        return raw == "True"
    if isinstance(like, int | float):
        return type(like)(raw)
    return raw.encode("ascii", "replace").decode("unicode_escape")
