"""What the entry program takes for harmless in a workspace is what Python finds harmless there."""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from sources_of_entry import compile_part

from corral.git_check.check import RepositoryCheck
from corral.git_check.scope import CheckScope
from support.git_programs import git

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_SOURCES = (
    "tests/entry/trees_main.c",
    "entry/trees.c",
    "entry/git_directory.c",
    "entry/git_index.c",
    "entry/listings.c",
    "entry/remembered.c",
    "entry/sha256.c",
    "launcher/compose.c",
    "launcher/search.c",
)
_INDEXES = 500
_PATHS = (
    *(b"README", b"src/a", b"src/deep/b", b".git/hooks/post-checkout", b".GIT/config", b"../x", b"/x"),
    *(b"a//b", b"./a", b".git", b"git~1/x", b".git /x", b".g\xe2\x80\x8cit/config", b"", b"a/", b"away/x"),
    *(b".gitmodules", b".gitx", b"caf\xc3\xa9/x", b"zz" * 2100),
)
_PLAIN = (b"README", b"src/a", b"src/deep/b", b"away/x", b"away")
_MODES = (*[0o100644] * 8, 0o100755, 0o120000, 0o160000, 0o040000, 0o100600)
_EXTENSIONS = (
    b"TREE",
    b"TREE",
    b"TREE",
    b"link",
    b"UNTR",
    b"FSMN",
    b"REUC",
    b"sdir",
    b"EOIE",
    b"IEOT",
    b"XXXX",
)
_FOLDERS = (
    *("", "src", ".git", ".git/refs", ".git/refs/heads", ".git/objects", ".git/objects/ab"),
    *(".git/objects/info", ".git/objects/pack", ".git/logs", ".git/info", ".git/branches", ".git/remotes"),
    "new",
)
_NAMES = (
    *(
        ".git",
        ".GIT",
        "HEAD",
        "head",
        "objects",
        "refs",
        "commondir",
        "gitdir",
        "index",
        "packed-refs",
        "shallow",
    ),
    *(
        "ORIG_HEAD",
        "FETCH_HEAD",
        "MERGE_HEAD",
        "MERGE_RR",
        "COMMIT_EDITMSG",
        "BISECT_START",
        "alternates",
        "pid",
    ),
    *(
        "http-alternates",
        "multi-pack-index",
        "pack-1.pack",
        "origin",
        "upstream.git",
        "git-rebase-todo",
        "main",
    ),
    *(".gitmodules", ".gitattributes", ".gitignore", ".mailmap", "0001-work.patch", "1", "src", "ab", "a\nb"),
)
_TEXTS = (
    *(
        b"",
        b"ref: refs/heads/main\n",
        b"ref: refs/heads/../../config\n",
        b"ref: config\n",
        b"ref:refs/heads/x\n",
    ),
    *(b"0" * 40 + b"\n", b"0" * 40, b"a" * 64 + b"\n", b"../outside\n", b"exec touch x\n", b"gitdir: ../x\n"),
)


