r"""Patterns: paths with `*`, `?`, `[...]` and `**`, as .gitignore reads them.

`**/NAME` is a pattern that floats: it holds at any depth below whatever it concerns. All others are anchored.
A backslash makes one of `* ? [ ] \ !` an ordinary character; that is how a path which has one is written.
"""

from __future__ import annotations

import posixpath
from functools import lru_cache

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from re import Pattern

    Step = tuple[tuple[str, ...], tuple[str, ...], frozenset["Glob"]]

_SPECIAL = frozenset("*?[")
_ESCAPED = frozenset("*?[]\\!")
ANY_DEPTH = "**"
_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


class Glob(Record):
    """What is looked for below one directory: a name for each step, `**` for any number of them."""

    text: str  # as the policy has it
    parts: tuple[str, ...]
    only_directories: bool = False


def is_pattern(text: str) -> bool:
    """Whether a text stands for more than the one path that it spells."""
    if _SPECIAL.isdisjoint(text):
        return False
    at = 0
    while at < len(text):
        if text[at] in _SPECIAL:
            return True
        at += 2 if text[at] == "\\" else 1
    return False


def is_floating(text: str) -> bool:
    """Whether a pattern holds at any depth below whatever it concerns."""
    return text.startswith("**/")


def escape(path: str) -> str:
    """The text of a policy that stands for this very path."""
    if _SPECIAL.isdisjoint(path) and "\\" not in path:
        return path
    return "".join(f"\\{each}" if each in _SPECIAL or each == "\\" else each for each in path)


def literal(text: str) -> str:
    """The path that a text without patterns spells."""
    if "\\" not in text:
        return text
    found, at = [], 0
    while at < len(text):
        at += text[at] == "\\"
        found.append(text[at : at + 1])
        at += 1
    return "".join(found)


def check_escapes(text: str) -> None:
    """Raise ValueError for a backslash that makes nothing ordinary: it could be meant in two ways."""
    at = text.find("\\")
    while at >= 0:
        if text[at + 1 : at + 2] not in _ESCAPED or at + 1 == len(text):
            raise ValueError(
                rf"{text!r}: a backslash comes before one of * ? [ ] \ ! only; one that is meant itself is \\"
            )
        at = text.find("\\", at + 2)


def normal_steps(text: str) -> str:
    """The steps of a path or pattern, each spelled in one way. Raises ValueError for what cannot be meant.

    A pattern that ends in a slash is for directories alone; a path is itself with and without it.
    """
    check_escapes(text)
    if not is_pattern(text):
        return escape(literal(text)) if "\\" in text else text
    steps: list[str] = []
    for step in text.split("/"):
        if step in {"", "."}:
            continue
        if step == "..":
            if not steps or is_pattern(steps[-1]) or steps[-1] == "..":
                raise ValueError(f"{text!r}: what lies above a pattern cannot be told")
            steps.pop()
        elif step == ANY_DEPTH and steps[-1:] == [ANY_DEPTH]:
            continue
        elif is_pattern(step):
            _pieces(step)
            steps.append(step)
        else:
            steps.append(escape(literal(step)))
    if steps[-1:] == [ANY_DEPTH]:
        steps[-1] = "*"  # all that lies inside; what is held is held with everything beneath
    return "/".join(steps) + ("/" if text.endswith("/") and is_pattern("/".join(steps)) else "")


def floating(text: str) -> str:
    """A pattern or name without a slash, as it holds at any depth. Raises ValueError for another one."""
    steps = normal_steps(text)
    if not steps.strip("/") or "/" in steps.rstrip("/"):
        raise ValueError(f"{text!r} has a slash inside, and needs a place where it begins")
    return f"**/{steps}"


def glob_of(text: str, steps: str) -> Glob:
    """A glob from a policy's text and the steps of it that are to be looked for."""
    return Glob(text, tuple(step for step in steps.split("/") if step), steps.endswith("/"))


def split_base(steps: str) -> tuple[str, str]:
    """The plain path that a pattern begins with, as a path; and the steps from the first special one on."""
    parts = steps.split("/")
    at = next((at for at, part in enumerate(parts) if is_pattern(part)), len(parts))
    return literal("/".join(parts[:at])), "/".join(parts[at:])


class Node:
    """Several globs at one directory, ready to be asked about the names in it."""

    __slots__ = ("_any", "_memo", "_rest", "_states")

    def __init__(self, globs: frozenset[Glob]) -> None:
        """`globs` are closed: what may begin right here is among them."""
        import re  # only who has patterns pays for it

        steps = [glob for glob in globs if glob.parts[0] != ANY_DEPTH]
        loops = frozenset(glob for glob in globs if glob.parts[0] == ANY_DEPTH)
        self._states = tuple((_compiled(glob.parts[0]), glob) for glob in steps)
        together = "|".join(sorted({f"(?:{_regex(glob.parts[0])})" for glob in steps}))
        self._any = re.compile(together, re.DOTALL).fullmatch if steps else _never
        self._rest: Step = ((), (), _closed(loops))
        self._memo: dict[tuple[bool, ...], Step] = {}

    def step(self, name: str) -> Step:
        """The texts of the globs that a name fulfils, those that it does if it is a directory, and what is
        left to be found inside it."""
        if self._any(name) is None:
            return self._rest
        fulfilled = tuple(regex.fullmatch(name) is not None for regex, _ in self._states)
        known = self._memo.get(fulfilled)
        if known is None:
            known = self._memo[fulfilled] = self._stepped(fulfilled)
        return known

    def _stepped(self, fulfilled: tuple[bool, ...]) -> Step:
        hits = [glob for (_, glob), is_so in zip(self._states, fulfilled, strict=True) if is_so]
        ended = sorted(glob.text for glob in hits if len(glob.parts) == 1 and not glob.only_directories)
        ended_inside = sorted(glob.text for glob in hits if len(glob.parts) == 1)
        further = frozenset(glob.replace(parts=glob.parts[1:]) for glob in hits if len(glob.parts) > 1)
        return tuple(ended), tuple(ended_inside), _closed(further | self._rest[2])


