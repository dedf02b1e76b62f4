"""The entry program's parser and Python's agree, and its tables are those of Python."""

from __future__ import annotations

import json
import random
import runpy
import subprocess

import pytest
from sources_of_entry import ROOT, compile_part

from corral.cli.options import OPTIONS, parse_quickly
from corral.cli.session import exec as session_exec
from corral.cli.session.options import EXEC_OPTIONS, parse_exec
from corral.model.errors import CorralError
from corral.sessions.named.request import read_request

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
_EXEC_WORDS = [
    *(flag for option in EXEC_OPTIONS for flag in option.flags),
    *("-c", "-c", "--env", "--cwd", "--timeout", "--stateful", "--", "--", "-", "", " ", "name", "true"),
    *("A=1", "A=", "A", "PATH", "=x", '--env=B="\\\n\x01\x7f', "echo hi"),
    *("é", "\u20ac\U0001f600", "\udce9", "\udced\udca0\udc80"),
    *("/x", "/", "//x", "/x/", "/x/../y", "/x/.y", "/..x", "rel"),
    *("5", "05", "30s", "2m", "1h", "1h30m", "0", "99999", "1d"),
    *("--timeout=7", "--cwd=/z", "--json=1", "--unknown"),
]


@pytest.fixture(scope="module")
def parser(tmp_path_factory):
    names = (
        "entry/request.c",
        "entry/session_request.c",
        "entry/session_words.c",
        "entry/sha256.c",
        "launcher/compose.c",
        "launcher/plan.c",
        "tests/entry/parse_main.c",
    )
    return compile_part(tmp_path_factory.mktemp("parser") / "parse", names)


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


def _lines(parser, requests: list[list[str]], *more: str) -> list[str]:
    words = (b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in one) for one in requests)
    data = b"".join(one + b"\n\0" for one in words)
    told = subprocess.run([parser, *more], input=data, capture_output=True, check=True).stdout
    return told.decode("utf-8", "surrogateescape").split("\n")


def test_it_asks_a_session_for_what_python_would(parser, monkeypatch) -> None:
    monkeypatch.setattr("os.getcwd", lambda: "/here")
    source = random.Random(7)
    requests = [[source.choice(_EXEC_WORDS) for _ in range(source.randrange(1, 6))] for _ in range(_REQUESTS)]

    mine = 0
    for words, line in zip(requests, _lines(parser, requests, "exec"), strict=False):
        parsed = parse_exec(words)
        if not line:  # what is plain is not left to Python
            is_text = not any("\ud800" <= letter <= "\udfff" for letter in "".join(words))
            assert words[:1] != ["--"] or len(words) == 1 or not is_text, words
            continue
        mine += 1
        name, _, packet = line.partition("\t")
        assert parsed is not None, words
        try:
            wanted = session_exec._request(parsed.options, parsed.words)
        except CorralError as error:
            pytest.fail(f"{words}: {error}")
        message = json.loads(packet)
        assert (message.pop("token"), message.pop("op"), message.pop("v")) == ("0f", "exec", 1)
        assert (name, read_request(message)) == (parsed.name or "", wanted), words
    assert mine > _REQUESTS / 20


def test_the_tables_are_pythons() -> None:
    made = runpy.run_path(str(ROOT / "entry/tables.py"))["render"]()

    assert (ROOT / "entry/tables.h").read_text(encoding="ascii") == made
