"""How much one look at git directories may cost: counted in steps, so that no command can make it long.

A step is an entry of a directory, or as many bytes as take about as long. What a look before commands took is
what the host's own repositories need; a look afterwards may take so much and `MOST_MORE_STEPS`.
"""

from __future__ import annotations

from corral.runtime.git_files import MOST_TEXT_BYTES, entries_of, read_file, read_head

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from corral.runtime.git_files import Entry

#: Of one command. Enough for a new index of 500,000 files, or for 100,000 new refs.
MOST_MORE_STEPS = 1 << 21
MOST_INDEX_BYTES = 1 << 30  # of the host's own
_OPENED_STEPS, _TAKEN_AWAY_STEPS, _LOOKED_INTO_STEPS = 8, 16, 128
_TEXT_BYTES_PER_STEP, _INDEX_BYTES_PER_STEP = 4, 32
_HEAD_BYTES = 1 << 20
#: A file that takes so much is told by its own name, others by that of their directory.
_LARGE_STEPS = 1024


class TooMuch(Exception):
    """A look would take more steps than it may."""


class Work:
    """The steps of one look, by the path that they were for."""

    def __init__(self, most: float = float("inf")) -> None:
        self.spent: dict[str, int] = {}
        self._left = most

    def spend(self, path: str, steps: int) -> None:
        """ORDER: before the work itself. Raises TooMuch."""
        self.spent[path] = self.spent.get(path, 0) + steps
        self._left -= steps
        self.check()

    def part(self) -> Work:
        """For a part of the look, which `add` counts."""
        return Work(self._left)

    def add(self, spent: Mapping[str, int]) -> None:
        for path, steps in spent.items():
            self.spent[path] = self.spent.get(path, 0) + steps
            self._left -= steps

    def check(self) -> None:
        """ORDER: behind what a part that was cut short has found. Raises TooMuch."""
        if self._left < 0:
            raise TooMuch

    def largest(self, usual: Mapping[str, int]) -> str:
        """The path that took most, apart from what it took before."""
        return max(self.spent, key=lambda path: self.spent[path] - usual.get(path, 0))

    def list(self, handle: int, path: str) -> list[Entry]:
        """What is in a directory."""
        self.spend(path, _OPENED_STEPS)
        return list(self._counted(handle, path))

    def _counted(self, handle: int, path: str) -> Iterator[Entry]:
        for entry in entries_of(handle):
            self.spend(path, 1)
            yield entry

    def take_away(self, path: str) -> None:
        """Something in a directory is to be taken away."""
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

    def _counter(self, directory: str, name: str, bytes_per_step: int) -> Callable[[int], None]:
        def count(size: int) -> None:
            steps = _OPENED_STEPS + size // bytes_per_step
            self.spend(f"{directory}/{name}" if steps > _LARGE_STEPS else directory, steps)

        return count
