"""Programs that run other programs: where the inner command begins, or which text a shell is given."""

from __future__ import annotations

from corral.model.record import Record
from corral.shell_check.call import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.shell_check.call import Word

SHELLS = frozenset(
    {"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "fish", "rbash", "yash", "csh", "tcsh"}
)
#: Interpreter -> the options after which code stands.
INTERPRETERS = {
    **dict.fromkeys(("python", "python2", "python3", "pypy3"), ("-c",)),
    **dict.fromkeys(("perl",), ("-e", "-E")),
    **dict.fromkeys(("ruby", "lua"), ("-e",)),
    **dict.fromkeys(("node", "nodejs", "bun"), ("-e", "--eval", "-p", "--print")),
    "deno": ("eval",),
    "php": ("-r",),
    "osascript": ("-e",),
}
#: Whose first plain argument is code, always.
PROGRAM_FIRST = frozenset({"awk", "gawk", "mawk", "nawk"})


class Wrapper(Record):
    """How the words of a wrapper come before those of the inner command."""

    valued: tuple[str, ...] = ()  # options with a value as the next word
    positions: int = 0  # own arguments before the command
    assigns: bool = False  # NAME=VALUE comes before the command
    text_option: str = ""  # after it stands a text for a shell
    joins: bool = False  # all its words together are a text for a shell


WRAPPERS: dict[str, Wrapper] = {
    "sudo": Wrapper(("-u", "-g", "-h", "-p", "-C", "-r", "-t", "-T", "-U", "-D", "-R"), assigns=True),
    "doas": Wrapper(("-u", "-C")),
    "pkexec": Wrapper(("--user",)),
    "su": Wrapper(text_option="-c"),
    "runuser": Wrapper(("-u", "-g", "-G"), text_option="-c"),
    "env": Wrapper(("-u", "-C", "--unset", "--chdir"), assigns=True),
    "command": Wrapper(),
    "builtin": Wrapper(),
    "exec": Wrapper(("-a",)),
    "time": Wrapper(("-f", "-o")),
    "coproc": Wrapper(),
    "nohup": Wrapper(),
    "setsid": Wrapper(),
    "nice": Wrapper(("-n",)),
    "ionice": Wrapper(("-c", "-n", "-p")),
    "chrt": Wrapper(("-T", "-P", "-D"), positions=1),
    "taskset": Wrapper(positions=1),
    "stdbuf": Wrapper(("-i", "-o", "-e")),
    "timeout": Wrapper(("-k", "-s", "--signal", "--kill-after"), positions=1),
    "gtimeout": Wrapper(("-k", "-s"), positions=1),
    "xargs": Wrapper(("-I", "-n", "-P", "-L", "-d", "-a", "-s", "-E", "--max-args", "--max-procs")),
    "parallel": Wrapper(("-j", "-I", "-n", "--jobs")),
    "chroot": Wrapper(positions=1),
    "unshare": Wrapper(("-S", "-G", "-R", "-w")),
    "nsenter": Wrapper(("-t", "-S", "-G", "-r", "-w")),
    "setpriv": Wrapper(),
    "proot": Wrapper(("-r", "-b", "-w")),
    "firejail": Wrapper(),
    "bwrap": Wrapper(),
    "strace": Wrapper(("-o", "-e", "-p", "-s", "-u")),
    "ltrace": Wrapper(("-o", "-e", "-p", "-s")),
    "busybox": Wrapper(),
    "toybox": Wrapper(),
    "watch": Wrapper(("-n", "-d"), joins=True),
    "flock": Wrapper(("-w", "-E"), positions=1, text_option="-c"),
    "script": Wrapper(("-T", "-O", "-I"), text_option="-c"),
    "systemd-run": Wrapper(("-p", "-u", "--unit", "-M")),
    "systemd-inhibit": Wrapper(),
    "ssh": Wrapper(
        (
            *("-b", "-c", "-D", "-E", "-e", "-F", "-I", "-i", "-J", "-L", "-l", "-m", "-O", "-o", "-p", "-Q"),
            *("-R", "-S", "-W", "-w", "-B", "-P"),
        ),
        positions=1,
        joins=True,
    ),
    "dbus-run-session": Wrapper(),
    "xvfb-run": Wrapper(("-s", "-n", "-e")),
    "faketime": Wrapper(positions=1),
    "catchsegv": Wrapper(),
    "cpulimit": Wrapper(("-l",)),
    "eatmydata": Wrapper(),
    "fakeroot": Wrapper(),
    "corepack": Wrapper(),
    "poetry": Wrapper(),
    "pipenv": Wrapper(),
}
#: Of these, only what follows the word.
_AFTER = {"poetry": "run", "pipenv": "run", "bwrap": "--", "firejail": "--", "systemd-run": ""}
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


class Inner(Record):
    """A command inside another one: its words, or a text for a shell."""

    words: tuple[Word, ...] = ()
    text: Word | None = None


def find_inner(name: str, arguments: list[Word]) -> Iterator[Inner]:
    """The commands that one runs in its turn, as its words say."""
    if name in {"find", "fd", "fdfind"}:
        yield from _find_executed(arguments)
    elif name == "env" and any(_is_split_string(word.text) for word in arguments):
        at = next(number for number, word in enumerate(arguments) if _is_split_string(word.text))
        yield Inner(text=arguments[at + 1] if at + 1 < len(arguments) else arguments[at])
    elif name in WRAPPERS:
        yield from _unwrap(name, WRAPPERS[name], arguments)
    elif name == "trap" and arguments:
        yield Inner(text=arguments[0])


def _is_split_string(text: str) -> bool:
    return text in {"-S", "--split-string"} or (
        text.startswith("-") and text[1:2] != "-" and text.endswith("S")
    )


def _unwrap(name: str, wrapper: Wrapper, arguments: list[Word]) -> Iterator[Inner]:
    if wrapper.text_option:
        for at, word in enumerate(arguments[:-1]):
            if _has_letter(word.text, wrapper.text_option):
                yield Inner(text=arguments[at + 1])
                return
    if _AFTER.get(name):
        places = [number for number, word in enumerate(arguments) if word.text == _AFTER[name]]
        if places:
            yield Inner(tuple(arguments[places[0] + 1 :]))
        return
    at = _skip_options(wrapper, arguments)
    if at >= len(arguments) or name == "su":
        return
    if wrapper.joins and len(arguments) - at == 1:
        yield Inner(text=arguments[at])
    else:
        yield Inner(tuple(arguments[at:]))


def _skip_options(wrapper: Wrapper, arguments: list[Word]) -> int:
    at = 0
    while at < len(arguments):
        text = arguments[at].text
        if text == "--":
            at += 1
            break
        if text.startswith("-") and len(text) > 1:
            at += 2 if text in wrapper.valued else 1
        elif wrapper.assigns and _is_assignment(text):
            at += 1
        else:
            break
    return at + wrapper.positions


def _is_assignment(text: str) -> bool:
    name, equals, _ = text.partition("=")
    return bool(equals) and name.replace("_", "a").isalnum()


def _has_letter(text: str, option: str) -> bool:
    """`-c`, alone or among other letters."""
    return text == option or (text[:1] == "-" and text[1:2] != "-" and option[1] in text[1:])


def _find_executed(arguments: list[Word]) -> Iterator[Inner]:
    begin = None
    for at, word in enumerate(arguments):
        if word.text in _FIND_RUNS or word.text in {"-x", "-X"}:
            begin = at + 1
        elif word.text in {";", "+"} and begin is not None:
            yield Inner(tuple(arguments[begin:at]))
            begin = None
    if begin is not None and begin < len(arguments):
        yield Inner(tuple(arguments[begin:]))


def shell_text(arguments: list[Word]) -> Word | None:
    """What `sh -c` runs; None without it."""
    takes_value = False
    for at, word in enumerate(arguments):
        if takes_value:  # of `-o pipefail`
            takes_value = False
            continue
        if not word.text.startswith(("-", "+")):
            return None
        takes_value = word.text[1:2] != "-" and word.text[-1] in "oO"
        if word.text[1:2] != "-" and "c" in word.text[1:]:
            rest = [each for each in arguments[at + 1 :] if each.text != "--"]
            return rest[0] if rest else None
    return None


def script_of(arguments: list[Word]) -> Word | None:
    """The file that a shell is given to run; None: it reads its standard input."""
    skip = False
    for word in arguments:
        if skip:
            skip = False
        elif word.text in {"-o", "-O", "+o", "+O", "--rcfile", "--init-file"}:
            skip = True
        elif word.text in {"-s", "-"}:
            return None
        elif not word.text.startswith(("-", "+")):
            return word
    return None


def inline_code(name: str, arguments: list[Word]) -> str:
    """Code of another language among the words."""
    if name in PROGRAM_FIRST:
        plain = [word.text for word in arguments if not word.text.startswith("-")]
        return plain[0] if plain else ""
    options = INTERPRETERS.get(name) or INTERPRETERS.get(name.rstrip("0123456789."), ())
    for at, word in enumerate(arguments):
        if word.text in options and at + 1 < len(arguments):
            return arguments[at + 1].text
        if len(word.text) > 2 and word.text[:2] in options:
            return word.text[2:]
    return ""


def is_interpreter(name: str) -> bool:
    """Whether it runs what it is given as code."""
    return name in SHELLS or name in INTERPRETERS or name.rstrip("0123456789.") in INTERPRETERS


def is_unknown(word: Word) -> bool:
    return any(UNKNOWN in text for text in word.texts)
