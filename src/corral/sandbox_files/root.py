"""RootFiles: the files of a sandbox with mounts of its own, through a descriptor of its root directory.

What is opened from there goes over the sandbox's mounts: what is read-only, hidden or private inside is
so for us as well, and a link means what it means inside (RESOLVE_IN_ROOT), never anything of the host.
"""

from __future__ import annotations

import errno
import os
import posixpath

from corral.sandbox_files.base import MOST_LINKS, Files
from corral.sandbox_files.held_file import HeldFile, Spot
from corral.untrusted_files.openat2 import check_openat2, open_in_root, open_on_mount

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.sandbox_files.base import IsProtected

_ENTRY = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC


class RootFiles(Files):
    """`root` is an O_PATH descriptor of `/` as the commands see it. It stays the caller's to close."""

    def __init__(
        self, root: int, is_protected: IsProtected, *, cwd: str = "/", hidden: frozenset[str] = frozenset()
    ) -> None:
        """Raises UnenforceableError if this host has no openat2; `hidden`: what is denied, as inside."""
        super().__init__(is_protected, cwd=cwd)
        check_openat2(root)
        self._root = root
        self._hidden = hidden

    def find(self, path: str) -> HeldFile:
        place = _held(open_in_root(self._root, os.fsencode(path)))
        name = os.readlink(f"/proc/thread-self/fd/{place.descriptor}") if self._hidden else ""
        if name.removesuffix(" (deleted)") in self._hidden:  # what covers a file has no name of its own
            # Nor has it any rights. Root may open it all the same, and would find it empty.
            place.close()
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return place

    def find_spot(self, path: str, *, parents: bool) -> Spot:
        for _ in range(MOST_LINKS):
            above, name = posixpath.split(path)
            if name in {"", ".", ".."}:  # the text of a link, as `sub/`
                raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
            parent = self._directory(above, parents=parents)
            try:
                existing = self._child_or_none(parent, name)
                if existing is None or not existing.is_link:
                    return Spot(parent, name, existing)
                with existing:
                    text = existing.link_text()
            except BaseException:
                parent.close()
                raise
            parent.close()
            # The kernel goes `above/text` as it would have gone the link. A rename in between leads
            # to another place inside, like a rename before the call.
            path = text if text.startswith("/") else f"{above}/{text}"
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))

    def child(self, parent: HeldFile, name: str) -> HeldFile:
        try:
            return _held(open_on_mount(parent.descriptor, os.fsencode(name)))
        except OSError as problem:
            if problem.errno != errno.EXDEV:
                raise
        return _held(os.open(name, _ENTRY, dir_fd=parent.descriptor), is_fixed=True)

    def _child_or_none(self, parent: HeldFile, name: str) -> HeldFile | None:
        try:
            return self.child(parent, name)
        except FileNotFoundError:
            return None

    def _directory(self, path: str, *, parents: bool) -> HeldFile:
        """Hold a directory; with `parents`, make what is missing on the way, one name after the other."""
        missing: list[tuple[str, str]] = []
        while True:
            try:
                place = _held(open_in_root(self._root, os.fsencode(path), directory=True))
                break
            except FileNotFoundError:
                above, name = posixpath.split(path.rstrip("/"))
                if not parents or name in {"", ".", ".."}:
                    raise
                missing.append((name, path))
                path = above
        for name, made in reversed(missing):
            with place:
                # Without following a link: one that leads nowhere stays an error.
                place = self.make_directory(place, name, made)
        return place


def _held(descriptor: int, *, is_fixed: bool = False) -> HeldFile:
    try:
        return HeldFile(descriptor, is_fixed=is_fixed)
    except BaseException:
        os.close(descriptor)
        raise
