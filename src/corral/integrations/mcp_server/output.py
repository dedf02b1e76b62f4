"""What a model is told of a command: its output, bounded, and what the sandbox has refused."""

from __future__ import annotations

import threading

from corral.model.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from corral.model.result import Result

#: Of the line that a progress notification shows.
_MOST_LINE = 200
_HOW = (
    "The user can permit it, as an option of `corral mcp serve` or in their own corral.toml, and start this"
    " server again."
)


class BoundedOutput:
    """The beginning and the end of what a command prints, in the order in which it came."""

    def __init__(self, most_bytes: int) -> None:
        self._half = most_bytes // 2
        self._head, self._tail = bytearray(), bytearray()
        self._size = 0
        self._lock = threading.Lock()  # the loop looks at it while a thread fills it

    def take(self, _name: str, piece: bytes) -> None:
        """One piece, of either stream."""
        with self._lock:
            self._size += len(piece)
            room = self._half - len(self._head)
            self._head += piece[:room] if room > 0 else b""
            rest = piece[room:] if room > 0 else piece
            self._tail += rest
            if len(self._tail) > 4 * self._half:
                del self._tail[: -self._half]

    def text(self) -> str:
        """All of it; or the two ends, with a statement of what was cut between them."""
        with self._lock:
            head, tail = bytes(self._head), bytes(self._tail[-self._half :])
            cut = self._size - len(head) - len(tail)
        if not cut:
            return (head + tail).decode("utf-8", "replace")
        note = (
            f"[corral: {cut} of {self._size} bytes of output are left out here; this shows the first"
            f" {len(head)} and the last {len(tail)}. To see the rest, send it to a file and read a part.]"
        )
        return f"{_text(head)}\n{note}\n{_text(tail)}"

    def last_line(self) -> str:
        """The last line that says something, for a notification."""
        with self._lock:
            end = bytes(self._tail[-4 * _MOST_LINE :] or self._head[-4 * _MOST_LINE :])
        lines = [line for line in end.decode("utf-8", "replace").splitlines() if line.strip()]
        return printable(lines[-1].strip())[:_MOST_LINE] if lines else ""


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip("�")


def describe(result: Result, output: str, lines: Iterable[str] = ()) -> str:
    """The output of a command, then how it ended and what was refused, unless all is well."""
    parts = [output.rstrip("\n")]
    more = list(lines)
    if not result.ok or result.events or result.notes or result.handoff:
        parts.append(f"[corral] {result.explain()}")
        if any(event.hint for event in result.events):
            parts.append(_HOW)
    parts += (f"[corral] {line}" for line in more)
    return "\n".join(part for part in parts if part) or "[no output]"


def cut_lines(text: str, first: int, count: int | None, most_characters: int) -> str:
    """Some lines of a file, with a statement of what is not shown."""
    lines = text.splitlines(keepends=True)
    if first > 1 and first > len(lines):
        return f"[corral: the file has {len(lines)} lines]"
    wanted = lines[first - 1 :] if count is None else lines[first - 1 : first - 1 + count]
    shown, size = 0, 0
    while shown < len(wanted) and size + len(wanted[shown]) <= most_characters:
        size += len(wanted[shown])
        shown += 1
    body = "".join(wanted[:shown])
    if not shown and wanted:  # one line that is too long by itself
        body, shown = wanted[0][:most_characters], 1
        note = (
            f"[corral: line {first} has {len(wanted[0])} characters; the first {most_characters} are shown]"
        )
        return f"{body}\n{note}"
    if shown == len(lines):
        return body
    last = first - 1 + shown
    end = "" if body.endswith("\n") else "\n"
    return f"{body}{end}[corral: lines {first} to {last} of {len(lines)} are shown]"
