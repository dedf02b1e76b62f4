"""A file of patterns: what it names is denied, as .gitignore would read it in the workspace."""

from __future__ import annotations

import os
import stat

from corral.model.errors import PolicyError

_MOST_BYTES = 1 << 20
_BLANKS = frozenset(" \t\r")


def read_pattern_file(path: str) -> tuple[str, ...]:
    """What each line denies, as a policy has it. Raises PolicyError for a line that cannot be held.

    A line without a slash holds at any depth below whatever is granted; any other begins in the workspace.
    """
    found = []
    for number, line in enumerate(_read(path).split("\n"), 1):
        text = _stripped(line)
        if not text or text.startswith("#"):
            continue
        if text.startswith("!"):
            why = f"line {number}, {text!r}, would take back what another one denies, and nothing can"
            raise _wrong(path, why, "leave the line out, and deny less")
        text = text.removeprefix("\\") if text.startswith("\\#") else text
        is_name = "/" not in text.rstrip("/")
        if is_name or text.startswith("**/"):
            found.append(text if text.startswith("**/") else f"**/{text}")
        else:
            found.append(f"${{workspace}}/{text.lstrip('/')}")
    return tuple(dict.fromkeys(found))


def _stripped(line: str) -> str:
    """Without spaces at the end, but for one that a backslash keeps."""
    found, end, at = [], 0, 0
    while at < len(line):
        step = line[at : at + 2] if line[at] == "\\" else line[at]
        at += len(step)
        found.append(" " if step == "\\ " else step)
        if step not in _BLANKS:
            end = len(found)
    return "".join(found[:end])


def _read(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise _wrong(path, "it is not a file", "name a file with a pattern on each line")
            data = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or str(problem)
        raise _wrong(path, why, "name a file that you may read") from problem
    if len(data) > _MOST_BYTES:
        raise _wrong(path, f"it has more than {_MOST_BYTES} bytes", "name a smaller one")
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")  # some editors' mark


def _wrong(path: str, why: str, fix: str) -> PolicyError:
    return PolicyError("pattern-file", f"the patterns in {path} cannot be used", why=why, fix=fix)
