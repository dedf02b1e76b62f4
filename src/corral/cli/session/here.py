"""Which named session is meant where none is named, and one line about it. Nothing slow is imported."""

from __future__ import annotations

import os
import sys

from corral.cli.colour import GREEN, RED, YELLOW, is_coloured, paint
from corral.model.errors import CorralError
from corral.sessions.named.record import FAILED, RUNNING, STARTING, STOPPED, find_entry, list_entries
from corral.sessions.named.session_directory import check_name, default_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.sessions.named.record import SessionRecord

_COLOURS = {RUNNING: GREEN, STARTING: YELLOW, FAILED: RED, STOPPED: RED}
WHEN = ("auto", "always", "never")


def name_or_default(name: str | None) -> str:
    """The name itself, or that of the workspace that the caller is in. Raises CorralError."""
    if name is not None:
        return check_name(name)
    here = _here()
    for directory in _upwards(here):
        if find_entry(default_name(directory)) is not None:
            return default_name(directory)
    return default_name(here)


def find_here() -> SessionRecord | None:
    """The session of this workspace: the one that is called after it, else one that was started for it."""
    found = find_entry(name_or_default(None))
    if found is not None and found[1].is_living:
        return found[1]
    above = set(_upwards(_here()))
    others = [entry for _, entry in list_entries() if entry.workspace in above and entry.is_living]
    if others:
        return max(others, key=lambda entry: (len(entry.workspace), entry.began))
    return found[1] if found is not None else None


def print_line(name: str | None, colour: str) -> int:
    """`⬡ Sandbox (native) running`; nothing where there is no session. 0 if it runs, or will."""
    try:
        found = find_entry(check_name(name)) if name is not None else None
        entry = found[1] if found is not None else find_here() if name is None else None
    except (CorralError, OSError):  # a prompt is no place for three lines
        return 1
    if entry is None:
        return 1
    text = f"⬡ Sandbox ({entry.backend}) {entry.state}" if entry.backend else f"⬡ Sandbox {entry.state}"
    if _is_coloured(colour):
        text = paint(text, _COLOURS.get(entry.state, "0"))
    sys.stdout.write(f"{text}\n")
    return 0 if entry.is_living else 1


def _is_coloured(when: str) -> bool:
    if when == "auto":
        return is_coloured(sys.stdout)
    return when == "always"


def _here() -> str:
    return os.path.realpath(os.getcwd())


def _upwards(path: str) -> Iterator[str]:
    yield path
    while path != "/":
        path = os.path.dirname(path)
        yield path


def parse_line(arguments: list[str]) -> tuple[str | None, str] | None:
    """The quick way to read `status --line`; None for what is click's to explain."""
    name, colour = None, "auto"
    rest = [argument for argument in arguments if argument != "--line"]
    if len(rest) == len(arguments):
        return None
    while rest:
        word = rest.pop(0)
        if word == "--color" and rest and rest[0] in WHEN:
            colour = rest.pop(0)
        elif word.startswith("--color=") and word[8:] in WHEN:
            colour = word[8:]
        elif not word.startswith("-") and name is None:
            name = word
        else:
            return None
    return name, colour
