"""GrantedFiles: the files of a sandbox without mounts of its own (landlock), found in what its policy grants.

Its root is the host's, so a path is gone step by step, without the kernel following any link, from a
grant that holds it. Each step is held and compared by device and inode: what is denied is refused under
every name that leads over it, a grant inside a grant keeps its own access when its directory was renamed,
and a grant in whose place something else lies is not entered. A link, absolute or not, leads where it
leads inside, as long as a grant holds that place.
"""

from __future__ import annotations

import errno
import os
import posixpath

from corral.model.policy import FsAccess
from corral.sandbox_files.base import MOST_LINKS, Files
from corral.sandbox_files.held_file import HeldFile, Spot, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from corral.model.errors import PolicyError
    from corral.model.plan import Grant, Link, ResolvedPath
    from corral.sandbox_files.base import IsProtected

_ENTRY = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC


class GrantedFiles(Files):
    def __init__(
        self,
        grants: Iterable[Grant],
        denied: Iterable[ResolvedPath],
        is_protected: IsProtected,
        *,
        links: Iterable[Link] = (),
        cwd: str = "/",
    ) -> None:
        """`links` are the host's own on the way to grants (`ResolvedPolicy.links`)."""
        super().__init__(is_protected, cwd=cwd)
        self._grants = {grant.target.path: grant for grant in grants}
        self._links = {link.path: link.text for link in links}
        self._denied_paths = {target.path for target in denied}
        self._denied_objects = {(target.device, target.inode) for target in denied if target.inode}
        self._writable: dict[tuple[int, int], bool] = {}
        for grant in self._grants.values():  # of one object by two names, the stricter
            identity = (grant.target.device, grant.target.inode)
            is_writable = grant.access is FsAccess.WRITE
            self._writable[identity] = is_writable and self._writable.get(identity, True)

    def find(self, path: str) -> HeldFile:
        with _Walk(self, path) as walk:
            while walk.pending:
                walk.step(parents=False)
            return walk.take()

    def find_spot(self, path: str, *, parents: bool) -> Spot:
        with _Walk(self, path) as walk:
            while True:
                while len(walk.pending) > 1:
                    walk.step(parents=parents)
                if not walk.pending or walk.pending[0] == "..":
                    raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
                if not walk.is_inside:  # of what lies in no grant, only a grant itself can be written
                    name = walk.pending[0]
                    walk.step(parents=False)
                    if walk.pending:
                        continue  # it was a link
                    granted = walk.take()
                    if granted.is_directory:
                        granted.close()
                        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
                    return Spot(None, name, granted)
                existing = walk.look()
                if existing is None or not existing.is_link:
                    return Spot(walk.take(), walk.pending[0], existing)
                existing.close()
                walk.step(parents=False)

    def child(self, parent: HeldFile, name: str) -> HeldFile:
        return self._judged(os.open(name, _ENTRY, dir_fd=parent.descriptor), parent, name)

    def open_grant(self, path: str) -> HeldFile:
        """Hold a granted object, if it is still the one that was planned. Raises OSError, PolicyError."""
        target = self._grants[path].target
        place = self._judged(os.open(path, _ENTRY), None, path)
        if (place.status.st_dev, place.status.st_ino) != (target.device, target.inode):
            place.close()
            raise OSError(errno.ESTALE, "what was granted there has been replaced")
        place.is_writable = self._grants[path].access is FsAccess.WRITE
        place.is_fixed = not place.is_directory  # a rule is about the file itself, not about its name
        return place

    def _judged(self, descriptor: int, parent: HeldFile | None, name: str) -> HeldFile:
        try:
            place = HeldFile(descriptor)
            identity = (place.status.st_dev, place.status.st_ino)
            if identity in self._denied_objects:
                raise denied(name)
        except BaseException:
            os.close(descriptor)
            raise
        above = parent is not None and parent.is_writable
        place.is_writable = self._writable.get(identity, above)
        return place

    def is_granted(self, path: str) -> bool:
        """Whether the policy grants this very path."""
        return path in self._grants

    def link_at(self, path: str) -> str | None:
        """The text of a link of the host on the way to grants."""
        return self._links.get(path)

    def check_path(self, path: str) -> None:
        """Raise PolicyError for a denied path, whatever lies there by now."""
        if path in self._denied_paths:
            raise denied(path)


class _Walk:
    """The way along one path.

    INVARIANT: `real` holds no link, and `held` are the objects on it from the first grant on. It is empty
    outside of all grants, where nothing is ever opened.
    """

    def __init__(self, files: GrantedFiles, path: str) -> None:
        self._files = files
        self._links = 0
        self.pending = _parts(path)
        self.held: list[HeldFile] = []
        self.real = "/"

    def __enter__(self) -> _Walk:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        for place in self.held:
            place.close()
        self.held = []

    @property
    def is_inside(self) -> bool:
        return bool(self.held)

    def take(self) -> HeldFile:
        """Hand out what the walk stands at. Raises OSError outside of all grants."""
        if not self.held:
            raise OSError(errno.EACCES, "no grant of the policy holds it")
        return self.held.pop()

    def look(self) -> HeldFile | None:
        """Hold the next name, without going there; None if nothing is there. Raises OSError, PolicyError."""
        here = posixpath.join(self.real, self.pending[0])
        self._files.check_path(here)
        try:
            place = self._files.child(self.held[-1], self.pending[0])
        except FileNotFoundError:
            return None
        if self._files.is_granted(here):
            place.close()
            return self._files.open_grant(here)
        return place

    def step(self, *, parents: bool) -> None:
        """Go one name further, or over to where a link leads. Raises OSError, PolicyError."""
        if self.pending[0] == "..":
            self.pending.pop(0)
            self._go_up()
        elif self.held:
            self._step_inside(parents=parents)
        else:
            self._step_outside(self.pending.pop(0))

    def _start(self) -> None:
        self.__exit__()
        self.real = "/"
        if self._files.is_granted("/"):
            self.held.append(self._files.open_grant("/"))

    def _go_up(self) -> None:
        # By what is held and not by the kernel's `..`, which leads out of a directory that was moved away.
        if self.held and not self.held[-1].is_directory:
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if self.real != "/" and self.held:
            self.held.pop().close()
        self.real = posixpath.dirname(self.real)

    def _step_outside(self, name: str) -> None:
        here = posixpath.join(self.real, name)
        self._files.check_path(here)
        text = self._files.link_at(here)
        if text is not None:
            self._follow(text)
            return
        if self._files.is_granted(here):
            self.held.append(self._files.open_grant(here))
        self.real = here

    def _step_inside(self, *, parents: bool) -> None:
        name = self.pending[0]
        here = posixpath.join(self.real, name)
        place = self.look()
        if place is None and parents:
            place = self._files.make_directory(self.held[-1], name, here)
        if place is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        self.pending.pop(0)
        if place.is_link:
            with place:
                text = place.link_text()
            self._follow(text)
            return
        self.held.append(place)
        self.real = here

    def _follow(self, text: str) -> None:
        self._links += 1
        if self._links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        self.pending[:0] = _parts(text)
        if text.startswith("/"):
            self._start()


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]


def denied(path: str) -> PolicyError:
    """The error for what the policy denies."""
    return refusal(
        "file-denied",
        f"{path} cannot be reached",
        why="the policy denies it, under every name it has",
        fix="leave the denial out of the policy, if commands may see it",
    )
