"""SessionFiles: files of a kept sandbox, read and written by corral itself, from outside."""

from __future__ import annotations

from contextlib import contextmanager

from corral.pipeline.arguments import bytes_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from corral.model.file_entry import FileEntry
    from corral.model.violation import Violation
    from corral.protected_names.session_guard import SessionGuard
    from corral.sandbox_files.base import Files


class SessionFiles:
    """What of a `Session` is about files."""

    def read_file(self, path: str | os.PathLike[str], *, limit: int | None = None) -> bytes:
        """The content of a file, as commands of the session see it; at most `limit` bytes.

        This and what follows is done by corral itself, outside, and by no link it is led out of what the
        session shows. Paths are of the workspace, relative to it, or inside. Raises OSError as `open` does.
        """
        return self._file_access().read(self._inside(path), limit=limit)

    def write_file(
        self,
        path: str | os.PathLike[str],
        data: bytes | str,
        *,
        mode: int = 0o644,
        parents: bool = False,
    ) -> None:
        """Put content into a file, all of it or nothing, where commands of the session may write.

        What git would run or obey is removed, as after a command, and PolicyError is raised.
        """
        with self._writing() as files:
            files.write(self._inside(path), bytes_of(data), mode=mode, parents=parents)

    @contextmanager
    def _writing(self) -> Iterator[Files]:
        """TRUST: as a rule an agent says what is written. A repository made of that is none of the host's."""
        begun: list[tuple[SessionGuard, int]] = []
        found: tuple[Violation, ...] = ()
        files = self._file_access(lambda guard: begun.append((guard, guard.begin())))
        try:
            yield files
        finally:
            for guard, mark in begun:
                found += guard.end_writing(mark)
        if found:
            from corral.sandbox_files.held_file import refusal

            raise refusal(
                "file-protected",
                f"{found[0].subject} did not stay",
                why=found[0].detail,
                fix="write it from outside the sandbox, or let a command do it with git",
            )

    def list_dir(self, path: str | os.PathLike[str] = ".") -> tuple[FileEntry, ...]:
        """What lies in a directory, by name."""
        return self._file_access().list(self._inside(path))

    def upload(self, source: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
        """Copy a file or a directory of the host into the session."""
        self._file_access().upload(source, self._inside(path))

    def download(self, path: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
        """Copy a file or a directory out of the session, to where nothing is yet."""
        self._file_access().download(self._inside(path), target)

    def _file_access(self, watch: Callable[[SessionGuard], object] | None = None) -> Files:
        raise NotImplementedError

    def _inside(self, cwd: str | os.PathLike[str] | None) -> str:
        raise NotImplementedError
