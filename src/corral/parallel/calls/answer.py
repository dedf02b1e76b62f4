"""Answer: what a worker says, collected within bounds, and made a value or an exception of the host's own.

TRUST: every byte was written by code that nobody has read. It can say whatever it likes about its own call;
it is decoded into plain values, and what is to be shown to a person is made printable first.
"""

from __future__ import annotations

from corral.model.errors import CallError, RemoteError
from corral.parallel.calls.codec import CodecError, decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.model.result import Result
    from corral.parallel.calls.codec import Bounds

#: An error is told whole, however little a result may take.
_ERROR_BYTES = 1 << 20
_NAME_CHARACTERS, _MESSAGE_CHARACTERS, _TRACEBACK_CHARACTERS = 200, 4096, 65_536


class RemoteTraceback(Exception):
    """The cause of a RemoteError: Python shows it above, as the traceback that it is."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class Answer:
    """Takes what a worker writes: its answer to the one call, and what the function prints."""

    def __init__(self, token: bytes, bounds: Bounds, output: Callable[[bytes], object] | None) -> None:
        self._token = token
        self._bounds = bounds
        self._room = bounds.size + _ERROR_BYTES
        self._output = output
        self._said = bytearray()

    def take(self, name: str, piece: bytes) -> None:
        """For `stream`: what it raises ends the worker."""
        if name != "stdout":
            if self._output is not None:
                self._output(piece)
        elif len(self._said) + len(piece) > self._room:
            self._said.clear()
            raise CallError(
                "answer-too-large",
                "the worker was ended: its answer is larger than a result may be",
                why=f"a result takes {self._bounds.size} bytes at most",
                fix="return less, write it to a file, or raise `max_result_bytes`",
                ran=True,
            )
        else:
            self._said += piece

    def conclude(self, result: Result) -> object:
        """What the function returned. Raises RemoteError for what it raised, CallError for anything else."""
        if not result.ok:
            raise CallError(
                "no-answer",
                f"the worker ended before it answered: {result.describe()}",
                why=_printable(result.stderr_tail(), 300) or "it printed nothing",
                fix="see `error.result`; the policy's limits hold for functions too",
                result=result,
            )
        match self._decoded(result):
            case (self._token, "value", value):
                return value
            case (self._token, "raised", str(name), str(message), str(trace)):
                error = RemoteError(
                    _printable(name, _NAME_CHARACTERS),
                    _printable(message, _MESSAGE_CHARACTERS),
                    _printable(trace, _TRACEBACK_CHARACTERS),
                    result,
                )
                raise error from RemoteTraceback(error.traceback)
            case (self._token, "refused", str(why)):
                raise CallError(
                    "result-refused",
                    "the function returned something that cannot leave its sandbox",
                    why=_printable(why, _MESSAGE_CHARACTERS),
                    fix="return plain values: numbers, text, bytes, lists, tuples, dicts, sets, dates, paths",
                    result=result,
                )
        raise _garbled("it is not an answer to this call", result)

    def _decoded(self, result: Result) -> object:
        # One byte string, and no second copy kept: it may be large.
        said, self._said = bytes(self._said), bytearray()
        if not said:
            raise _garbled("it ended without a word", result)
        bounds = type(self._bounds)(self._room, self._bounds.values, self._bounds.depth, self._bounds.seconds)
        try:
            return decode(said, bounds)
        except CodecError as problem:
            raise _garbled(str(problem), result) from None


def _garbled(why: str, result: Result) -> CallError:
    return CallError(
        "bad-answer",
        "the worker's answer cannot be understood",
        why=why,
        fix="the function ended its process, or wrote to a descriptor that is not its own",
        result=result,
    )


def _printable(text: str, most: int) -> str:
    """Text for a person's terminal: no control characters but line feeds and tabs, and not without end."""
    cut = text if len(text) <= most else f"{text[: most // 2]}\n...\n{text[-(most // 2) :]}"
    if cut.isprintable():
        return cut
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else letter.encode("unicode-escape").decode()
        for letter in cut
    )
