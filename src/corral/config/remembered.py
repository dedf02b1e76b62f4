"""Settings of a file, remembered: a text that was read once need not be parsed again.

Parsing TOML and finding the place of each key takes longer than starting a sandbox. What is remembered is
believed only for the very same text at the very same path, compared character by character; so there is
nothing to go out of date. It is kept in corral's state directory, which no command can write. A host where
that is not possible simply parses every time.
"""

from __future__ import annotations

import contextlib
import marshal
import os
from binascii import crc32

from corral import __version__
from corral.config.keys import BY_NAME, KEYS
from corral.config.setting import FileSettings, Origin, Section, Setting, Source
from corral.host.state import read_state, write_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from corral.config.find import Found

#: What the remembered form depends on besides the text.
_MARK = (2, __version__, tuple(key.name for key in KEYS))
_MOST_BYTES = 4 * 1024 * 1024


def read_remembered(found: Found, read: Callable[[Found], FileSettings]) -> FileSettings:
    """The settings of a file: remembered, or read now and remembered. Raises what `read` raises."""
    name = f"parsed/{crc32(os.fsencode(found.path)):08x}"
    identity = (*_MARK, found.path, found.is_project, found.text)
    known = _decode(read_state(name, _MOST_BYTES), identity)
    if known is not None:
        return known
    settings = read(found)
    with contextlib.suppress(OSError):
        write_state(name, marshal.dumps((identity, _encode(settings))))
    return settings


def _encode(settings: FileSettings) -> tuple[Any, ...]:
    sections = [
        (section.agent, [(s.key.name, s.value, s.origin.line, s.origin.column) for s in section.settings])
        for section in settings.sections
    ]
    return sections, sorted(settings.agents)


def _decode(data: bytes, identity: tuple[object, ...]) -> FileSettings | None:
    try:
        known, (sections, agents) = marshal.loads(data)  # noqa: S302 - corral's own file, in a directory of its own
    except (ValueError, EOFError, TypeError):
        return None
    if known != identity:
        return None
    _, _, _, path, is_project, _ = identity
    source = Source.PROJECT if is_project else Source.USER
    file = str(path)
    return FileSettings(
        file,
        tuple(
            Section(
                agent,
                tuple(
                    Setting(BY_NAME[name], value, Origin(source, file, line, column, agent))
                    for name, value, line, column in settings
                ),
            )
            for agent, settings in sections
        ),
        frozenset(agents),
    )
