"""What strace wrote down, read: programs run and files written, by their real names.

There is one file for each process, so that no line is interrupted by another, and every line has its time,
so that all are read in the order in which things happened. `-y` names the directory that a path begins at,
and the real file behind every descriptor: where a link led is read and not guessed. Calls that open nothing
(mkdir, unlink, rename) have names alone. They are resolved by the links that there were before the command,
and by what it did to links since: afterwards it would be too late to look.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Run:
    program: str  # its real name
    argv: tuple[str, ...]
    was_done: bool


@dataclass(frozen=True)
class Write:
    path: str  # the real name of what was written, made or removed
    was_done: bool
    is_rename: bool = False


_LINE = re.compile(r"([0-9.]+) (\w+)\((.*)\)\s+= (-?\d+|\?)(?:<(.*)>)?")
_STRING = r'"((?:[^"\\]|\\.)*)"(?:\.\.\.)?'
#: A path, with the directory that it is relative to where the call names one.
_PATH = re.compile(rf"(?:(?:AT_FDCWD|-?\d+)<([^>]*)>, )?{_STRING}")
_DESCRIPTOR = re.compile(r"\d+<([^>]*)>")
_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9a-f]{2}|.)")
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f"}
_WRITING = ("O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC")

_STARTS = frozenset({"clone", "clone3", "fork", "vfork"})
_MOVES = frozenset({"chdir", "fchdir"})
_OPENS = frozenset({"open", "openat", "openat2", "creat"})
#: These follow a link; the others change the name itself.
_FOLLOW = frozenset(
    {
        "truncate",
        "chmod",
        "fchmodat",
        "chown",
        "fchownat",
        "utime",
        "utimes",
        "futimesat",
        "utimensat",
        "chdir",
    }
)
_LAST_NAME_ONLY = frozenset({"symlink", "symlinkat", "link", "linkat"})


def links_below(top: str) -> dict[str, str]:
    """Every symbolic link below a directory, and what it says."""
    found, waiting = {}, [top] if os.path.isdir(top) else []
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    found[entry.path] = os.readlink(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    return found


def read_calls(place: Path, tops: tuple[str, ...], links: dict[str, str]) -> Iterator[Run | Write]:
    """All calls of a command that began in the first of `tops`, below which there were `links` before it."""
    lines = []
    for log in place.iterdir():
        pid = int(log.suffix[1:])
        for line in log.read_text(errors="surrogateescape").splitlines():
            match = _LINE.match(line)
            if match is not None:
                lines.append((float(match[1]), pid, match.groups()[1:]))
    reading = Reading(tops, dict(links))
    for _, pid, call in sorted(lines, key=lambda line: line[0]):
        yield from reading.read(pid, *call)


class Reading:
    """Where every process is, and which links there are, at one moment."""

    def __init__(self, tops: tuple[str, ...], links: dict[str, str]) -> None:
        self._tops, self._links = tops, links
        self._known = tuple(f"{top}/" for top in tops)
        self._directories: dict[int, str] = {}

    def read(
        self, pid: int, name: str, arguments: str, answer: str, real: str | None
    ) -> Iterator[Run | Write]:
        cwd = self._directories.setdefault(pid, self._tops[0])
        was_done = answer.isdigit()
        if name in _STARTS:
            if was_done:
                self._directories[int(answer)] = cwd
        elif name in _MOVES:
            if was_done:
                match = _DESCRIPTOR.match(arguments)
                self._directories[pid] = _plain(match[1]) if match else self._names(name, arguments, cwd)[0]
        elif name in {"execve", "execveat"}:
            yield self._run(arguments, cwd, was_done)
        elif name in _OPENS:
            if name == "creat" or any(flag in arguments for flag in _WRITING):
                yield Write(_plain(real) if real else self._names(name, arguments, cwd)[0], was_done)
        else:
            paths = self._names(name, arguments, cwd)
            if was_done:
                self._note(name, arguments, paths)
            yield from (Write(path, was_done, name.startswith("rename")) for path in paths)

    def _note(self, name: str, arguments: str, paths: list[str]) -> None:
        """What a call did to links. Those in a directory that was renamed are lost; git renames none."""
        if name.startswith("symlink"):
            self._links[paths[0]] = _plain(_PATH.findall(arguments)[0][1])
        elif name.startswith(("unlink", "rename")):
            said = self._links.pop(paths[0], None)
            self._links.pop(paths[-1], None)
            if name.startswith("rename") and said is not None:
                self._links[paths[-1]] = said

    def _run(self, arguments: str, cwd: str, was_done: bool) -> Run:
        match = _PATH.match(arguments)
        assert match is not None, arguments
        argv, _, _ = arguments[match.end() :].partition("], ")
        words = tuple(_plain(word) for word in re.findall(_STRING, argv))
        return Run(self.resolve(os.path.join(_plain(match[1] or cwd), _plain(match[2]))), words, was_done)

    def _names(self, name: str, arguments: str, cwd: str) -> list[str]:
        """The real names that a call is about."""
        paths = [os.path.join(_plain(base or cwd), _plain(path)) for base, path in _PATH.findall(arguments)]
        if name in _LAST_NAME_ONLY:
            paths = paths[-1:]
        if name in _FOLLOW:
            return [self.resolve(path) for path in paths]
        parents = [os.path.split(path.rstrip("/")) for path in paths]
        return [os.path.join(self.resolve(parent), base) for parent, base in parents]

    def resolve(self, path: str) -> str:
        """The real name of a path: below the tops by the known links, elsewhere by those that are there."""
        done, rest = "/", [part for part in path.split("/") if part]
        for _ in range(1000):  # links that lead to each other have no real name
            if not rest:
                break
            part = rest.pop(0)
            step = os.path.normpath(os.path.join(done, part))
            if step.startswith(self._known):
                target = self._links.get(step)
            else:
                target = os.readlink(step) if os.path.islink(step) else None
            if target is None:
                done = step
            else:
                done = "/" if target.startswith("/") else done
                rest = [*(one for one in target.split("/") if one), *rest]
        return done


def _plain(text: str) -> str:
    """A string without strace's escapes."""

    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "01234567":
            return chr(int(code, 8))
        return chr(int(code[1:], 16)) if code[0] == "x" else _PLAIN.get(code, code)

    return _ESCAPE.sub(one, text) if "\\" in text else text