@lru_cache(maxsize=4096)
def node_of(globs: frozenset[Glob]) -> Node:
    """The node of these globs; what may begin right here is added."""
    return Node(_closed(globs))


def descend(
    globs: Iterable[Glob], names: Iterable[str], *, is_directory: bool = False
) -> tuple[int, str, frozenset[Glob]]:
    """Go down by names, of which all but the last are directories for sure, and that one if it is said.

    Returns how many names it took to fulfil a glob, and the glob's text (0 and nothing: none); else what is
    left to be found where the names lead.
    """
    left = _closed(frozenset(globs))
    listed = tuple(names)
    for count, name in enumerate(listed, 1):
        if not left:
            break
        hits, hits_inside, left = node_of(left).step(name)
        found = hits_inside if is_directory or count < len(listed) else hits
        if found:
            return count, found[0], frozenset()
    return 0, "", left


def _closed(globs: frozenset[Glob]) -> frozenset[Glob]:
    """`**` may stand for nothing at all."""
    skipped = {
        glob.replace(parts=glob.parts[1:])
        for glob in globs
        if glob.parts[0] == ANY_DEPTH and len(glob.parts) > 1
    }
    return globs | skipped


def _never(_name: str) -> None:
    return None


@lru_cache(maxsize=1024)
def _compiled(part: str) -> Pattern[str]:
    import re

    return re.compile(_regex(part), re.DOTALL)


def _regex(part: str) -> str:
    """One step as a regular expression.

    TRUST: commands choose names, and settings that they write choose patterns. Stars that are tried in all
    ways would take for ever: what lies between two is taken where it is found first (an atomic group), which
    leaves the most for what follows.
    """
    first, *others = _pieces(part)
    between = "".join(f"(?>.*?{piece})" for piece in others[:-1])
    return f"{first}{between}.*{others[-1]}" if others else first


@lru_cache(maxsize=1024)
def _pieces(part: str) -> tuple[str, ...]:
    """What stands before, between and after the stars of one step: regular expressions.

    Raises ValueError for brackets that are not closed.
    """
    from re import escape as quote

    found = [""]
    at = 0
    while at < len(part):
        if part[at] == "*":
            while part[at : at + 1] == "*":
                at += 1
            found.append("")
            continue
        if part[at] == "[":
            text, at = _bracket(part, at)
        elif part[at] == "?":
            text, at = ".", at + 1
        else:
            at += part[at] == "\\"
            text, at = quote(part[at : at + 1]), at + 1
        found[-1] += text
    return tuple(found)


def _bracket(part: str, start: int) -> tuple[str, int]:
    """`[...]` from its beginning on: the regular expression, and where it ends."""
    at = start + 1
    is_other = part[at : at + 1] in {"!", "^"}
    at += is_other
    ranges: list[str] = []
    first = True
    while first or part[at : at + 1] != "]":
        first = False
        if part.startswith("[:", at):
            name, end, _ = part[at + 2 :].partition(":]")
            if name not in _CLASSES or not end:
                raise ValueError(f"{part!r}: there is no class of characters [:{name}:]")
            ranges.append(_CLASSES[name])
            at += len(name) + 4
            continue
        low, at = _character(part, at)
        high = low
        if part[at : at + 1] == "-" and part[at + 1 : at + 2] not in {"]", ""}:
            high, at = _character(part, at + 1)
        if high < low:
            raise ValueError(f"{part!r}: {low}-{high} is a range that has nothing in it")
        ranges.append(f"{_quoted(low)}-{_quoted(high)}")
    return f"[{'^' if is_other else ''}{''.join(ranges)}]", at + 1


def _character(part: str, at: int) -> tuple[str, int]:
    at += part[at : at + 1] == "\\"
    if at >= len(part):
        raise ValueError(rf"{part!r}: [ is not closed; a path that has one is written with \[")
    return part[at], at + 1


def _quoted(character: str) -> str:
    return f"\\U{ord(character):08x}"


def relative_parts(path: str, above: str) -> tuple[str, ...]:
    """The names that lead from a directory to a path beneath it."""
    return tuple(part for part in posixpath.relpath(path, above).split("/") if part != ".")


def is_protected(parts: Iterable[str], names: Iterable[str]) -> bool:
    """Whether a path, by its names from a writable one on, is at or beneath one that is protected there."""
    listed = tuple(parts)
    below = f"/{'/'.join(listed)}/"
    return any(
        bool(descend((glob_of(name, name),), listed)[0])
        if is_pattern(name)
        else f"/{literal(name)}/" in below  # also of a repository inside
        for name in names
    )
