"""Guard: removes what appears under a protected name while a command runs, and what it left for git.

No mount can cover a name that does not exist, and making a placeholder would leave files in the workspace.
So corral looks at the directory and moves whatever appears into quarantine, at once and again when
everything is over. The command is told nothing; the result is.

A short run is looked at every two milliseconds. Only one that takes longer is worth an inotify
instance: closing it waits for the kernel, some 15 ms, which is several times what a sandbox costs.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time

from corral.model.feature import Feature
from corral.model.violation import Evidence, Violation
from corral.protected_names.pattern_trees import PatternTrees
from corral.protected_names.watched import NoRepositories, WatchedDirectory
from corral.untrusted_files.quarantine import Quarantine
from corral.untrusted_files.steps import open_beneath
from corral.untrusted_files.unchanged import latest_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    import select
    from collections.abc import Callable, Iterable, Iterator

    from corral.git_check.check import RepositoryCheck
    from corral.model.plan import Search, WatchedName
    from corral.protected_names.notices import Notices
    from corral.protected_names.pattern_trees import Planted

    #: How a repository and what git runs by it were: numbers, sizes and times of change.
    Made = tuple[tuple[int, ...], ...]

_GLANCE_MS, _GLANCE_AT_MADE_MS = 2, 20
#: After a look so many times as long as it took.
_REST_FOR_LOOK = 4
#: Directories that one guard holds open; a process has few descriptors, and they are the caller's.
MOST_HELD = 64
_LISTEN_AFTER_SECONDS = 0.25
#: Time stamps of directories are as coarse as the kernel's tick; younger ones may hide a second change.
_TICK_NS = 20_000_000
#: Of a repository that a command has made: itself, and what says what git would run.
_MADE_PARTS = ("", "config", "config.worktree", "hooks", "info/attributes")


_NONE = NoRepositories()

#: A command that keeps trying is ended: it must not find the moment between appearing and vanishing.
PATIENCE = 8
#: Looks of the last sweep, each but the last followed by repairs; nothing runs any more by then.
_ROUNDS = 4


class Guard:
    """Watches the directories of one run. INVARIANT: it only ever touches the watched names."""

    def __init__(
        self,
        watches: Iterable[WatchedName],
        quarantine: str,
        repositories: RepositoryCheck | NoRepositories = _NONE,
        searches: Iterable[Search] = (),
    ) -> None:
        self._repositories = repositories
        self._trees = PatternTrees(searches)
        self._directories: dict[str, WatchedDirectory] = {}
        self._gone: set[str] = set()  # of these, those that are not there any more
        self._told: list[Violation] = []  # which is not a command's doing
        self._by_number: dict[int, str] = {}
        self._stamps: dict[str, int] = {}
        self._quarantine = Quarantine(quarantine)
        self._began = time.monotonic()
        self._look_at = self._began + _GLANCE_MS / 1000
        self._settled: dict[str, int] = {}  # when a directory was last changed that was right long after
        self._trusted = False  # whether times of change can be relied upon
        self._made: dict[str, Made] = {}  # repositories that commands have made, by path
        self.violations: list[Violation] = []
        self._notices: Notices | None = None  # of the kernel, once the run has lasted a while
        self.descriptor = -1  # on which they come
        try:
            for watch in watches:
                self._hold(watch)
        except BaseException:
            self.close()
            raise

    def _hold(self, watch: WatchedName) -> None:
        if watch.directory not in self._directories:
            found = WatchedDirectory(watch, is_held=len(self._directories) < MOST_HELD)
            self._directories[watch.directory] = found
            self._stamps[watch.directory] = found.stamp()
        self._directories[watch.directory].watches[watch.name] = watch

    @property
    def patience_ms(self) -> float | None:
        """How long to wait before calling `glance` again; None: until the descriptor is ready."""
        if self.descriptor < 0:
            return _GLANCE_MS
        if self._notices is not None and not self._notices.has_names and self._trees.is_used:
            return _GLANCE_AT_MADE_MS  # nobody tells of the trees in which patterns are held
        is_made = self._repositories.is_made_at_the_top()
        return _GLANCE_AT_MADE_MS if is_made else None  # nobody tells of changes inside it

    def prepare(self, poller: select.poll) -> float | None:
        """Say what is to be waited for, and for how many milliseconds at most. Asked before every wait."""
        if self.descriptor >= 0:
            poller.register(self.descriptor, 1)  # POLLIN
        return self.patience_ms

    def attend(self, mark: int = 0) -> bool:
        """Look, if it is time to; True if the command has tried too often since `mark`."""
        if self.patience_ms is not None:
            self.glance()
        return len(self.violations) - mark + self._repositories.found_at_the_top >= PATIENCE

    def glance(self) -> bool:
        """Look at what has changed since the last time; True when the descriptor is there to wait for.

        Whoever is woken for other reasons need not look again so soon.
        """
        now = time.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + _GLANCE_MS / 1000
        for path, directory in self._directories.items():
            stamp = directory.stamp()
            if stamp != self._stamps.get(path) or time.time_ns() - latest_ns(stamp) < _TICK_NS:
                self._stamps[path] = stamp
                self._inspect_in(directory)
        self._take_planted(self._trees.glance())
        self._repositories.glance()
        if self.descriptor >= 0 or now - self._began < self._listen_after(now):
            return False
        is_listening = self._try_to_listen()
        self._inspect_all()
        return is_listening

    def _listen_after(self, began: float) -> float:
        """To look at very many takes a while: then the kernel is to tell soon, or others get no turn."""
        if self._trees.is_large:
            return 0.0
        if len(self._directories) <= MOST_HELD:
            return _LISTEN_AFTER_SECONDS
        self._look_at += _REST_FOR_LOOK * (time.monotonic() - began)
        return 0.0

    def _try_to_listen(self) -> bool:
        """A user has few inotify instances; when they are used up, looking must do."""
        try:
            self._listen()
        except OSError:
            self._stop_listening()
            return False
        return True

    def _stop_listening(self) -> None:
        self._trees.listen(None)
        self._close_notices()
        self._began = float("inf")  # never try again

    def _listen(self) -> None:
        from corral.protected_names.notices import open_notices  # only a run that lasts pays for it

        self._notices = open_notices()
        self.descriptor = self._notices.descriptor
        for path, directory in self._directories.items():
            with directory.opened() as handle:
                if handle < 0:
                    continue  # which the next look tells
                self._by_number[self._notices.tell_of(handle)] = path
        if self._notices.has_names:
            self._trees.listen(self._notices.tell_of)
        self._take_planted(self._trees.find())

    def react(self) -> None:
        """Handle what the kernel has reported since the last time."""
        assert self._notices is not None
        for number, name, mask in self._notices.take():
            directory = self._directories.get(self._by_number.get(number, ""))
            if directory is not None and name in directory.watches:
                self._inspect_in(directory, name)
            elif number < 0 or (directory is not None and not name):  # told of no name: look at everything
                self._inspect_all()
            self._trees.hear(number, name, mask)
        try:
            self._take_planted(self._trees.heard())
        except OSError:  # there are more directories than the kernel tells of
            self._stop_listening()

    def hear(self, lines: Iterable[str]) -> None:
        """What a launcher tells that watches over names itself."""

    @property
    def has_ended_it(self) -> bool:
        """Whether such a launcher has ended the command, for having tried too often."""
        return False

    def acquit(self) -> None:
        """Nothing has run: there is nothing to look at."""
        self._repositories.acquit()

    def sweep(self, *, is_at_work: bool = False, is_over: bool = True) -> tuple[str, ...]:
        """Look at everything; returns what could not be put right. `is_over`: nothing runs any more.

        `is_at_work`: another command of the same sandbox still does.
        """
        for _ in range(_ROUNDS):
            planted = self._find_planted(may_open=True)
            wrong = (*self._find_wrong(), *(each.path for each in planted))
            if not wrong:
                break
            self._inspect_all()
        self._quarantine.clear()
        wrong += self._repositories.sweep(is_at_work=is_at_work, is_over=is_over)
        self._made = self._find_made()
        return wrong

    def take_findings(self) -> tuple[Violation, ...]:
        """What was found in repositories since the last time, and what could not be looked at."""
        told, self._told = self._told, []
        return (*self._repositories.take_violations(), *told)

    def resume(self) -> tuple[str, ...]:
        """Begin again after a pause without commands; returns the names that the host has made meanwhile."""
        self._began = time.monotonic()
        self._look_at = self._began + _GLANCE_MS / 1000
        if self._notices is not None:
            self._notices.forget()
        self._repositories.begin()
        by_host = (path for path, made in self._find_made().items() if self._made.get(path) != made)
        changes = self._trees.find_changes()
        return (*self._find_wrong(), *changes, *by_host, *self._repositories.configured)

    def _find_made(self) -> dict[str, Made]:
        """Repositories where the plan found none.

        TRUST: the host may take one for its own, or put its own in the place, with the same number. Then what
        it names has to be protected. Whatever is changed while nothing runs is the host's doing.
        """
        found = {}
        for path, directory in self._directories.items():
            for name in (name for name, watch in directory.watches.items() if watch.is_repository):
                with contextlib.suppress(FileNotFoundError), directory.opened() as handle:
                    if handle >= 0 and _text(handle, name) is not None:
                        parts = (os.path.join(name, part).rstrip("/") for part in _MADE_PARTS)
                        found[os.path.join(path, name)] = tuple(_stamp(handle, part) for part in parts)
        return found

    def _find_wrong(self) -> tuple[str, ...]:
        wrong: list[str] = []
        for path, directory in self._directories.items():
            stamp = directory.stamp() if self._trusted else 0
            if self._trusted and stamp == self._settled.get(path):
                continue  # nothing has been made, renamed or removed in it since
            found = self._find_wrong_in(directory)
            if not found and time.time_ns() - latest_ns(stamp) > _TICK_NS:
                self._settled[path] = stamp
            wrong += found
        return tuple(wrong)

    def _find_wrong_in(self, directory: WatchedDirectory) -> list[str]:
        try:
            with directory.opened() as handle:
                if handle < 0:
                    self._tell_gone(directory)
                    return []
                watches = directory.watches.items()
                return [
                    os.path.join(directory.path, name)
                    for name, watch in watches
                    if not _is_right(handle, watch)
                ]
        except OSError:  # closed by the command, so that nobody can say what lies in it
            return [directory.path]

    def trust_times(self, is_local: Callable[[int], bool]) -> None:
        """For a guard that looks often: skip directories that the kernel says have not changed.

        `is_local` tells, for the number of a device, whether its file system keeps these times by itself.
        """
        self._trusted = all(is_local(directory.device) for directory in self._directories.values())

    @property
    def is_exhausted(self) -> bool:
        """Whether the command has tried too often."""
        return len(self.violations) + self._repositories.found_at_the_top >= PATIENCE

    def close(self) -> None:
        """Give the descriptors back."""
        self._repositories.close()
        for directory in self._directories.values():
            directory.close()
        self._directories = {}
        self._close_notices()

    def _close_notices(self) -> None:
        if self._notices is not None:
            self._notices.close()
        self._notices, self.descriptor = None, -1

    def _inspect_all(self) -> None:
        for directory in self._directories.values():
            self._inspect_in(directory)
        self._take_planted(self._find_planted())

    def _find_planted(self, *, may_open: bool = False) -> list[Planted]:
        found = self._trees.find(may_open=may_open)
        return [planted for planted in found if not self._quarantine.is_aside(planted.name)]

    def _take_planted(self, found: Iterable[Planted]) -> None:
        """Remove what fulfils a pattern."""
        for planted in found:
            if self._quarantine.is_aside(planted.name):
                continue
            with contextlib.suppress(OSError):  # which the sweep sees to
                handle = open_beneath(planted.root, planted.directory)
                try:
                    with _writable(handle):
                        self._take(handle, planted.name, planted.path, f"{planted.text} is held")
                finally:
                    os.close(handle)

    def _inspect_in(self, directory: WatchedDirectory, name: str = "") -> None:
        """Put the names of a directory right, or one of them."""
        with contextlib.suppress(OSError), directory.opened() as handle:
            if handle < 0:
                self._tell_gone(directory)
                return
            for watch in (directory.watches[name],) if name else directory.watches.values():
                self._inspect(handle, watch)

    def _tell_gone(self, directory: WatchedDirectory) -> None:
        """Nobody holds it: whoever has moved it away has taken it out of sight."""
        if directory.path not in self._gone:
            self._gone.add(directory.path)
            why = "it was moved or removed during the run, so its protected names were no longer watched"
            self._told.append(Violation(Feature.FS_PROTECT, directory.path, Evidence.OBSERVED, why))

    def _inspect(self, handle: int, watch: WatchedName) -> None:
        """Put one name right. What fails now, because the command runs on, is seen to by the sweep."""
        if _is_right(handle, watch):
            return
        with contextlib.suppress(OSError), _writable(handle):
            if _text(handle, watch.name) is not None:
                self._take_away(handle, watch)
            if watch.link_text:
                os.symlink(watch.link_text, watch.name, dir_fd=handle)

    def _take_away(self, handle: int, watch: WatchedName) -> None:
        place = os.path.join(watch.directory, watch.name)
        self._take(handle, watch.name, place, f"{watch.label} is protected")

    def _take(self, handle: int, name: str, path: str, why: str) -> None:
        try:
            fate = self._quarantine.take(handle, name)
        except FileNotFoundError:
            return  # gone again by itself
        detail = f"{why} and must not be made by the command; {fate}"
        self.violations.append(Violation(Feature.FS_PROTECT, path, Evidence.OBSERVED, detail))


def _text(handle: int, name: str) -> str | None:
    """The text of a link; empty if there is something else; None if there is nothing."""
    try:
        return os.readlink(name, dir_fd=handle)
    except FileNotFoundError:
        return None
    except PermissionError:
        with _writable(handle):
            return _text(handle, name) if _may_search(handle) else ""
    except OSError:
        return ""


def _may_search(handle: int) -> bool:
    return bool(os.fstat(handle).st_mode & 0o100)


def _stamp(handle: int, name: str) -> tuple[int, ...]:
    """What is there and when it was last changed; empty if that is nothing."""
    try:
        status = os.stat(name, dir_fd=handle, follow_symlinks=False)
    except OSError:
        return ()
    return (status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns)


def _is_right(handle: int, watch: WatchedName) -> bool:
    text = _text(handle, watch.name)
    if text == "" and watch.is_repository:  # a directory may be made: what is in it is looked at by others
        return _is_directory(handle, watch.name)
    return text == (watch.link_text or None)


def _is_directory(handle: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode)
    except OSError:
        return False


@contextlib.contextmanager
def _writable(handle: int) -> Iterator[None]:
    """The command may have taken our own right to write in the directory away."""
    mode = os.fstat(handle).st_mode & 0o7777
    if mode & 0o300 == 0o300:
        yield
        return
    os.fchmod(handle, mode | 0o300)
    try:
        yield
    finally:
        os.fchmod(handle, mode)
