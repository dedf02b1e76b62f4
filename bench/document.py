"""Programs that measure, and the measured parts of documents: what is between two marks is replaced."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import goals
import machine
from goals import Goal

Found = TypeVar("Found")

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


def measure_and_tell(
    described_as: str,
    measure: Callable[..., Found],
    judge: Callable[[Found], list[Goal]],
    render: Callable[[Found, list[Goal]], Iterable[str]],
    *,
    document: str,
    part: str,
) -> int:
    """A program that measures: prints its tables, records them with --record, and says what was missed."""
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=described_as, formatter_class=as_written)
    parser.add_argument("--quick", action="store_true", help="few rounds, to see that it works")
    parser.add_argument("--record", action="store_true", help=f"put the tables into docs/{document}")
    given = parser.parse_args()
    began = time.monotonic()
    described = list(machine.describe())
    found = measure(quick=given.quick)
    described.append(f"measured in {time.monotonic() - began:.0f} seconds")
    judged = judge(found)
    if given.quick:
        print("- a look whether it works: these numbers mean nothing")
    lines = [*(f"- {line}" for line in described), "", *render(found, judged)]
    print(*lines, "", goals.summary(judged), sep="\n")
    if given.record:
        record(DOCS / document, part, ["", *lines, ""])
    return goals.exit_status(judged)
