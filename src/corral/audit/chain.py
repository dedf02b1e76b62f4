"""The chain: how a record becomes a line, and what its hash is about.

A line is `{"v":1,"prev":HASH,"seq":N,…,"hash":HASH}` and a line feed. The hash is SHA-256, or HMAC-SHA-256
with a key, over all bytes before `,"hash"`. These have the hash of the line before, so no byte of any line
can change without changing all that follow.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

VERSION = 1
NOTHING = "0" * 64  # before the first line
HEAD = b'{"v":1,"prev":"'
SEQ = b'","seq":'
TAIL = b',"hash":"'
#: `,"hash":"` 64 digits `"}` line feed
TAIL_BYTES = len(TAIL) + 64 + 3
PREV_END = len(HEAD) + 64
SHA256, HMAC = "sha256", "hmac-sha256"
_BLOCK_BYTES = 64


def _sha256() -> Callable[[bytes], Any]:
    """SHA-256 without `hashlib`, whose import takes as long as some sandboxes."""
    for name in ("_sha2", "_sha256"):
        try:
            module = __import__(name)
        except ImportError:
            continue
        made: Callable[[bytes], Any] = module.sha256
        return made
    import hashlib

    return hashlib.sha256


_make = _sha256()
_text: Callable[[str], str]
try:
    from _json import encode_basestring_ascii as _text
except ImportError:
    from json import dumps as _text


class Hasher:
    """Hashes the bodies of lines, with a key or without."""

    def __init__(self, key: bytes | None = None) -> None:
        self.algorithm = HMAC if key else SHA256
        self._inner: Any = None
        self._outer: Any = None
        if key:  # RFC 2104
            short = _make(key).digest() if len(key) > _BLOCK_BYTES else key
            padded = short.ljust(_BLOCK_BYTES, b"\0")
            self._inner = _make(bytes(byte ^ 0x36 for byte in padded))
            self._outer = _make(bytes(byte ^ 0x5C for byte in padded))

    def hash(self, body: bytes) -> str:
        """The hash of a line, as its last field has it."""
        if self._inner is None:
            return str(_make(body).hexdigest())
        inner = self._inner.copy()
        inner.update(body)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return str(outer.hexdigest())


def plain_hash(data: bytes) -> str:
    """SHA-256 of what is no line."""
    return str(_make(data).hexdigest())


def encode_line(
    record: Mapping[str, object], previous: str, number: int, hasher: Hasher
) -> tuple[bytes, str]:
    """The line of a record, and its hash."""
    fields = ",".join(f"{_text(name)}:{to_json(value)}" for name, value in record.items())
    body = f'{{"v":{VERSION},"prev":"{previous}","seq":{number},{fields}'.encode("ascii")
    digest = hasher.hash(body)
    return body + TAIL + digest.encode("ascii") + b'"}\n', digest


def to_json(value: object) -> str:
    """JSON in ASCII, on one line. `json` takes a third of a start to import."""
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_text(str(name))}:{to_json(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(to_json, value)) + "]"
    return _text(str(value))
