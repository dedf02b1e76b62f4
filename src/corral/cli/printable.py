"""Text that may hold names chosen by a hostile command, made safe to show on a terminal."""

from __future__ import annotations

#: C0 without the line feed, delete, and C1: what terminals take for commands.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code != 0x0A}


def printable(text: str) -> str:
    """The text with control characters spelled out and undecodable bytes replaced."""
    return text.translate(_CONTROLS).encode("utf-8", "backslashreplace").decode()
