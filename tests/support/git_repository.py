"""Repositories made of a few files, for a check that does not run git."""

from __future__ import annotations

import hashlib
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
EVIL = "\tfsmonitor = ./evil\n"


def make_repository(path: Path, config: str = CONFIG) -> Path:
    for name in ("objects", "refs/heads", "hooks", "info", "logs"):
        (path / name).mkdir(parents=True)
    (path / "HEAD").write_text("ref: refs/heads/main\n")
    (path / "config").write_text(config)
    (path / "hooks/pre-commit.sample").touch()
    return path


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def make_index(*entries: tuple[str, int], version: int = 3) -> bytes:
    """Entries by path and mode. A directory is one that is left out of the worktree as a whole."""
    data = b"DIRC" + struct.pack(">II", version, len(entries))
    is_sparse = False
    for path, mode in sorted(entries):
        is_directory = mode == 0o40000
        is_sparse |= is_directory
        length = min(len(path), 0xFFF)
        entry = struct.pack(">10I", 0, 0, 0, 0, 0, 0, mode, 0, 0, 0) + bytes(20)
        entry += struct.pack(">HH", 0x4000 | length, 0x4000) if is_directory else struct.pack(">H", length)
        if version == 4:
            data += entry + b"\0" + path.encode() + b"\0"
        else:
            entry += path.encode()
            data += entry + bytes(8 - len(entry) % 8)
    data += b"sdir" + bytes(4) if is_sparse else b""
    return data + hashlib.sha1(data).digest()
