"""What a call runs as code: the text of `sh -c` and `eval`, what comes through a pipe, other languages."""

from __future__ import annotations

from corral.shell_check.call import UNKNOWN
from corral.shell_check.words import printed
from corral.shell_check.wrappers import SHELLS, inline_code, is_interpreter, script_of, shell_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.shell_check.call import ShellCall, Word
    from corral.shell_check.walk import Walk

#: Programs that pass on or change a text: what comes out of them is somebody else's word. What any other
#: program prints (`eval "$(rbenv init -)"`) is that program's own, and to run that is to run the program.
CARRIERS = frozenset(
    {
        *(
            "cat",
            "head",
            "tail",
            "cut",
            "tr",
            "rev",
            "sed",
            "awk",
            "gawk",
            "tac",
            "fold",
            "sort",
            "grep",
            "paste",
        ),
        *("base64", "base32", "xxd", "od", "hexdump", "openssl", "gpg", "uudecode", "gunzip", "gzip", "zcat"),
        *(
            "xz",
            "bzip2",
            "zstd",
            "unzip",
            "tar",
            "echo",
            "printf",
            "curl",
            "wget",
            "nc",
            "ncat",
            "socat",
            "dig",
        ),
        *(
            "ssh",
            "ftp",
            "aria2c",
            "http",
            "lynx",
            "python",
            "python3",
            "perl",
            "ruby",
            "node",
            "php",
            "tee",
            "jq",
        ),
    }
)


_STANDARD_INPUT = frozenset({"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})


def interpret(walk: Walk, call: ShellCall) -> None:
    """Find what a call runs as code, and have the walk read it."""
    name, arguments = call.name, call.arguments
    call.code = inline_code(name, arguments)
    if name == "eval":
        _evaluate(walk, call, arguments)
    elif name in {"source", "."} and arguments:
        _source(walk, call, arguments[0])
    elif name == "alias":
        for word in arguments:
            if "=" in word.text:
                walk.read(word.text.partition("=")[2], (word.start, word.end))
    elif name in SHELLS:
        _shell(walk, call, arguments)
    elif is_interpreter(name) and not call.code and not any(_is_file(word) for word in arguments):
        _from_input(walk, call)
    if call.code and any(word.outputs for word in arguments):
        call.outputs_run = frozenset().union(*(word.outputs for word in arguments))


def _evaluate(walk: Walk, call: ShellCall, arguments: list[Word]) -> None:
    call.outputs_run = frozenset().union(*(word.outputs for word in arguments))
    is_output = bool(call.outputs_run) and not call.outputs_run & CARRIERS
    text = " ".join(word.text for word in arguments)
    if UNKNOWN in text and not is_output:
        walk.doubt("eval runs a text that is not known", call.start, call.end)
    if text.replace(UNKNOWN, "").strip():
        walk.read(text.replace(UNKNOWN, "$corral_unknown"), (call.start, call.end))


def interpret_input(walk: Walk, call: ShellCall, sources: list[Word]) -> None:
    """The same for what a call is given by redirection (`sh < FILE`, `sh < <(PROGRAM)`)."""
    arguments = call.arguments
    if call.name in SHELLS:
        is_run = shell_text(arguments) is None and script_of(arguments) is None
    else:
        is_run = is_interpreter(call.name) and not call.code and not any(map(_is_file, arguments))
    if is_run:
        outputs = frozenset().union(*(word.outputs for word in sources))
        call.outputs_run |= outputs | walk.downloads.read_by(call, sources)
        if outputs & CARRIERS:
            walk.doubt("it runs what other programs pass on", call.start, call.end)


def _source(walk: Walk, call: ShellCall, script: Word) -> None:
    call.outputs_run = script.outputs
    if script.text in _STANDARD_INPUT and call.name not in SHELLS:
        _from_input(walk, call)
    if script.outputs & CARRIERS:
        walk.doubt("it runs what other programs pass on", call.start, call.end)


def _shell(walk: Walk, call: ShellCall, arguments: list[Word]) -> None:
    text = shell_text(arguments)
    if text is not None:
        call.outputs_run = text.outputs
        if text.outputs and not text.outputs & CARRIERS and text.text == UNKNOWN:
            return
        walk.run_text(text)
        return
    script = script_of(arguments)
    if script is not None:
        _source(walk, call, script)
        if script.text not in _STANDARD_INPUT:
            return
    _from_input(walk, call)


def _from_input(walk: Walk, call: ShellCall) -> None:
    """Standard input is the program: a here-document, a pipe, or the caller's terminal."""
    call.outputs_run |= call.upstream()
    is_shell = call.name in SHELLS or call.name in {"source", "."}
    if call.input_text is not None:
        if is_shell:
            walk.read(call.input_text.replace(UNKNOWN, "$corral_unknown"), (call.start, call.end))
        else:
            call.code = call.input_text
        return
    if not call.outputs_run:
        return
    text = _piped_text(call)
    if text is None:
        walk.doubt("it runs what comes through the pipe as a program", call.start, call.end)
    elif is_shell:
        walk.read(text, (call.start, call.end))
    else:
        call.code = text


def _piped_text(call: ShellCall) -> str | None:
    """What the stage before prints, where that is plain."""
    if call.pipeline is None or call.stage == 0:
        return None
    before = call.pipeline.stages[call.stage - 1]
    if len(before) != 1 or call.stage != 1:
        return None
    if before[0].name == "cat" and len(before[0].words) == 1:
        return before[0].input_text
    if not all(word.is_known and len(word.texts) == 1 for word in before[0].words):
        return None
    text = printed([word.text for word in before[0].words])
    return None if UNKNOWN in text else text


def _is_file(word: Word) -> bool:
    return not word.text.startswith("-")
