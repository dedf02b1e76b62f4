"""Transcripts in documents: commands, and what they print."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


def blocks_of(document: Path, kind: str) -> list[str]:
    """The blocks of one kind in a document, such as `console` or `python`."""
    return re.findall(rf"```{kind}\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL)


def steps_of(document: Path) -> list[tuple[str, list[str]]]:
    """Command and output of every step, in all transcripts of a document."""
    steps: list[tuple[str, list[str]]] = []
    for line in "".join(blocks_of(document, "console")).splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        else:
            steps[-1][1].append(line)
    return steps


def told_first(lines: list[str]) -> list[str]:
    """Corral's own lines about the network before the others: they come whenever something is refused."""
    return sorted(lines, key=lambda line: not line.startswith("corral: net."))
