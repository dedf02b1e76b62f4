"""Scratch: a private directory for backends that cannot mount one, gone when the run is over.

It is locked for as long as its run lasts. One that nobody has locked belonged to a corral that was killed:
the next run removes it, and the container of the same name, should its engine have kept that.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time

from corral.model.errors import SetupError
from corral.untrusted_files.removal import remove_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.git_check.copies import Copies
    from corral.model.launch import Launch
    from corral.model.plan import Plan, PrivateFile


#: How the names begin, and how long they are: the run's identifier follows.
PREFIX = "corral-"
_NAME_LENGTH = len(PREFIX) + 16
_PROFILE = ".sb"
_HEXADECIMAL = frozenset("0123456789abcdef")
#: Younger ones may not have been locked yet.
_LEFT_SECONDS = 60.0


class Scratch:
    """Makes a launch's directory on entry and removes it with all its content on exit."""

    def __init__(self, launch: Launch) -> None:
        self._directory = launch.scratch
        self._files = launch.scratch_files
        self._removal = launch.outer.removal if launch.outer is not None else ()
        self._finding = launch.outer.finding if launch.outer is not None else ()
        self._env = launch.env
        self._lock = -1
        self._profile = launch.profile
        self._profile_lock = -1

    def __enter__(self) -> None:
        if not self._directory:
            return
        try:
            os.mkdir(self._directory, mode=0o700)  # fails on anything that is there already
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            self._lock = os.open(self._directory, flags)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            for file in self._files:
                _make(file)
            self._remove_leftovers()
            if self._profile is not None:
                self._profile_lock = make_profile(self._profile)
        except OSError as problem:
            self._remove()
            raise SetupError(
                "scratch",
                "the run's private directory could not be made",
                why=str(problem),
                fix="free some space on the file system of TMPDIR, or point TMPDIR elsewhere",
            ) from problem

    def __exit__(self, *_: object) -> None:
        self._remove()

    def _remove(self) -> None:
        """TRUST: only what was made, by descriptor: a name may lead elsewhere by now."""
        if self._profile_lock >= 0 and self._profile is not None:
            with contextlib.suppress(OSError):  # nobody else writes where it lies
                os.unlink(self._profile.path)
            os.close(self._profile_lock)
            self._profile_lock = -1
        if self._lock < 0:
            return
        lock, self._lock = self._lock, -1
        parent, name = os.path.split(self._directory)
        try:
            own = os.fstat(lock)
            with contextlib.suppress(OSError):
                if os.path.samestat(own, os.lstat(self._directory)):
                    remove_tree(parent, name)
        finally:
            os.close(lock)

    def _remove_leftovers(self) -> None:
        parent, own = os.path.split(self._directory)
        for name in os.listdir(parent):
            if name.startswith(PREFIX) and name != own and _is_left(parent, name):
                if self._finding:  # containers have a label with the number of their directory
                    number, other = own.removeprefix(PREFIX), name.removeprefix(PREFIX)
                    finding = tuple(word.replace(number, other) for word in self._finding)
                    _remove(self._removal, finding, self._env)
                with contextlib.suppress(OSError):
                    remove_tree(parent, name)


def make_profile(file: PrivateFile) -> int:
    """Write it where nobody else may look, and hold it: a descriptor that has it locked. Raises OSError.

    Those that a killed corral has left are removed.
    """
    directory = os.path.dirname(file.path)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    for name in os.listdir(directory):
        if name.startswith(PREFIX) and name.endswith(_PROFILE) and _is_left(directory, name, _PROFILE):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(directory, name))
    _make(file)
    lock = os.open(file.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def copies_of(plan: Plan, launch: Launch) -> Copies | None:
    """The copies of configurations that a launch has, to be made on entry and removed on exit."""
    if not launch.copies:
        return None
    from corral.git_check.copies import Copies

    return Copies(plan, launch)


def _is_left(parent: str, name: str, suffix: str = "") -> bool:
    """Whether a directory, or a file with a suffix, is one of ours that nobody uses any more."""
    number = name.removesuffix(suffix)[len(PREFIX) :]
    if len(PREFIX) + len(number) != _NAME_LENGTH or not _HEXADECIMAL.issuperset(number):
        return False
    kind = os.O_NONBLOCK if suffix else os.O_DIRECTORY
    try:
        handle = os.open(os.path.join(parent, name), os.O_RDONLY | kind | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        status = os.fstat(handle)
        if status.st_uid != os.geteuid() or time.time() - status.st_mtime < _LEFT_SECONDS:
            return False
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _remove(removal: tuple[str, ...], finding: tuple[str, ...], env: tuple[tuple[str, str], ...]) -> None:
    from corral.runtime.launcher.outer import remove_found

    remove_found(removal, finding, env)


def _make(file: PrivateFile) -> None:
    if file.is_directory:
        os.mkdir(file.path, 0o700)
        os.chmod(file.path, file.mode)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(file.path, flags, 0o600)
    try:
        os.write(descriptor, file.content)
        os.fchmod(descriptor, file.mode)
    finally:
        os.close(descriptor)
