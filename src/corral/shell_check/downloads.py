"""Downloads: files that a text fetches and runs later on."""

from __future__ import annotations

import posixpath

from corral.shell_check.call import UNKNOWN, Word
from corral.shell_check.wrappers import SHELLS, is_interpreter, script_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from corral.shell_check.call import ShellCall

FETCHERS = frozenset(
    {"curl", "wget", "nc", "ncat", "socat", "fetch", "aria2c", "lynx", "http", "dig", "ftp", "scp"}
)
#: Options after which the name of the file stands.
_NAMED = {
    "curl": ("-o", "--output"),
    "wget": ("-O", "--output-document"),
    "aria2c": ("-o", "--out"),
    "fetch": ("-o",),
}
#: Without one of those the file is called as at the end of the address; with curl only if `-O` says so.
_BY_ADDRESS = frozenset({"curl", "wget", "aria2c"})
_COPIES = frozenset({"cp", "mv", "install", "ln"})
_NO_FILES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "-"})


class Downloads:
    """Which files hold what was fetched, as the text goes on."""

    def __init__(self) -> None:
        self._files: dict[str, frozenset[str]] = {}  # and by which programs

    def note_written(self, call: ShellCall, targets: Iterable[Word]) -> None:
        """What a call prints goes into files."""
        self._take(call, targets, (call.upstream() | {call.name}) & FETCHERS)

    def note(self, call: ShellCall) -> None:
        """What a call itself does with files."""
        if call.name in _NAMED:
            self._take(call, _named_by(call), frozenset({call.name}))
        elif call.name == "tee":
            self._take(call, call.arguments, call.upstream() & FETCHERS)
        elif call.name in _COPIES and len(call.arguments) > 1:
            *sources, target = call.arguments
            self._take(call, [target], self._of(call, sources))

    def run_by(self, call: ShellCall) -> frozenset[str]:
        """By which programs was fetched what a call runs."""
        words = call.words[:1]
        if call.name in SHELLS:
            script = script_of(call.arguments)
            words = words if script is None else [script]
        elif call.name in {"source", "."} or is_interpreter(call.name):
            words = [word for word in call.arguments if not word.text.startswith("-")][:1]
        return self._of(call, words)

    def read_by(self, call: ShellCall, sources: Iterable[Word]) -> frozenset[str]:
        """The same of files that it is given as input."""
        return self._of(call, sources)

    def _of(self, call: ShellCall, words: Iterable[Word]) -> frozenset[str]:
        if not self._files:
            return frozenset()
        places = (place for word in words for place in _places(call, word))
        return frozenset().union(*(self._files.get(place, frozenset()) for place in places))

    def _take(self, call: ShellCall, targets: Iterable[Word], by: frozenset[str]) -> None:
        if by:
            for word in targets:
                self._files.update(dict.fromkeys(_places(call, word), by))


def _places(call: ShellCall, word: Word) -> Iterator[str]:
    for text in word.texts:
        if text and UNKNOWN not in text and text not in _NO_FILES:
            yield posixpath.normpath(posixpath.join(call.directory, text))


def _named_by(call: ShellCall) -> Iterator[Word]:
    """The files that a program is told to write to, or that are called as their addresses are."""
    short, *long = _NAMED[call.name]
    letters, found = "", False
    for word, after in zip(call.arguments, [*call.arguments[1:], None], strict=True):
        text = word.text
        is_short = text[:1] == "-" and text[1:2] not in {"-", ""}
        letters += text[1:] if is_short else ""
        name, equals, value = text.partition("=")
        if is_short and short[1] in text[1:]:  # alone, or after other letters: `-fsSLo FILE`
            value = text.partition(short[1])[2]
        elif name not in long:
            continue
        elif not equals:
            value = ""
        found = True
        if value:
            yield Word((value,), word.start, word.end)
        elif after is not None:
            yield after
    is_by_address = call.name != "curl" or "O" in letters or "--remote-name" in map(_text, call.arguments)
    if not found and is_by_address and call.name in _BY_ADDRESS:
        for word in call.arguments:
            name = posixpath.basename(word.text.partition("?")[0])
            if name and not word.text.startswith("-"):
                yield Word((name,), word.start, word.end)


def _text(word: Word) -> str:
    return word.text
