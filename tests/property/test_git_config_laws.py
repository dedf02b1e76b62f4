"""Laws of git configurations: git itself reads the same, or refuses the same."""

from __future__ import annotations

import functools
import os
import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corral.git_formats.config import ConfigEntry, MalformedConfig, read_config, without
from support.examples import examples

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

headers = st.sampled_from(
    [
        *(
            b"[core]",
            b"[Core.Sub]",
            b'[remote "Origin"]',
            b'[a "x\\"y\\\\z\\n#]"]',
            b'[ "x"]',
            b"[a.]",
            b"[.]",
        ),
        *(b'[core "hooksPath\0"]', b'[a "\xff\xc3\xa4"]', b'[a\t "b c"]', b"[-1]"),
    ]
)
keys = st.sampled_from([b"hooksPath", b"url", b"K-1", b"a", b"X"])
pieces = st.sampled_from(
    [
        *(
            b"value",
            b"x",
            b" ",
            b"  ",
            b"\t",
            b"\r",
            b"\x0b",
            b"#",
            b";",
            b"=",
            b"[",
            b"]",
            b"'",
            b"/",
            b"~user/",
        ),
        *(
            b'"',
            b'""',
            b'" # "',
            b"\\n",
            b"\\t",
            b"\\b",
            b"\\\\",
            b'\\"',
            b"\\\n",
            b"\\\r\n",
            b"\0",
            b"\xff",
            b"\xc3",
        ),
    ]
)
equals = st.sampled_from([b" = ", b"=", b"\t=", b" =\t"])
ends = st.sampled_from([b"\n", b"\n", b"\r\n", b"\n\n", b"\n\t", b"\n# a comment\n", b" ; [x]\n", b""])
entries = st.one_of(
    st.tuples(keys, ends), st.tuples(keys, equals, st.lists(pieces, max_size=5).map(b"".join), ends)
).map(b"".join)
sections = st.tuples(
    headers, st.sampled_from([b"", b" ", b"\n", b"\r\n\t"]), st.lists(entries, max_size=3).map(b"".join)
)
files = st.tuples(
    st.sampled_from([b"", b"", b"\xef\xbb\xbf", b"\n", b"k = v\n"]),
    st.lists(sections.map(b"".join), max_size=4).map(b"".join),
).map(b"".join)
any_bytes = st.lists(st.one_of(headers, keys, equals, ends, pieces, st.binary(max_size=2)), max_size=12).map(
    b"".join
)


@functools.cache
def reads_tabs_as_spaces() -> bool:
    version = subprocess.run(["git", "version"], capture_output=True, text=True, check=True).stdout.split()[2]
    return tuple(map(int, version.split(".")[:2])) < (2, 45)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("git")


def read_by_git(place: Path, data: bytes) -> bytes | int:
    """Names and values as git prints them, or the line that it calls bad."""
    file = place / "config"
    file.write_bytes(data)
    done = subprocess.run(
        ["git", "config", "--file", str(file), "--null", "--list"],
        cwd=place,
        env={"PATH": os.environ["PATH"], "HOME": str(place), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"},
        capture_output=True,
        check=False,
    )
    if done.returncode == 0:
        return done.stdout
    return int(done.stderr.partition(b"bad config line ")[2].split()[0])


def printed(entry: ConfigEntry) -> bytes:
    value = entry.older_value if reads_tabs_as_spaces() else entry.value
    text = entry.name if value is None else f"{entry.name}\n{value}"
    return text.encode("utf-8", "surrogateescape") + b"\0"


def read_by_us(data: bytes) -> bytes | int:
    try:
        return b"".join(map(printed, read_config(data)))
    except MalformedConfig as refused:
        return refused.line


@examples(450)
@given(files)
@example(b"[core]\n\thooksPath = my\\\nhooks\n")
@example(b"\xef\xbb\xbf[core]\r\n\thooksPath = ~user/x\r\n")
@example(b"# nothing\n" * 7000 + b'[remote "x"] uploadpack = evil')
@example(b'[core "fsmonitor\0"] x = evil\0 y')
@example(b"[a] k = x\ty \r z \t")
def test_git_reads_the_same(place: Path, data: bytes) -> None:
    assert read_by_us(data) == read_by_git(place, data)


@examples(300)
@given(any_bytes)
@example(b"\xef\xbb")
@example(b"[a]k = \\")
@example(b"[core")
def test_git_reads_any_bytes_or_refuses_them_at_the_same_line(place: Path, data: bytes) -> None:
    assert read_by_us(data) == read_by_git(place, data)


def seen(data: bytes) -> list[tuple[str, str | None, str | None]]:
    return [(entry.name, entry.value, entry.older_value) for entry in read_config(data)]


@examples(600)
@given(files, st.randoms(use_true_random=False))
def test_what_is_left_out_is_all_that_changes(data: bytes, random) -> None:
    try:
        found = read_config(data)
    except MalformedConfig:
        return
    dropped = {entry for entry in found if random.random() < 0.5}
    rest = without(data, dropped.__contains__)

    assert seen(rest) == [(e.name, e.value, e.older_value) for e in found if e not in dropped]
    assert without(rest, lambda _: False) == rest
    assert rest.count(b"[") <= data.count(b"[")
    assert dropped or rest == data
