"""Whether to print in colour: on a terminal only, and not where NO_COLOR or TERM say otherwise."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

GREEN, YELLOW, RED, CYAN = "32", "33", "31", "36"


def is_coloured(stream: TextIO) -> bool:
    """Whether this stream is a terminal whose user wants colours (https://no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def paint(text: str, code: str) -> str:
    """The text in a colour."""
    return f"\x1b[{code}m{text}\x1b[0m"
