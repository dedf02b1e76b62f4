"""CheckRule: what a check objects to, as data, with its own examples."""

from __future__ import annotations

from corral.model.record import Record
from corral.shell_check.call import UNKNOWN
from corral.shell_check.paths import forms_of, matches, matches_path
from corral.shell_check.verdict import CheckVerdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from corral.shell_check.call import ShellCall, Word

KINDS = ("destructive", "privilege", "exfiltration", "persistence", "credential", "obfuscation", "own")
#: Programs whose last argument, or each one, is a file that they write.
_WRITE_LAST = frozenset({"cp", "mv", "install", "ln", "rsync", "scp"})
_WRITE_ALL = frozenset({"tee", "truncate", "touch", "shred", "sponge"})


class CheckRule(Record):
    """All conditions that are said must hold, each by one of its alternatives."""

    name: str
    kind: str
    verdict: CheckVerdict
    sentence: str
    match: tuple[str, ...]
    not_match: tuple[str, ...]
    command: tuple[str, ...] = ()  # patterns for the program's name; none: any program
    subcommand: tuple[str, ...] = ()  # its first arguments that are no options
    arguments: tuple[tuple[str, ...], ...] = ()  # groups, one of each; `-r` is also in `-rf`
    paths: tuple[str, ...] = ()  # of an argument, or of what is read by redirection
    writes: tuple[str, ...] = ()  # targets of redirections, and files that a program writes
    variables: tuple[str, ...] = ()  # that are set
    piped_into: tuple[str, ...] = ()
    piped_from: tuple[str, ...] = ()
    runs_output_of: tuple[str, ...] = ()  # the programs whose output is run as code
    code: tuple[str, ...] = ()  # parts of code in another language
    pattern_name: bool = False  # the program's name is a pattern of the shell's
    recursive: bool = False  # a function that pipes into itself
    unresolved: bool = False  # ask, if it depends on a word whose value is not known

    def applies(self, call: ShellCall) -> CheckVerdict | None:
        """The verdict on a call of its `command`; ASK if that hangs on what is not known; None: nothing."""
        if self.pattern_name and not call.is_pattern:
            return None
        if self.recursive and not call.is_recursive:
            return None
        if not self._around(call) or not self._options(call):
            return None
        if not self.paths and not self.writes:
            return self.verdict
        certain = unsure = False
        for wanted, words in ((self.paths, [*call.arguments, *call.reads]), (self.writes, written_by(call))):
            for word in words if wanted else ():
                sure, maybe = _names_path(wanted, word, call.directory)
                certain, unsure = certain or sure, unsure or maybe
        if certain:
            return self.verdict
        return (
            CheckVerdict.ASK
            if unsure and self.unresolved and self.verdict is not CheckVerdict.ALLOW
            else None
        )

    def _around(self, call: ShellCall) -> bool:
        """What stands around a call: pipes, variables, the code that it runs."""
        if self.piped_into and not _any_of(self.piped_into, call.downstream()):
            return False
        if self.piped_from and not _any_of(self.piped_from, call.upstream()):
            return False
        if self.runs_output_of and not _any_of(self.runs_output_of, call.outputs_run):
            return False
        if self.variables and not _any_of(self.variables, (name for name, _ in call.assignments)):
            return False
        return not self.code or any(part in call.code for part in self.code)

    def _options(self, call: ShellCall) -> bool:
        texts = [text for word in call.arguments for text in word.texts]
        if self.subcommand:
            plain = [text for text in texts if not text.startswith("-")]
            if not any(plain[: len(wanted)] == wanted for wanted in map(str.split, self.subcommand)):
                return False
        return all(
            any(_is_argument(each, text) for each in group for text in texts) for group in self.arguments
        )


def written_by(call: ShellCall) -> list[Word]:
    """The files that a call writes, as its words say."""
    plain = [word for word in call.arguments if not word.text.startswith("-")]
    found = list(call.writes)
    if call.name in _WRITE_LAST and len(plain) > 1:
        found.append(plain[-1])
    elif call.name in _WRITE_ALL or (call.name in {"sed", "perl"} and _has_option(call, "-i")):
        found += plain
    elif call.name in {"curl", "wget"}:
        pairs = zip(call.arguments, call.arguments[1:], strict=False)
        found += (value for option, value in pairs if option.text in {"-o", "-O", "--output", "-P"})
    return found


def _has_option(call: ShellCall, option: str) -> bool:
    return any(word.text.startswith(option) for word in call.arguments)


def _any_of(patterns: Iterable[str], names: Iterable[str]) -> bool:
    known = tuple(names)
    return any(matches(name, pattern) for pattern in patterns for name in known)


def _is_argument(wanted: str, text: str) -> bool:
    if len(wanted) == 2 and wanted[0] == "-" and wanted[1] != "-":
        return text[:1] == "-" and text[1:2] != "-" and wanted[1] in text[1:]
    if text == wanted or matches(text, wanted):
        return True
    return wanted.startswith("--") and text.startswith(f"{wanted}=")


def _names_path(patterns: tuple[str, ...], word: Word, directory: str) -> tuple[bool, bool]:
    """Whether a word names one of the paths: for sure; or perhaps, because a part of it is not known."""
    sure = maybe = False
    for whole in word.texts:
        is_option = whole.startswith("--") or (len(whole) > 1 and whole[0] == "-" and "/" not in whole)
        text = whole.partition("=")[2] if is_option else whole
        values = [text, *(part for part in (text.partition("=")[2], text.partition("@")[2]) if part)]
        values += (text.partition(":")[0],) if ":" in text and "://" not in text else ()
        for value in values:
            for form in forms_of(value, directory):
                if any(matches_path(pattern, form) for pattern in patterns):
                    known = UNKNOWN not in form
                    sure, maybe = sure or known, maybe or not known
    return sure, maybe
