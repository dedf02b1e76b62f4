"""Random programs of file operations, to be run on a trial and on a plain copy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from hypothesis import strategies as st

#: Reads a list of operations and does one after the other; whatever fails, fails. A rename that an overlay
#: refuses (a directory that was there before) is done as `mv` does it.
INTERPRETER = r"""
import errno, json, os, shutil, sys

def move(old, new):
    try:
        os.rename(old, new)
    except OSError as problem:
        if problem.errno != errno.EXDEV:
            raise
        if os.path.isdir(new) and not os.path.islink(new):
            os.rmdir(new)
        shutil.copytree(old, new, symlinks=True)
        shutil.rmtree(old)

def write(path, text, mode):
    with open(path, mode, opener=lambda p, f: os.open(p, f | os.O_NOFOLLOW)) as file:
        file.write(text)

def change_mode(path, mode):
    if not os.path.islink(path):
        os.chmod(path, mode | 0o100 * os.path.isdir(path))

def cut(path, size):
    if not os.path.islink(path):
        os.truncate(path, size)

DO = {
    "write": lambda path, text: write(path, text, "w"),
    "append": lambda path, text: write(path, text, "a"),
    "mkdir": os.mkdir,
    "rmdir": os.rmdir,
    "remove": os.unlink,
    "rmtree": shutil.rmtree,
    "rename": move,
    "link": lambda old, new: os.link(old, new, follow_symlinks=False),
    "symlink": lambda text, path: os.symlink(text, path),
    "chmod": lambda path, mode: change_mode(path, mode),
    "truncate": lambda path, size: cut(path, size),
}
for name, *arguments in json.load(sys.stdin):
    try:
        DO[name](*arguments)
    except (OSError, shutil.Error):
        pass
print("done")
"""

_NAMES = ("a", "b", "c")
_PATHS = st.lists(st.sampled_from(_NAMES), min_size=1, max_size=3).map("/".join)
_TEXTS = st.sampled_from(("", "one\n", "two\n", "long " * 2000))
_MODES = st.sampled_from((0o600, 0o644, 0o640, 0o755))
OPERATIONS = st.one_of(
    st.tuples(st.just("write"), _PATHS, _TEXTS),
    st.tuples(st.just("append"), _PATHS, _TEXTS),
    st.tuples(st.just("mkdir"), _PATHS),
    st.tuples(st.just("rmdir"), _PATHS),
    st.tuples(st.just("remove"), _PATHS),
    st.tuples(st.just("rmtree"), _PATHS),
    st.tuples(st.just("rename"), _PATHS, _PATHS),
    st.tuples(st.just("link"), _PATHS, _PATHS),
    st.tuples(st.just("symlink"), st.sampled_from(("a", "../b", "/nowhere")), _PATHS),
    st.tuples(st.just("chmod"), _PATHS, _MODES),
    st.tuples(st.just("truncate"), _PATHS, st.sampled_from((0, 3, 100_000))),
)
PROGRAMS = st.lists(OPERATIONS, max_size=25)


def run_plainly(directory: Path, program: list[tuple[object, ...]]) -> None:
    """Unconfined, on the directory itself."""
    subprocess.run(
        [sys.executable, "-I", "-S", "-c", INTERPRETER],
        input=json.dumps(program).encode(),
        cwd=directory,
        stdout=subprocess.DEVNULL,
        check=True,
    )


def tree_of(directory: Path) -> dict[str, tuple[object, ...]]:
    """All that is in a directory: kinds, modes, contents and texts of links."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(directory.rglob("*")):
        name = str(path.relative_to(directory))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = ("directory", path.stat().st_mode & 0o7777)
        else:
            found[name] = ("file", path.stat().st_mode & 0o7777, path.read_bytes())
    return found
