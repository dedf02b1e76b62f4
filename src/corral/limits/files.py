"""Reading and writing the small files of the kernel's control groups."""

from __future__ import annotations

import os


def read(path: str) -> str:
    """The text of a file; empty if it is not there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        pieces = []  # one read gives no more than a page of a list of processes
        while piece := os.read(descriptor, 65_536):
            pieces.append(piece)
        return b"".join(pieces).decode("utf-8", "replace")  # ASCII, but its codec would have to be imported
    except OSError:  # the group has been removed meanwhile
        return ""
    finally:
        os.close(descriptor)


def read_number(path: str) -> int | None:
    """The one number in a file; None if there is none."""
    text = read(path).strip()
    return int(text) if text.isascii() and text.isdigit() else None


def read_counter(path: str, name: str) -> int | None:
    """The number behind a name, in a file of `name number` lines."""
    for line in read(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isascii() and value.isdigit():
            return int(value)
    return None


def write(path: str, value: int | str) -> None:
    """Write one value. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, str(value).encode("ascii"))
    finally:
        os.close(descriptor)
