"""What a module asks for: capabilities, one a line, in a section of its own or in a file beside it."""

from __future__ import annotations

import os

from corral.model.errors import PolicyError
from corral.model.record import Record
from corral.model.rules.capability import parse_capability
from corral.wasi.loading import bad_module, read_module, to_binary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.rules.capability import Capability

#: The name of the custom section, and what the name of the file beside the module ends with.
SECTION, SUFFIX = "corral.capabilities", ".caps"
_HEADER_BYTES = 8
_MOST_MANIFEST_BYTES = 65_536
_CUSTOM = 0


class LoadedModule(Record):
    """A module before anything of it is compiled."""

    name: str
    binary: bytes
    request: tuple[Capability, ...]  # what it asks for
    source: str  # where it does: "section", a file, or empty


def load_module(module: bytes | str | os.PathLike[str], name: str = "") -> LoadedModule:
    """Read a module (bytes, or a .wasm or .wat file) and what it asks for. Raises PolicyError.

    A file beside it counts instead of the section in it: it is the word of who has installed the module.
    """
    if isinstance(module, (bytes, bytearray, memoryview)):
        name = name or "module"
        binary = to_binary(bytes(module), name)
        return _with_section(name, binary)
    path = os.fspath(module)
    name = name or os.path.basename(path).partition(".")[0] or path
    binary = to_binary(read_module(path), path)
    beside = path + SUFFIX
    if os.path.lexists(beside):
        text = read_module(beside)
        return LoadedModule(name, binary, parse_manifest(text, beside), beside)
    return _with_section(name, binary)


def _with_section(name: str, binary: bytes) -> LoadedModule:
    found = [content for title, content in custom_sections(binary, name) if title == SECTION]
    if len(found) > 1:
        raise bad_module(
            "module-manifest", f"{name} has {len(found)} manifests", "one is wanted", "keep one of them"
        )
    request = parse_manifest(found[0], f"the manifest of {name}") if found else ()
    return LoadedModule(name, binary, request, "section" if found else "")


def parse_manifest(data: bytes, where: str) -> tuple[Capability, ...]:
    """Capabilities, one a line; `#` begins a comment. Raises PolicyError, which names the line."""
    if len(data) > _MOST_MANIFEST_BYTES:
        raise bad_module("module-manifest", f"{where} is too large", "it has more than 64 KiB", "shorten it")
    try:
        lines = data.decode("utf-8").splitlines()
    except UnicodeDecodeError as problem:
        raise bad_module("module-manifest", f"{where} is not text", str(problem), "write UTF-8") from problem
    found = []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            found.append(parse_capability(text))
        except PolicyError as problem:
            raise bad_module(
                "module-manifest", f"{where}, line {number}: {problem.what}", problem.why, problem.fix
            ) from problem
    return tuple(found)


def custom_sections(binary: bytes, name: str) -> Iterator[tuple[str, bytes]]:
    """(name, content) of the custom sections. Raises PolicyError where the bytes are no module."""
    at = _HEADER_BYTES
    while at < len(binary):
        kind = binary[at]
        size, begin = _number(binary, at + 1, name)
        end = begin + size
        if end > len(binary):
            raise _truncated(name, at)
        if kind == _CUSTOM:
            length, start = _number(binary, begin, name)
            if start + length > end:
                raise _truncated(name, at)
            yield binary[start : start + length].decode("utf-8", "replace"), binary[start + length : end]
        at = end


def with_manifest(binary: bytes, capabilities: str) -> bytes:
    """The same module with a manifest in it."""
    title, content = SECTION.encode(), capabilities.encode()
    body = _encoded(len(title)) + title + content
    return binary + bytes((_CUSTOM,)) + _encoded(len(body)) + body


def _number(data: bytes, at: int, name: str) -> tuple[int, int]:
    """An unsigned LEB128 number of at most 32 bits, and where it ends."""
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            raise _truncated(name, at)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
    raise _truncated(name, at)


def _encoded(value: int) -> bytes:
    found = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        found.append(low | (0x80 if value else 0))
        if not value:
            return bytes(found)


def _truncated(name: str, at: int) -> PolicyError:
    return bad_module(
        "module-malformed",
        f"{name} is not a valid module",
        f"a section at byte {at} goes beyond its end",
        "check that the file is complete",
    )
