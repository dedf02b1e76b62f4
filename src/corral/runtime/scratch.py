"""Scratch: private directories for backends that cannot mount any, gone when the run is over."""

from __future__ import annotations

import os

from corral.model.errors import SetupError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from corral.model.launch import Launch


class Scratch:
    """Makes a launch's directories on entry and removes them with all their content on exit."""

    def __init__(self, launch: Launch) -> None:
        self._directories = launch.scratch
        self._files = launch.scratch_files
        self._made: list[str] = []

    def __enter__(self) -> None:
        try:
            for directory in self._directories:
                os.mkdir(directory, mode=0o700)  # fails on anything that is there already
                self._made.append(directory)
            for file in self._files:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                descriptor = os.open(file.path, flags, 0o600)
                try:
                    os.write(descriptor, file.content)
                finally:
                    os.close(descriptor)
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
        if not self._made:
            return
        try:
            for file in self._files:
                os.unlink(file.path)
            for directory in reversed(self._made):
                os.rmdir(directory)
        except OSError:  # the command left something there
            _remove_tree(self._made[0])  # the others lie inside it
        self._made = []


def _remove_tree(directory: str) -> None:
    """Remove a tree whose owner took rights away from his own directories. No link is followed."""
    import shutil

    for path, names, _ in os.walk(directory, topdown=True, followlinks=False):
        for name in names:
            child = os.path.join(path, name)
            if not os.path.islink(child):
                os.chmod(child, 0o700)
    shutil.rmtree(directory, ignore_errors=True)
