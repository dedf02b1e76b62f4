"""Text that may hold names chosen by a hostile command, made safe to show on a terminal and to paste."""

from __future__ import annotations

#: What a shell takes as it is, and what cannot be taken for the end of a name in a line of ours.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-")


def printable(line: str) -> str:
    """One line, in which whatever is no visible character is spelled out.

    That is controls, line ends of every kind, marks that turn the direction of writing or have no width, and
    bytes that are no text: with them a name could pass for a line of corral's own, or hide what it is.
    """
    if line.isprintable():
        return line
    return "".join(character if character.isprintable() else _spelled(character) for character in line)


def quoted(text: str) -> str:
    """A text as one word for a shell: as it is where that is plain, else in quotes."""
    text = printable(text)
    return text if text and _PLAIN.issuperset(text) else "'" + text.replace("'", "'\"'\"'") + "'"


def _spelled(character: str) -> str:
    code = ord(character)
    if character == "\n":
        return "\\n"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
