"""How much one look at git directories may cost: counted in steps, so that no command can make it long.

A step is an entry of a directory, or as many bytes as take about as long. What a look before commands took is
what the host's own repositories need; a look afterwards may take so much and `MOST_MORE_STEPS`.
"""

from __future__ import annotations

import posixpath
import stat

from corral.git_check.files import (
    MOST_TEXT_BYTES,
    entries_of,
    identity_of,
    is_reference,
    read_file,
    read_head,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from corral.git_check.files import Entry
    from corral.untrusted_files.folding import GitNames

#: Of one command. Enough for a new index of 500,000 files, or for 100,000 new refs.
MOST_MORE_STEPS = 1 << 21
MOST_INDEX_BYTES = 1 << 30  # of the host's own
_OPENED_STEPS, _TAKEN_AWAY_STEPS, _LOOKED_INTO_STEPS = 8, 16, 128
_REFERENCE_STEPS = 18
_TEXT_BYTES_PER_STEP, _INDEX_BYTES_PER_STEP = 4, 32
_HEAD_BYTES = 1 << 20
#: A file that takes so much is told by its own name, others by that of their directory.
_LARGE_STEPS = 1024
#: When others have taken all, for each of so many parts of a look: enough for a small repository.
_LEAST_MORE_STEPS, _MOST_SPARE_PARTS = 4096, 4096
#: What a look leaves of the surplus that ended it.
_REST = 8


class TooMuchWork(Exception):
    """A look would take more steps than it may."""

    def __init__(self) -> None:
        super().__init__("there is more in it than is looked at")


class Work:
    """The steps of one look, by the path that they were for."""

    def __init__(self, most: float = float("inf")) -> None:
        self.spent: dict[str, int] = {}
        self.total = 0
        self._most = most

    def spend(self, path: str, steps: int) -> None:
        """ORDER: before the work itself. Raises TooMuchWork."""
        self.spent[path] = self.spent.get(path, 0) + steps
        self.total += steps
        if self.total > self._most:
            raise TooMuchWork

    def part(self) -> Work:
        """For a part of the look, which `add` counts."""
        return Work(self._most - self.total)

    def add(self, spent: Mapping[str, int]) -> None:
        for path, steps in spent.items():
            self.spent[path] = self.spent.get(path, 0) + steps
            self.total += steps

    def check(self) -> None:
        """ORDER: behind what a part that was cut short has found. Raises TooMuchWork."""
        if self.total > self._most:
            raise TooMuchWork

    def heaviest(self, usual: Mapping[str, int]) -> list[str]:
        """The paths that took most, apart from what they took before: the few that took almost all of it."""
        more = {path: steps - usual.get(path, 0) for path, steps in self.spent.items()}
        found: list[str] = []
        rest = surplus = sum(steps for steps in more.values() if steps > 0)
        for path in sorted(more, key=more.__getitem__, reverse=True):
            if found and rest <= surplus // _REST:
                break
            found.append(path)
            rest -= more[path]
        return found

    def list(self, handle: int, path: str, known: GitNames | None = None) -> list[Entry]:
        """What is in a directory, listed, or found there by one of the known names."""
        self.spend(path, _OPENED_STEPS)
        entries = list(self._counted(handle, path))
        if known is not None:
            for name, status in known.found_in(handle, [entry[0] for entry in entries]).items():
                entries.append((name, stat.S_ISDIR(status.st_mode), stat.S_ISREG(status.st_mode)))
        return entries

    def _counted(self, handle: int, path: str) -> Iterator[Entry]:
        for entry in entries_of(handle):
            self.spend(path, 1)
            yield entry

    def is_reference(self, handle: int, directory: str, name: str) -> bool:
        """As `is_reference` of files."""
        self.spend(directory, _REFERENCE_STEPS)
        return is_reference(handle, name)

    def take_away(self, path: str) -> None:
        """Something in a directory is to be removed."""
        self.spend(path, _TAKEN_AWAY_STEPS)

    def look_into(self, path: str) -> None:
        """A worktree is looked at, whatever is in it."""
        self.spend(path, _LOOKED_INTO_STEPS)

    def look_up(self, path: str, found: str) -> None:
        """A path that was found somewhere is followed, name by name."""
        self.spend(path, _OPENED_STEPS * (1 + found.count("/")))

    def read(self, handle: int, directory: str, name: str, limit: int = MOST_TEXT_BYTES) -> bytes | None:
        """As `read_file`; the directory is the path of what `handle` is."""
        per_step = _INDEX_BYTES_PER_STEP if limit == MOST_INDEX_BYTES else _TEXT_BYTES_PER_STEP
        return read_file(handle, name, limit, self._counter(directory, name, per_step))

    def read_head(self, handle: int, directory: str, name: str) -> bytes | None:
        """The first MiB of a file."""
        return read_head(handle, name, _HEAD_BYTES, self._counter(directory, name, _INDEX_BYTES_PER_STEP))

    def identity(self, handle: int, path: str) -> bytes:
        """As `identity_of`, by the path of a file in the directory that `handle` is."""
        directory, name = posixpath.split(path)
        return identity_of(handle, name, self._counter(directory, name, _INDEX_BYTES_PER_STEP))

    def _counter(self, directory: str, name: str, bytes_per_step: int) -> Callable[[int], None]:
        def count(size: int) -> None:
            steps = _OPENED_STEPS + size // bytes_per_step
            self.spend(f"{directory}/{name}" if steps > _LARGE_STEPS else directory, steps)

        return count


class Budget:
    """What the parts of a look may take: each what it took before commands, all together so much more.

    INVARIANT: whoever takes all of it leaves enough for others. What is hidden in a small repository is
    found, however large another one is.
    """

    def __init__(self, usual: Mapping[str, int], most_more: float) -> None:
        self._usual, self._left = usual, most_more
        self._spare_parts = _MOST_SPARE_PARTS
        self.by_part: dict[str, int] = {}
        self.by_path: dict[str, int] = {}

    def begin(self, part: str) -> Work:
        """Raises TooMuchWork if very many parts have come after all was taken."""
        if self._left < _LEAST_MORE_STEPS:
            self._spare_parts -= 1
            if self._spare_parts < 0:
                raise TooMuchWork
        return Work(self._usual.get(part, 0) + max(self._left, _LEAST_MORE_STEPS))

    def end(self, part: str, work: Work) -> None:
        self._left -= max(0, work.total - self._usual.get(part, 0))
        self.by_part[part] = self.by_part.get(part, 0) + work.total
        for path, steps in work.spent.items():
            self.by_path[path] = self.by_path.get(path, 0) + steps
