"""Feed: a file of the caller's that a command has as stdin, but not as the caller opened it.

It is opened anew for reading alone (`Doors.open_anew`); where that cannot be had, it comes by a pipe.
Either way the caller reads on where the command stopped, as if both had used one descriptor.
"""

from __future__ import annotations

import contextlib
import fcntl
import os

from corral.model.errors import SetupError
from corral.streams.stdio import PATH_ONLY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.streams.doors import Doors

_CHUNK = 65_536


class FileFeed:
    """One such file, from the start of the command to its end."""

    def __init__(self, doors: Doors, descriptor: int) -> None:
        """Raises SetupError for what the caller himself could not read by this descriptor."""
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        if flags & PATH_ONLY or flags & os.O_ACCMODE == os.O_WRONLY:
            raise SetupError(
                "streams",
                "the command's input and output could not be set up",
                why="stdin is not open for reading, and the policy does not let the command write this file",
                fix="give it a file that is open for reading, or </dev/null",
            )
        self._file = descriptor
        self._pipe = -1
        self._taken = 0
        self._has_begun = False
        self.is_at_end = False
        self._begun_at = -1
        with contextlib.suppress(OSError):  # files of the kernel's own need not have an offset
            self._begun_at = os.lseek(descriptor, 0, os.SEEK_CUR)
        try:
            self.anew = doors.open_anew(descriptor)
        except OSError:
            self.anew = -1

    def begin(self, pipe: int) -> memoryview:
        """It comes by a pipe, of which this is the command's end: the first piece."""
        # Held, so that what the command leaves in it can be counted when all is over.
        self._pipe = os.dup(pipe)
        piece = self.read()
        self._has_begun = True
        return piece

    def read(self) -> memoryview:
        """The next piece; empty at the end. Raises SetupError."""
        try:
            piece = os.read(self._file, _CHUNK)
        except OSError as problem:
            raise SetupError(
                "streams",
                "its input could not be read",
                why=problem.strerror or str(problem),
                fix="give the command another file as stdin, or none",
                ran=self._has_begun,
            ) from problem
        self._taken += len(piece)
        self.is_at_end = not piece
        return memoryview(piece)

    def close(self, pending: int) -> None:
        """Set the caller's offset; `pending` bytes were read and have not come as far as the pipe.

        ORDER: when all output is written, which may go to the same open file.
        """
        if self._begun_at >= 0:
            with contextlib.suppress(OSError):
                self._set_back(pending)
        for descriptor in (self.anew, self._pipe):
            if descriptor >= 0:
                os.close(descriptor)
        self.anew = self._pipe = -1

    def _set_back(self, pending: int) -> None:
        left_at = self._begun_at + self._taken
        stopped_at = left_at - pending
        if self.anew >= 0:
            stopped_at = os.lseek(self.anew, 0, os.SEEK_CUR)
        elif self._pipe >= 0:
            stopped_at -= _waiting(self._pipe)
        # Somebody else may have moved it meanwhile: a caller who reads on, output into the same open file.
        if stopped_at != left_at and os.lseek(self._file, 0, os.SEEK_CUR) == left_at:
            os.lseek(self._file, stopped_at, os.SEEK_SET)


def _waiting(pipe: int) -> int:
    """How many bytes nobody has read."""
    import termios  # seldom needed

    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4), "little")
