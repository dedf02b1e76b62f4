"""Files by which git finds its directories: read as git reads them, by plan and check alike.

A blank that one reader takes off and another does not leads them to two directories.
"""

from __future__ import annotations

_GITDIR = b"gitdir: "
_END = b"\r\n"
_HEX = b"0123456789abcdef"
_MOST_REF_BYTES = 200  # git reads 255 bytes of HEAD, and what is cut off there is another name


def read_pointer(data: bytes) -> str:
    """Where a `.git` that is a file leads, as it is written; empty if git could not read it."""
    named = data.rstrip(_END)
    if not named.startswith(_GITDIR) or b"\0" in named:
        return ""
    return _decode(named[len(_GITDIR) :])


def read_path(data: bytes) -> str:
    """The one path in `commondir`; empty if there is none."""
    return "" if b"\0" in data else _decode(data.rstrip(_END))


def is_head(data: bytes) -> bool:
    """Whether git and everybody else takes it for a HEAD, in the form in which git writes it."""
    text = data.removesuffix(b"\n")
    if text.startswith(b"ref: refs/"):
        return len(text) < _MOST_REF_BYTES and all(32 < byte != 127 for byte in text[5:])
    return len(text) in {40, 64} and not text.translate(None, _HEX)


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")
