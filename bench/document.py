"""Measured parts of documents: what lies between two marks is replaced, the rest is written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
_BEGIN, _END = "<!-- measured: {} -->", "<!-- end of measured -->"


def record(document: Path, part: str, lines: Sequence[str]) -> None:
    """Put the lines between the marks. Raises ValueError if they are not there."""
    text = document.read_text(encoding="utf-8")
    before, begin, rest = text.partition(_BEGIN.format(part))
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise ValueError(f"{document.name} has no part {part!r}")
    document.write_text("\n".join([before + begin, *lines, end]) + after, encoding="utf-8")