class _Workspace:
    """One repository that both look at, before and after it is changed."""

    def __init__(self, program: Path, top: Path) -> None:
        self.top = top / "work"
        (self.top / "src/deep").mkdir(parents=True)
        for name in ("README", "src/a", "src/deep/b"):
            (self.top / name).write_text(name)
        git(self.top, "init", "-q", "--template=", "-b", "main")
        git(self.top, "add", ".")
        git(self.top, "commit", "-qm", "one")
        path, repository = str(self.top), f"{self.top}/.git"
        self._scope = CheckScope(
            roots=(path,),
            tops=(),
            planned=(path,),
            held=frozenset({repository}),
            shielded=frozenset({f"{repository}/config"}),
            above=frozenset({path, repository}),
            hook_directories=(),
        )
        head = (self.top / ".git/HEAD").read_text()
        self._entry = subprocess.Popen(
            [program, path, head], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.is_clean("before")
        self._check = RepositoryCheck(self._scope, "")
        self._check.begin()

    def is_clean(self, since: str = "") -> bool:
        assert self._entry.stdin is not None and self._entry.stdout is not None
        self._entry.stdin.write((since or str(self._check._look.since_ns)) + "\n")
        self._entry.stdin.flush()
        return self._entry.stdout.readline() == "1\n"

    def hazards(self) -> list[str]:
        look = self._check._look
        found = [f"{one.path}/{hazard.place}" for one in look.afterwards({}, 10**6) for hazard in one.hazards]
        return [*found, *look.failures]

    def close(self) -> None:
        assert self._entry.stdin is not None and self._entry.stdout is not None
        self._entry.stdin.close()
        self._entry.stdout.close()
        self._entry.wait()


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    flags = ("-DCORRAL_ENTRY", '-DCORRAL_RULES=""', "-ffunction-sections", "-Wl,--gc-sections")
    return compile_part(tmp_path_factory.mktemp("trees") / "trees", _SOURCES, *flags)


@pytest.fixture
def workspace(program, tmp_path):
    made = _Workspace(program, tmp_path)
    yield made
    made.close()


def _number(value: int) -> bytes:
    return (value & 0xFFFFFFFF).to_bytes(4)


def _entry(source: random.Random) -> tuple[bytes, bytes]:
    path = source.choice(_PATHS if source.random() < 0.3 else _PLAIN)
    flags = min(len(path), 0xFFF) | (source.choice((0x8000, 0x4000, 0x1000)) if source.random() < 0.1 else 0)
    whole = bytes(24) + _number(source.choice(_MODES)) + bytes(32) + flags.to_bytes(2) + path
    return path, whole + bytes(8 - len(whole) % 8)


def _extension(source: random.Random, start: int) -> bytes:
    offsets = b"IEOT" + _number(12) + _number(1) + _number(start + 8) + _number(1)
    end = b"EOIE" + _number(24) + _number(start + 8) + hashlib.sha1(offsets[:8]).digest()  # as git finds it
    content = source.choice(
        (b"", b"\0-1 0\n", source.randbytes(source.randrange(40)), bytes(20), offsets + end)
    )
    size = len(content) if source.random() < 0.9 else source.randrange(99)
    return source.choice(_EXTENSIONS) + _number(size) + content


def _index(source: random.Random, plain: bytes) -> bytes:
    """One that is made up, or the real one with some bytes changed."""
    if source.random() < 0.4:
        data = bytearray(plain[:-20])
        for _ in range(source.randrange(1, 4)):
            data[source.randrange(len(data))] = source.choice((0, 255, 46, 47, source.randrange(256)))
    else:
        entries = sorted(_entry(source) for _ in range(source.randrange(4)))
        count = len(entries) + source.choice((0, 0, 0, 0, 1, -1))
        data = bytearray(b"DIRC" + _number(source.choice((2, 2, 2, 2, 3, 4))) + _number(count))
        data += b"".join(entry for _, entry in entries)
        for _ in range(source.choice((0, 1, 1, 2))):
            data += _extension(source, len(data))
    return bytes(data) + hashlib.sha1(data).digest()


def test_an_index_that_it_takes_is_harmless(workspace) -> None:
    source, taken = random.Random(15), 0
    (workspace.top / "away").symlink_to("/usr")
    place = workspace.top / ".git/index"
    plain = place.read_bytes()
    for _ in range(_INDEXES):
        data = _index(source, plain)
        place.write_bytes(data)
        if workspace.is_clean():
            taken += 1
            assert workspace.hazards() == [], data
    assert taken > _INDEXES / 20


def _file(path: Path) -> None:
    path.write_bytes(_TEXTS[len(path.name) % len(_TEXTS)])


def _repository(path: Path) -> None:
    (path / "objects").mkdir(parents=True)
    (path / "refs").mkdir()
    (path / "HEAD").write_text("ref: refs/heads/main\n")


_KINDS: tuple[Callable[[Path], object], ...] = (
    _file,
    lambda path: path.symlink_to("/usr"),
    os.mkfifo,
    _repository,
)


def test_what_it_takes_elsewhere_is_harmless(workspace) -> None:
    """Whatever a command makes, wherever git may look for it."""
    taken = left = 0
    for folder, name in itertools.product(_FOLDERS, _NAMES):
        place = Path(workspace.top, folder, name)
        is_new = not place.parent.is_dir()
        if os.path.lexists(place):
            continue
        for make in _KINDS:
            place.parent.mkdir(parents=True, exist_ok=True)
            make(place)
            is_clean = workspace.is_clean()
            assert not is_clean or workspace.hazards() == [], (make, place)
            taken, left = taken + is_clean, left + (not is_clean)
            shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()
        if is_new:
            shutil.rmtree(place.parent)
    assert taken > 100 and left > 100
