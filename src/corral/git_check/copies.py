"""Copies: private directories with copies of git configurations, for as long as a run or session lasts.

They lie in the user's runtime directory, else in the state directory, where no command reaches; each is
mounted in its sandbox alone. The directory of a run is locked for as long as the run lasts. One that nobody
has locked belonged to a corral that was killed: the next run with a copy removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os

from corral.git_check.settings import Changed, GitSettings
from corral.linux.encode import append_mounts
from corral.linux.spec import Mount, MountFlag, MountKind
from corral.model.errors import SetupError, path_changed
from corral.untrusted_files.quarantine import make_private
from corral.untrusted_files.removal import remove_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from corral.model.launch import Launch
    from corral.model.plan import FileStamp, Plan
    from corral.model.violation import Violation

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Copies:
    """Makes the copies of a launch on entry and removes them on exit. Not for several threads at once."""

    def __init__(self, plan: Plan, launch: Launch) -> None:
        self._place = plan.copies_directory
        self._name = plan.run_id
        self._lock = -1
        self._settings: tuple[GitSettings, ...] = ()
        self.launch = launch  # with the mounts of the copies, as soon as they are made

    def __enter__(self) -> Self:
        if not self.launch.copies:
            return self
        try:
            self._make()
            self._settings = tuple(
                GitSettings(mount.copy, self._lock, str(mount.copy.number)) for mount in self.launch.copies
            )
            self.launch = self._mounted()
        except Changed as problem:
            self._remove()
            raise path_changed(str(problem)) from problem
        except OSError as problem:
            self._remove()
            raise SetupError(
                "copies",
                "a copy of the git configuration could not be made",
                why=f"{problem.filename or self._place}: {problem.strerror or problem}",
                fix="free some space there, or point XDG_RUNTIME_DIR or XDG_STATE_HOME elsewhere",
            ) from problem
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def refresh(self) -> tuple[str, ...]:
        """Make the copies what the files are, while nothing runs; returns files that cannot be copied."""
        failed = []
        for settings in self._settings:
            try:
                settings.refresh()
            except (Changed, OSError):
                failed.append(settings.path)
        return tuple(failed)

    def take_over(self) -> tuple[Violation, ...]:
        """Write into the files what is harmless of what was changed; what is refused is returned."""
        return tuple(violation for settings in self._settings for violation in settings.take_over())

    def written(self) -> tuple[FileStamp, ...]:
        """How the files are that were written here."""
        return tuple(settings.written for settings in self._settings if settings.written is not None)

    def _make(self) -> None:
        """ORDER: the directory above is locked until ours is: who holds that lock removes what has none."""
        make_private(self._place)
        above = os.open(self._place, _DIRECTORY)
        try:
            fcntl.flock(above, fcntl.LOCK_EX)
            for name in os.listdir(above):
                _remove_if_left(above, name)
            os.mkdir(self._name, 0o700, dir_fd=above)
            self._lock = os.open(self._name, _DIRECTORY, dir_fd=above)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        finally:
            os.close(above)

    def _mounted(self) -> Launch:
        """The launch, with every copy's directory at its place inside."""
        spec = self.launch.spec
        assert spec is not None
        mounts = []
        for mount in self.launch.copies:
            name = str(mount.copy.number)
            status = os.stat(name, dir_fd=self._lock, follow_symlinks=False)
            source = os.path.join(self._place, self._name, name)
            flags, identity = MountFlag.NO_EXEC, (status.st_dev, status.st_ino)
            mounts.append(Mount(MountKind.BIND, mount.inside, source, flags, *identity))
        return self.launch.replace(spec=append_mounts(spec, mounts))

    def _remove(self) -> None:
        if self._lock < 0:
            return
        lock, self._lock, self._settings = self._lock, -1, ()
        try:
            with contextlib.suppress(OSError):  # the next run tries again
                remove_tree(self._place, self._name)
        finally:
            os.close(lock)


class ResumedCopies(Copies):
    """Those that the entry program has made, in a directory that it has locked."""

    def __init__(self, plan: Plan, launch: Launch, lock: int, originals: Sequence[bytes]) -> None:
        super().__init__(plan, launch)
        self._lock, self._originals = lock, originals

    def __enter__(self) -> Self:
        self._settings = tuple(
            GitSettings(mount.copy, self._lock, str(mount.copy.number), original)
            for mount, original in zip(self.launch.copies, self._originals, strict=True)
        )
        return self


def _remove_if_left(above: int, name: str) -> None:
    try:
        handle = os.open(name, _DIRECTORY, dir_fd=above)
    except OSError:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_tree(above, name)
    except OSError:
        return  # its run goes on, or the next one tries again
    finally:
        os.close(handle)
