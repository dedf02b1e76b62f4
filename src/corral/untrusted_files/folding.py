"""File systems that fold names: git finds `config` where the listing of the directory has `CONFIG`."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection


class GitNames:
    """Names that somebody looks up."""

    def __init__(self, *names: str) -> None:
        self.all = frozenset(names)
        self._folded = frozenset(name.lower() for name in names)

    def may_be_meant(self, name: str) -> bool:
        """Whether another spelling may find it. Beyond ASCII each file system has rules of its own."""
        return name not in self.all and (not name.isascii() or name.lower() in self._folded)

    def found_in(self, place: str | int, listed: Collection[str]) -> dict[str, os.stat_result]:
        """Those that are in a directory, by path or descriptor, although they are not listed there."""
        if not any(map(self.may_be_meant, listed)):
            return {}
        found = {}
        for name in self.all.difference(listed):
            try:
                if isinstance(place, str):
                    found[name] = os.lstat(os.path.join(place, name))
                else:
                    found[name] = os.stat(name, dir_fd=place, follow_symlinks=False)
            except OSError:
                continue
        return found
