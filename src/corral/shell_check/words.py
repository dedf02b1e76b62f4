"""Words: what the shell makes of quotes, escapes, braces and variables whose value the text itself gives."""

from __future__ import annotations

from itertools import islice, pairwise, product
from typing import TYPE_CHECKING, Any

from corral.shell_check.call import UNKNOWN, Word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MOST_VALUES = 8
#: Of a variable's value: `a=$a$a`, a few times, is longer than any memory.
_MOST_CHARACTERS = 4096
#: Variables that stand for the same on every host, or by convention for one program.
_KNOWN = {
    "HOME": "~",
    "PWD": ".",
    "OLDPWD": "..",
    "USER": "me",
    "UID": "1000",
    "HOSTNAME": "host",
    "SHELL": "sh",
    **{
        name: name.lower() for name in ("CC", "CXX", "PYTHON", "MAKE", "EDITOR", "VISUAL", "PAGER", "BROWSER")
    },
}
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "e": "\x1b",
    "E": "\x1b",
}
_SUBSTITUTIONS = ("command_substitution", "process_substitution")
_EXPANSIONS = ("simple_expansion", "expansion", "command_substitution")


class Variables:
    """What the text has said about variables until now."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[str, ...]] = {}

    def set(self, name: str, values: tuple[str, ...]) -> None:
        """Remember an assignment: whatever it was before, it may still be, where a branch was not taken."""
        short = (value if len(value) <= _MOST_CHARACTERS else UNKNOWN for value in values[:_MOST_VALUES])
        self._values[name] = tuple(short)

    def get(self, name: str) -> tuple[str, ...]:
        """Its values, or that they are not known."""
        if name in self._values:
            return self._values[name]
        return (_KNOWN.get(name, UNKNOWN),)

    @property
    def separators(self) -> str | None:
        """At which an unquoted value falls apart; None: at white space."""
        found = self._values.get("IFS")
        return found[0] if found and found[0] and UNKNOWN not in found[0] else None


def text_of(node: Any) -> str:
    return str(node.text.decode("utf-8", "surrogateescape"))


def names_within(node: Any) -> frozenset[str]:
    """The programs that a piece of the tree would start, as they are written."""
    found = set()
    todo = [node]
    while todo:
        each = todo.pop()
        if each.type == "command_name":
            found.add(_unquoted(text_of(each)).rpartition("/")[2])
        todo += each.children
    return frozenset(found)


def fields(node: Any, variables: Variables) -> list[Word]:
    """The words that one word of the text becomes: braces and unquoted values make several."""
    if node.type == "command_name" and node.child_count == 1:
        node = node.children[0]
    values = resolve(node, variables)
    outputs = frozenset().union(*(names_within(part) for part in _substitutions(node)))
    start, end = node.start_byte, node.end_byte
    if node.type in {"word", "concatenation", "brace_expression"} and "{" in text_of(node):
        parts = expand_braces(values[0])
        if len(parts) > 1:
            return [Word((part,), start, end, outputs) for part in parts]
    if node.type in _EXPANSIONS and len(values) == 1:
        parts = _split(values[0], variables.separators)
        if len(parts) != 1:
            return [Word((part,), start, end, outputs) for part in parts or ("",)]
    return [Word(values, start, end, outputs)]


def _split(text: str, separators: str | None) -> list[str]:
    for separator in separators or "":
        text = text.replace(separator, " ")
    return text.split()


def _substitutions(node: Any) -> list[Any]:
    found, todo = [], [node]
    while todo:
        each = todo.pop()
        if each.type in _SUBSTITUTIONS:
            found.append(each)
        else:
            todo += each.children
    return found


def expand_braces(text: str) -> list[str]:
    """`a{b,c}d` -> abd, acd; as bash does it, but for ranges, which are left as they are. The first 64."""
    return list(islice(_expanded(text), 64))


def _expanded(text: str) -> Iterator[str]:
    start = text.find("{")
    while start >= 0:
        cuts = _cuts_of_brace(text, start)
        if len(cuts) > 2:
            for left, right in pairwise(cuts):
                yield from _expanded(f"{text[:start]}{text[left + 1 : right]}{text[cuts[-1] + 1 :]}")
            return
        start = text.find("{", start + 1)
    yield text


def _cuts_of_brace(text: str, start: int) -> list[int]:
    """The brace at a place, its own commas, and its end; nothing if it does not end."""
    depth, cuts = 0, [start]
    for at in range(start, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if text[at] == "," and depth == 1:
            cuts.append(at)
        if depth == 0:
            return [*cuts, at]
    return []


def resolve(node: Any, variables: Variables) -> tuple[str, ...]:
    """The values that a node may have; what the text does not tell is UNKNOWN."""
    kind = node.type
    if kind in _LEAVES:
        return (_LEAVES[kind](text_of(node)),)
    if kind in {"string", "translated_string"}:
        return _string(node, variables)
    if kind in {"concatenation", "command_name", "array"}:
        parts = [resolve(child, variables) for child in node.children]
        return _joined(parts, " " if kind == "array" else "")
    if kind == "simple_expansion":
        return variables.get(text_of(node)[1:]) if node.named_child_count else (text_of(node),)
    if kind == "expansion":
        return _expansion(node, variables)
    if kind == "command_substitution":
        return _output(node, variables)
    if kind == "process_substitution":
        return ("/dev/fd/63",)
    if kind == "arithmetic_expansion":
        return ("0",)
    return (UNKNOWN,) if node.is_error or node.named_child_count else (text_of(node),)


def _joined(parts: list[tuple[str, ...]], between: str = "") -> tuple[str, ...]:
    combined: list[str] = []
    for choice in product(*parts):
        combined.append(between.join(choice))
        if len(combined) >= _MOST_VALUES:
            break
    return tuple(dict.fromkeys(combined)) or ("",)


def _string(node: Any, variables: Variables) -> tuple[str, ...]:
    """A text in double quotes. The grammar has no node for some blanks between its parts."""
    if node.type == "translated_string":
        return _string(node.children[-1], variables) if node.children else ("",)
    parts: list[tuple[str, ...]] = []
    at = node.start_byte
    source, offset = node.text, node.start_byte
    for child in node.children:
        parts.append((source[at - offset : child.start_byte - offset].decode("utf-8", "surrogateescape"),))
        if child.type == "string_content":
            parts.append((_in_double_quotes(text_of(child)),))
        elif child.type != '"':
            parts.append(resolve(child, variables))
        at = child.end_byte
    return _joined(parts)


def _expansion(node: Any, variables: Variables) -> tuple[str, ...]:
    """`${x}`, `${x:-y}`; what other operators make of a value is not known."""
    names = [child for child in node.children if child.type == "variable_name"]
    operators = [text_of(child) for child in node.children if not child.is_named][1:-1]
    found = variables.get(text_of(names[0])) if names else (UNKNOWN,)
    if not operators and len(node.children) == 3:
        return found
    if operators and operators[0] in {":-", "-", ":=", "="}:
        others = [child for child in node.named_children if child not in names]
        default = _joined([resolve(child, variables) for child in others])
        return default if found == (UNKNOWN,) else tuple(dict.fromkeys((*found, *default)))
    return (UNKNOWN,)


def _output(node: Any, variables: Variables) -> tuple[str, ...]:
    """What a substitution prints, where that is plain: `$(echo rm)`, `$(printf %s rm)`."""
    commands = [child for child in node.children if child.is_named]
    if len(commands) != 1 or commands[0].type != "command":
        return (UNKNOWN,)
    words = [resolve(child, variables)[0] for child in commands[0].children]
    return (printed(words),)


def printed(words: list[str]) -> str:
    """What `echo` and `printf` print of plain words; UNKNOWN for all other programs."""
    if not words or any(UNKNOWN in word for word in words):
        return UNKNOWN
    name, *rest = words
    if name == "echo":
        escapes = any(word in {"-e", "-ne", "-en"} for word in rest[:1])
        text = " ".join(word for at, word in enumerate(rest) if at or word not in {"-n", "-e", "-ne", "-en"})
        return _ansi(text) if escapes else text
    if name == "printf" and rest and not rest[0].startswith("-"):
        form = _ansi(rest[0])
        if form.count("%") == form.count("%s") + form.count("%b"):
            values = [*rest[1:], *[""] * form.count("%")]
            for value in values[: form.count("%")]:
                form = (
                    form.replace("%s", _ansi(value), 1)
                    if "%s" in form
                    else form.replace("%b", _ansi(value), 1)
                )
            return form
    return UNKNOWN


def _unquoted(text: str) -> str:
    return text.replace("\\\n", "").replace("\\", "").replace("'", "").replace('"', "")


def _escaped_word(text: str) -> str:
    if "\\" not in text:
        return text
    made, at = [], 0
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text):
            made.append("" if text[at + 1] == "\n" else text[at + 1])
            at += 2
        else:
            made.append(text[at])
            at += 1
    return "".join(made)


def _in_double_quotes(text: str) -> str:
    for character in '$`"':
        text = text.replace(f"\\{character}", character)
    return text.replace("\\\n", "").replace("\\\\", "\\")


def _ansi(text: str) -> str:
    """The escapes of `$'...'`."""
    made, at = [], 0
    while at < len(text):
        if text[at] != "\\" or at + 1 == len(text):
            made.append(text[at])
            at += 1
            continue
        following = text[at + 1]
        base, most = {"x": (16, 2), "u": (16, 4), "U": (16, 8)}.get(following, (8, 3))
        start = at + 1 + (base == 16)
        end = start
        while (
            end < min(start + most, len(text))
            and text[end] in "0123456789abcdefABCDEF"[: 8 if base == 8 else 22]
        ):
            end += 1
        if end > start and (base == 16 or following in "01234567"):
            code = int(text[start:end], base)
            made.append(chr(code) if code < 0x110000 else UNKNOWN)
            at = end
        else:
            made.append(_ESCAPES.get(following, following))
            at += 2
    return "".join(made)


_LEAVES: dict[str, Callable[[str], str]] = {
    "word": _escaped_word,
    "number": str,
    "raw_string": lambda text: text[1:-1],
    "ansi_c_string": lambda text: _ansi(text[2:-1]),
    "string_content": _in_double_quotes,
    "variable_name": str,
    "special_variable_name": str,
    "extglob_pattern": str,
    "regex": str,
    "brace_expression": str,
    "file_descriptor": str,
    "heredoc_content": str,
}
