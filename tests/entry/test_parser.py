"""The entry program's parser and Python's agree, and its tables are those of Python."""

from __future__ import annotations

import random
import runpy
import shutil
import subprocess

import pytest
from sources_of_entry import ROOT

from corral.cli.options import OPTIONS, parse_quickly

_FLAGS = [flag for option in OPTIONS for flag in option.flags]
_WORDS = [
    *_FLAGS,
    "--",
    "-",
    "",
    "true",
    "-x",
    "--cwd=/x",
    "--json=1",
    "--unknown",
    " ",
    "-c",
    "echo hi",
    "--=",
    "-p=x",
    "é",
]
_REQUESTS = 3000


@pytest.fixture(scope="module")
def parser(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    program = tmp_path_factory.mktemp("parser") / "parse"
    names = (
        "entry/request.c",
        "entry/sha256.c",
        "launcher/compose.c",
        "launcher/plan.c",
        "tests/entry/parse_main.c",
    )
    subprocess.run(
        [
            compiler,
            "-std=c11",
            "-D_GNU_SOURCE",
            f"-I{ROOT}/launcher",
            f"-I{ROOT}/entry",
            *(str(ROOT / name) for name in names),
            "-o",
            str(program),
        ],
        check=True,
    )
    return program


def _has_plain_text(line: str) -> bool:
    """Which spaces there are beyond ASCII, the entry program does not know: such a line is Python's."""
    return any(character.isascii() and not character.isspace() for character in line)


def test_it_takes_what_python_reads_in_the_same_way(parser) -> None:
    source = random.Random(25)
    requests = [[source.choice(_WORDS) for _ in range(source.randrange(8))] for _ in range(_REQUESTS)]
    data = b"".join(b"".join(word.encode() + b"\0" for word in words) + b"\n\0" for words in requests)
    told = subprocess.run([parser], input=data, capture_output=True, check=True).stdout.decode().splitlines()

    mine = 0
    for words, line in zip(requests, told, strict=True):
        is_mine, end, line_at = map(int, line.split())
        parsed = parse_quickly(words)
        mine += is_mine
        if is_mine:
            assert parsed is not None, words
            assert parsed[1] == tuple(words[end:]), words
            assert parsed[0]["line"] == (words[line_at] if line_at > 0 else None), words
        elif parsed is not None:  # it leaves to Python what it could read; but nothing plain
            has_line = parsed[0]["line"] is not None
            is_odd = words.count("-c") > 1 or (has_line and not _has_plain_text(parsed[0]["line"]))
            assert has_line == bool(parsed[1]) or is_odd, words
    assert mine > _REQUESTS / 20


def test_the_tables_are_pythons() -> None:
    made = runpy.run_path(str(ROOT / "entry/tables.py"))["render"]()

    assert (ROOT / "entry/tables.h").read_text(encoding="ascii") == made
