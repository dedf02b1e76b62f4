"""Paths of a command against those of a rule: by components, whatever way the command spells them."""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache
from posixpath import normpath

from corral.shell_check.call import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_HOMES = ("/home/", "/Users/")
_DOORS = ("/proc/self/root", "/proc/1/root", "/host", "/mnt/host")


def forms_of(text: str, directory: str) -> list[str]:
    """The absolute forms that a word may have as a path; a home is `~`, whoever's it is."""
    if not text or len(text) > 4096:
        return []
    if text.startswith("file://"):
        text = text[7:]
    if not text.startswith(("/", "~")):
        if directory:
            text = f"{directory}/{text}"
        elif text.startswith(("../", "./../")):
            climbed = normpath(text)
            while climbed.startswith("../"):
                climbed = climbed[3:]
            return [normpath(text), _home(f"/{climbed}")]
    return [_home(text)]


def _home(text: str) -> str:
    path = normpath(text)
    path = path[1:] if path.startswith("//") else path
    for door in _DOORS:
        if path.startswith(f"{door}/"):
            path = path[len(door) :]
    if path == "/root" or path.startswith("/root/"):
        return f"~{path[5:]}"
    if path.startswith("~") and not path.startswith("~/"):
        return f"~{path[path.find('/') :]}" if "/" in path else "~"
    for home in _HOMES:
        if path.startswith(home) and len(path) > len(home):
            _, slash, rest = path[len(home) :].partition("/")
            return f"~{slash}{rest}"
    return path


@lru_cache(4096)
def matches_path(pattern: str, form: str) -> bool:
    """Whether a path is what a rule names: `/etc/**` with all beneath, `*.pem` at any depth.

    A path with characters of a shell pattern, or with an unknown part, matches if one that it may be does.
    """
    if form.startswith(UNKNOWN) and "/" in form and "/" in pattern:
        return False  # where it begins is not known; that it begins nowhere is too much to suppose
    form = form.replace(UNKNOWN, "*")
    if "/" not in pattern and pattern != "~":
        return _meets(pattern, form.rpartition("/")[2])
    wanted, found = pattern.split("/"), form.split("/")
    if wanted[-1] == "**":
        wanted = wanted[:-1]
        if len(found) > len(wanted):
            found = found[: len(wanted)]
    elif pattern == "/":
        wanted = [""]
        found = [""] if form == "/" else found
    if wanted and found == ["*"]:  # all of it is unknown
        return True
    return len(wanted) == len(found) and all(map(_meets, wanted, found))


def _meets(wanted: str, found: str) -> bool:
    return matches(found, wanted) or (any(c in found for c in "*?[") and matches(wanted, found))


def matches(text: str, pattern: str) -> bool:
    """`fnmatchcase`, which keeps fewer patterns than there are in the rules."""
    if text == pattern:
        return True
    return any(c in pattern for c in "*?[") and _compiled(pattern)(text) is not None


@lru_cache(8192)
def _compiled(pattern: str) -> Callable[[str], object]:
    return re.compile(translate(pattern)).match
