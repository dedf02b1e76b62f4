"""A sandbox's files without a sandbox: a directory stands for its root, another for the host around it."""

from __future__ import annotations

import os
from pathlib import Path

from corral.model.plan import Grant, PathKind, ResolvedPath
from corral.model.policy import FsAccess
from corral.sandbox_files.base import Files
from corral.sandbox_files.granted import GrantedFiles
from corral.sandbox_files.held_file import HeldFile
from corral.sandbox_files.root import RootFiles

KINDS = ("root", "granted")
SECRET = b"SECRET KEY"


class World:
    """`ws` may be written, `lib` may be read by a policy; `outside` is the host's, with a secret in it."""

    def __init__(self, kind: str, top: Path) -> None:
        self.kind = kind
        self.root, self.outside = top / "root", top / "outside"
        for directory in (self.root / "ws", self.root / "lib", self.outside):
            directory.mkdir(parents=True)
        (self.outside / "secret").write_bytes(SECRET)
        (self.root / "lib" / "library").write_bytes(b"library")
        self.ws = self.root / "ws"
        self.protected: set[tuple[int, int, str]] = set()
        self.denied: list[ResolvedPath] = []
        self._root = os.open(self.root, os.O_PATH | os.O_DIRECTORY)
        self.files = self.build()

    def build(self) -> Files:
        """Once more, after something was denied."""
        if self.kind == "root":
            self.files = RootFiles(self._root, self._is_protected, cwd="/ws")
            return self.files
        grants = [
            Grant(resolved_path(self.root / "ws"), FsAccess.WRITE),
            Grant(resolved_path(self.root / "lib"), FsAccess.READ),
        ]
        self.files = GrantedFiles(grants, self.denied, self._is_protected, cwd=str(self.ws))
        return self.files

    def at(self, path: str) -> str:
        """How a path below the root is called inside."""
        return f"/{path}" if self.kind == "root" else f"{self.root}/{path}"

    def protect(self, directory: Path, name: str) -> None:
        status = directory.stat()
        self.protected.add((status.st_dev, status.st_ino, name))

    def _is_protected(self, parent: HeldFile, name: str) -> bool:
        return (parent.status.st_dev, parent.status.st_ino, name) in self.protected

    def untouched(self) -> bool:
        """Whether nothing outside was made or changed."""
        return {path.name: path.read_bytes() for path in self.outside.iterdir()} == {"secret": SECRET}

    def close(self) -> None:
        os.close(self._root)


def resolved_path(path: Path) -> ResolvedPath:
    status = path.stat()
    kind = PathKind.DIRECTORY if path.is_dir() else PathKind.FILE
    return ResolvedPath(str(path), str(path), kind, status.st_dev, status.st_ino)
