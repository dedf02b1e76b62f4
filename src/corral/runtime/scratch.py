"""Scratch: a private directory for backends that cannot mount one, gone when the run is over."""

from __future__ import annotations

import contextlib
import os

from corral.model.errors import SetupError
from corral.runtime.removal import remove_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from corral.model.launch import Launch
    from corral.model.plan import PrivateFile


class Scratch:
    """Makes a launch's directory on entry and removes it with all its content on exit."""

    def __init__(self, launch: Launch) -> None:
        self._directory = launch.scratch
        self._files = launch.scratch_files
        self._is_made = False

    def __enter__(self) -> None:
        if not self._directory:
            return
        try:
            os.mkdir(self._directory, mode=0o700)  # fails on anything that is there already
            self._is_made = True
            for file in self._files:
                _make(file)
        except OSError as problem:
            self._remove()
            raise SetupError(
                "scratch",
                "the run's private directory could not be made",
                why=str(problem),
                fix="make room on the file system of TMPDIR, or point TMPDIR elsewhere",
            ) from problem

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        if not self._is_made:
            return
        self._is_made = False
        try:
            for file in reversed(self._files):
                (os.rmdir if file.is_directory else os.unlink)(file.path)
            os.rmdir(self._directory)
        except OSError:  # the command left something there
            with contextlib.suppress(OSError):
                remove_tree(*os.path.split(self._directory))


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
