"""Trace: what strace saw, line by line, as accesses to files.

TRUST: the command runs beside strace and could write lines of its own. What is learned is a proposal that a
person reads.
"""

from __future__ import annotations

import os
import re
from enum import StrEnum

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: What has a path; `-y` says where relative ones begin, `--seccomp-bpf` stops for these calls alone.
OPTIONS = (
    "-f",
    "-qq",
    "-y",
    "-s",
    "4096",
    "--seccomp-bpf",
    "-e",
    "trace=%file",
    "-e",
    "signal=none",
)
_LINE = re.compile(
    r"^(?:\d+\s+)?(?P<call>\w+)\((?P<rest>.*)\)\s+= (?P<result>-?\d+|\?)(?P<more>.*)$", re.DOTALL
)
_PID = re.compile(r"^(\d+)\s+")
_TEXT = re.compile(r'(?:(?:AT_FDCWD|\d+)<(?P<base>(?:[^<>\\]|\\.)*)>, )?"(?P<text>(?:[^"\\]|\\.)*)"')
_DESCRIPTOR = re.compile(r"^\d+<(?P<path>/(?:[^<>\\]|\\.)*)>")
_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9a-fA-F]{2}|.)")
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f"}
_MAKES = frozenset({"mkdir", "mkdirat"})
_RENAMES = frozenset({"rename", "renameat", "renameat2", "link", "linkat"})
_REMOVES = frozenset({"unlink", "unlinkat", "rmdir", "symlink", "symlinkat", "mknod", "mknodat"})
_CHANGES = frozenset(
    {"chmod", "fchmodat", "chown", "lchown", "fchownat", "truncate", "utime", "utimes", "utimensat"}
)
_OPENS = frozenset({"open", "openat", "openat2", "creat"})
_WRITING = ("O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND")
_ABSENT = ("ENOENT", "EACCES", "EPERM", "EROFS")


class AccessKind(StrEnum):
    READ = "read"
    RUN = "run"
    WRITE = "write"  # the file itself
    MAKE = "make"  # a directory
    MOVE = "move"  # to here
    ENTRY = "entry"  # a name in a directory comes or goes
    MISSED = "missed"  # it was refused, or not there


class Access(Record):
    kind: AccessKind
    path: str


def parse_trace(lines: Iterable[str], directory: str) -> Iterator[Access]:
    """The accesses of a trace; `directory` is where the command began. What cannot be read is left out."""
    unfinished: dict[str, str] = {}
    for raw in lines:
        line = raw.rstrip("\n")
        pid = _PID.match(line)
        number = pid.group(1) if pid else ""
        if line.endswith("<unfinished ...>"):
            unfinished[number] = line.removesuffix("<unfinished ...>")
            continue
        if " resumed>" in line and number in unfinished:
            line = unfinished.pop(number) + line.partition(" resumed>")[2]
        found = _LINE.match(line)
        if found is not None:
            yield from _accesses(found, directory)


def _accesses(found: re.Match[str], directory: str) -> Iterator[Access]:
    call, rest, more = found["call"], found["rest"], found["more"]
    paths = [_absolute(each, directory) for each in _TEXT.finditer(rest) if each["text"] or each["base"]]
    if not paths:
        return
    if found["result"].startswith("-"):
        if call in _OPENS and any(f" {word} " in f"{more} " for word in _ABSENT):
            yield Access(AccessKind.MISSED, paths[0])
        return
    if call in {"execve", "execveat"}:
        yield Access(AccessKind.RUN, paths[0])
    elif call in _OPENS:
        opened = _DESCRIPTOR.match(f"{found['result']}{more}")
        path = _unescape(opened["path"]).removesuffix(" (deleted)") if opened else paths[0]
        writes = call == "creat" or any(flag in rest for flag in _WRITING)
        yield Access(AccessKind.WRITE if writes else AccessKind.READ, path)
    elif call in _MAKES:
        yield Access(AccessKind.MAKE, paths[0])
    elif call in _RENAMES and len(paths) > 1:
        yield Access(AccessKind.ENTRY, paths[0])
        yield Access(AccessKind.MOVE, paths[1])
    elif call in _REMOVES:
        yield Access(AccessKind.ENTRY, paths[-1])
    elif call in _CHANGES:
        yield Access(AccessKind.WRITE, paths[0])
    else:
        yield Access(AccessKind.READ, paths[0])


def _absolute(found: re.Match[str], directory: str) -> str:
    base = _unescape(found["base"]) if found["base"] else directory
    return os.path.normpath(os.path.join(base, _unescape(found["text"])))


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        word = match.group(1)
        if word[0] in "01234567":
            return chr(int(word, 8) & 0xFF)
        return chr(int(word[1:], 16)) if word[0] == "x" and len(word) == 3 else _PLAIN.get(word, word)

    if "\\" not in text:
        return text
    return _ESCAPE.sub(plain, text).encode("latin-1", "replace").decode("utf-8", "surrogateescape")
