"""Differences between the workspace and a trial, as unified text."""

from __future__ import annotations

import difflib
import os
import sys

from corral.cli.colour import CYAN, GREEN, RED, is_coloured, paint
from corral.cli.trial.show import describe_change, summarize, worth_listing
from corral.model.printable import printable
from corral.model.rules.quantities import format_size
from corral.trials.change import ChangeAction, EntryKind, Reserve
from corral.trials.host_tree import HostTree
from corral.trials.layer import open_parent, open_stack
from corral.trials.record import reading_trial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from corral.trials.change import TrialChange
    from corral.trials.record import TrialRecord

#: A larger file is not shown line by line.
_MOST_BYTES = 2 * 1024 * 1024
_COLOURS = {"+": GREEN, "-": RED, "@": CYAN}


def print_diff(record: TrialRecord, changes: Iterable[TrialChange], *, stat: bool) -> None:
    """To a pager where stdout is a terminal. TRUST: there, what a command wrote is never sent as it is."""
    is_terminal = sys.stdout.isatty()
    listed = [change for change in changes if change.reserve is not Reserve.GIT]
    if stat:
        lines: Iterator[str] = _stat(record, listed)
    else:
        lines = diff_lines(record, listed)
    if is_terminal:
        coloured = is_coloured(sys.stdout)
        _page(_safe(line, coloured=coloured and not stat) for line in lines)
    else:
        sys.stdout.writelines(f"{line}\n" for line in lines)


def diff_lines(record: TrialRecord, changes: Iterable[TrialChange]) -> Iterator[str]:
    """The lines of all differences, without line ends."""
    for change in changes:
        if change.kind is EntryKind.DIRECTORY:
            continue
        name = printable(change.path)
        yield f"diff a/{name} b/{name}"
        yield f"# {describe_change(change)}"
        with reading_trial(record):
            before, after = _read_before(record, change), _read_after(record, change)
        if before is None or after is None:
            sizes = (
                f"{format_size(change.before_size, rounded=True)} -> {format_size(change.size, rounded=True)}"
            )
            yield f"# binary or large: {sizes}"
            continue
        old = "/dev/null" if change.action is ChangeAction.ADDED else f"a/{name}"
        new = "/dev/null" if change.action is ChangeAction.DELETED else f"b/{name}"
        for line in difflib.unified_diff(before, after, old, new, lineterm=""):
            yield line.removesuffix("\n")
            if not line.endswith("\n") and line[:1] in "+- " and not line.startswith(("+++", "---")):
                yield "\\ No newline at end of file"


def _stat(record: TrialRecord, changes: list[TrialChange]) -> Iterator[str]:
    for change in worth_listing(changes):
        lines = list(diff_lines(record, [change]))
        added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
        removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
        yield f"{printable(change.path)} | +{added} -{removed}"
    yield summarize(changes)


def _read_before(record: TrialRecord, change: TrialChange) -> list[str] | None:
    if change.before is None or change.before is EntryKind.DIRECTORY:
        return []
    with HostTree(record) as tree:
        directory, name = tree.parent(change.path)
        if change.before is EntryKind.LINK:
            return [f"{printable(os.readlink(name, dir_fd=directory))}\n"]
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return _read_text(os.open(name, flags, dir_fd=directory), change.before_size)


def _read_after(record: TrialRecord, change: TrialChange) -> list[str] | None:
    if change.action is ChangeAction.DELETED:
        return []
    with open_stack(record.layers) as stack:
        parent, entry = open_parent(stack, change.path)
        with parent:
            if change.kind is EntryKind.LINK:
                return [f"{printable(parent.read_link(entry))}\n"]
            if change.kind is not EntryKind.FILE:
                return None
            return _read_text(parent.open_file(entry), change.size)


def _read_text(handle: int, size: int) -> list[str] | None:
    """The lines of a text; None of anything else."""
    with open(handle, "rb") as file:
        if size > _MOST_BYTES:
            return None
        data = file.read(_MOST_BYTES + 1)
    if b"\0" in data or len(data) > _MOST_BYTES:
        return None
    # Only line feeds end a line: others are shown for what they are.
    return [f"{line}\n" for line in data.decode("utf-8", "surrogateescape").split("\n")][:-1] + _last(data)


def _last(data: bytes) -> list[str]:
    rest = data.rpartition(b"\n")[2].decode("utf-8", "surrogateescape")
    return [rest] if rest else []


def _safe(line: str, *, coloured: bool) -> str:
    text = "\t".join(map(printable, line.split("\t")))
    colour = _COLOURS.get(text[:1], "") if coloured else ""
    return paint(text, colour) if colour else text


def _page(lines: Iterator[str]) -> None:
    """By the user's own pager, if there is one."""
    import shlex
    import subprocess

    words = shlex.split(os.environ.get("PAGER", "")) or ["less", "-FRX"]
    try:
        pager = subprocess.Popen(words, stdin=subprocess.PIPE, text=True, errors="backslashreplace")
    except OSError:
        sys.stdout.writelines(f"{line}\n" for line in lines)
        return
    assert pager.stdin is not None
    try:
        pager.stdin.writelines(f"{line}\n" for line in lines)
        pager.stdin.close()
    except BrokenPipeError:
        pass  # whoever has seen enough
    pager.wait()
