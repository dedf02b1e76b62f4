"""Log: what has happened in a named session, and what its detached commands printed. Bounded, a line each."""

from __future__ import annotations

import os
import time
from _thread import allocate_lock

from corral.sessions.named.session_directory import LOG, OLD_LOG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.sessions.named.session_directory import SessionDirectory

#: When a log is as large as this, it makes room for another; the one before is kept.
_MOST_BYTES = 1024 * 1024
_MOST_LINE = 8192


class Log:
    """Written by the process of one session, from several threads."""

    def __init__(self, place: SessionDirectory, name: str) -> None:
        self._place = place
        self._name = name
        self._lock = allocate_lock()
        self._descriptor = -1
        self._size = 0
        self._unfinished: dict[str, bytes] = {}

    def open(self) -> None:
        """Begin an empty one, and release the last session's. Raises OSError."""
        self._place.remove(f"{self._name}{OLD_LOG}")
        self._descriptor = self._place.open(
            f"{self._name}{LOG}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        )

    def note(self, text: str) -> None:
        """One thing that has happened."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        with self._lock:
            self._write(f"{moment} {_line(text)}\n")

    def take(self, label: str, piece: bytes) -> None:
        """Some output of a detached command; whole lines are written."""
        with self._lock:
            *whole, rest = (self._unfinished.pop(label, b"") + piece).split(b"\n")
            while len(rest) > _MOST_LINE:
                whole.append(rest[:_MOST_LINE])
                rest = rest[_MOST_LINE:]
            if rest:
                self._unfinished[label] = rest
            self._print(label, whole)

    def finish(self, label: str) -> None:
        """A command prints no more: what is left of its last line."""
        with self._lock:
            rest = self._unfinished.pop(label, b"")
            self._print(label, [rest] if rest else [])

    def _print(self, label: str, lines: list[bytes]) -> None:
        if lines:  # in one write: a flood of short lines must not take longer than it takes to print them
            texts = (line.decode("utf-8", "surrogateescape") for line in lines)
            self._write("".join(f"[{label}] {text}\n" for text in texts))

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        if self._descriptor < 0:
            return
        if self._size + len(data) > _MOST_BYTES:
            self._turn_over()
        try:
            self._size += os.write(self._descriptor, data)
        except OSError:  # the disk is full: a log is not worth ending a session for
            self._size += len(data)

    def _turn_over(self) -> None:
        try:
            self._place.rename(f"{self._name}{LOG}", f"{self._name}{OLD_LOG}")
            fresh = self._place.open(
                f"{self._name}{LOG}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
            )
        except OSError:
            os.ftruncate(self._descriptor, 0)
        else:
            os.close(self._descriptor)
            self._descriptor = fresh
        self._size = 0


def read_log(place: SessionDirectory, name: str) -> bytes:
    """All there is of a session's log, the older part first."""
    most = 2 * _MOST_BYTES
    return place.read(f"{name}{OLD_LOG}", most) + place.read(f"{name}{LOG}", most)


def _line(text: str) -> str:
    # TRUST: a command chose some of it. Whoever shows the log makes the rest of it harmless, see `printable`.
    return text.replace("\n", "\\n")
