"""Patterns: what they stand for, with git as the judge, and how their texts are spelled."""

from __future__ import annotations

import subprocess

import pytest

from corral.config.pattern_file import read_pattern_file
from corral.model.errors import CapabilitySyntaxError, PolicyError
from corral.model.policy import FsAccess, FsRule, Policy
from corral.model.rules.capability import parse_capability
from corral.model.rules.path_text import path_or_pattern
from corral.model.rules.pattern import descend, escape, glob_of, is_pattern, literal, normal_steps
from corral.policy.check import check_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_PATTERNS = (
    *(
        "*.pem",
        "**/.env",
        "?.pem",
        "[ab].pem",
        "[!a].pem",
        "[^a].pem",
        "[a-c]?.pem",
        "[]x].pem",
        "[[:digit:]].pem",
    ),
    *(
        "sec/*.pem",
        "/*.pem",
        "/sec",
        "sec/",
        "a/**/b",
        "a/**",
        "**/a/b",
        "a**b",
        "*",
        r"\*.pem",
        r"[\]].pem",
        "a/*/b",
    ),
)
_PATHS = (
    *(
        "a.pem",
        "b.pem",
        "ab.pem",
        "].pem",
        "x.pem",
        "*.pem",
        "7.pem",
        ".pem",
        "A.PEM",
        "a.pem.txt",
        "new\nline.pem",
    ),
    *(
        "sec/a.pem",
        "sec/deep/a.pem",
        "x/sec/a.pem",
        "x/.env",
        ".env",
        ".envrc",
        "a/b",
        "a/x/b",
        "a/x/y/b",
        "x/a/b",
    ),
    *("aXb", "a/b/c", "sec/file"),
)


def _stands_for(pattern: str, path: str) -> bool:
    """As a policy has it in a workspace: what lies in a match is held with it."""
    is_name = "/" not in pattern.rstrip("/")
    steps = normal_steps(f"**/{pattern}" if is_name else pattern)
    return descend([glob_of(pattern, steps)], path.split("/"))[0] > 0


def test_a_pattern_stands_for_what_git_takes_it_for(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    asked = []
    for number, pattern in enumerate(_PATTERNS):
        (tmp_path / f"p{number}").mkdir()
        (tmp_path / f"p{number}/.gitignore").write_text(pattern + "\n")
        asked += [f"p{number}/{path}" for path in _PATHS]
    told = subprocess.run(
        ["git", "-C", str(tmp_path), "check-ignore", "--no-index", "-z", "--stdin"],
        input="\0".join(asked).encode(),
        stdout=subprocess.PIPE,
        check=False,
    ).stdout
    by_git = set(told.decode().split("\0")) - {""}

    by_us = {
        f"p{number}/{path}"
        for number, pattern in enumerate(_PATTERNS)
        for path in _PATHS
        if _stands_for(pattern, path)
    }

    assert by_us == by_git
    assert len(by_git) > len(_PATTERNS)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("*.pem", "**/*.pem"),
        ("**/.env", "**/.env"),
        ("**/**/x/", "**/x/"),
        ("/a/./b//../*", "/a/*"),
        ("/a/**", "/a/*"),
        ("~/**/**/k?", "~/**/k?"),
        ("${workspace}/[a]/x/", "${workspace}/[a]/x/"),
        (r"/a/\[id\]/", r"/a/\[id]"),
        (r"/a/\*", r"/a/\*"),
    ],
)
def test_each_text_has_one_spelling(text: str, canonical: str) -> None:
    assert path_or_pattern(text) == canonical
    assert path_or_pattern(canonical) == canonical


@pytest.mark.parametrize(
    "text",
    [
        *(
            "filesystem:deny:/a/*/../b",
            "filesystem:deny:[x",
            "filesystem:deny:/x/[z-a]",
            "filesystem:deny:!*.pem",
        ),
        *(
            "filesystem:deny:a/*",
            "filesystem:deny:.env",
            r"filesystem:deny:/a\b",
            "filesystem:deny:/[[:nothing:]]",
        ),
        *(
            "filesystem:write:/a/*",
            "filesystem:private:/a?",
            "filesystem:protect:!x*",
            "filesystem:write:**/x",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(CapabilitySyntaxError):
        parse_capability(text)


@pytest.mark.parametrize("path", ["/a*b", "/a[b]", "/a?", r"/a\b", r"/\*", "/plain"])
def test_every_path_can_be_written(path: str) -> None:
    text = escape(path)

    assert not is_pattern(text)
    assert literal(text) == path
    assert parse_capability(f"filesystem:write:{text}").target == text


@pytest.mark.parametrize(
    "policy",
    [
        Policy(fs=(FsRule("/a/*", FsAccess.WRITE),)),
        Policy(fs=(FsRule("/a/**", FsAccess.DENY),)),
        Policy(fs=(FsRule("*.pem", FsAccess.DENY),)),
        Policy(fs=(FsRule(r"/a\b", FsAccess.READ),)),
        Policy(private=frozenset({"/a*"})),
        Policy(protect=frozenset({"*.sh"})),
    ],
)
def test_a_program_spells_patterns_like_everybody(policy: Policy) -> None:
    with pytest.raises(PolicyError) as refused:
        check_policy(policy)

    assert refused.value.code == "impossible-policy"


def test_of_two_policies_with_patterns_none_is_within_the_other_by_mistake() -> None:
    wide = Policy(fs=(FsRule("/w", FsAccess.WRITE),))
    for text in ("**/*.pem", "/w/*.pem", "/*/x", "/w/a/b*"):
        for access in (FsAccess.DENY, FsAccess.READ):
            narrow = wide.replace(fs=(*wide.fs, FsRule(text, access)))

            assert narrow <= wide
            assert not wide <= narrow
            assert (wide & narrow) <= narrow

    optional = Policy(fs=(FsRule("/w", FsAccess.READ, True), FsRule("**/x", FsAccess.DENY)))
    named = Policy(fs=(FsRule("/w", FsAccess.READ), FsRule("**/x", FsAccess.DENY)))
    assert not optional <= named  # a preset's own programs are spared
    assert named <= optional


@pytest.mark.parametrize("text", ["*a" * 30 + "*b", "*?" * 30 + "*[b]*c", "**/" * 9 + "x" + "*a" * 30 + "b"])
def test_no_name_takes_for_ever(text: str) -> None:
    assert descend((glob_of(text, text),), ("x" + "a" * 250,) * 3)[0] == 0


@pytest.mark.parametrize(
    ("text", "name", "is_so"),
    [
        ("*a*a*", "aa", True),
        ("*a*a*", "a", False),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("ab*ba", "aba", False),
        ("*ab*b", "abab", True),
        ("*ab?*b", "abab", True),
        ("*ab?*b", "abb", False),
        ("*.p?m*", "x.pxxm.pem", True),
    ],
)
def test_pieces_between_stars_do_not_overlap(text: str, name: str, is_so: bool) -> None:
    assert bool(descend((glob_of(text, text),), (name,))[0]) is is_so


def test_the_mark_that_some_editors_begin_a_file_with_is_no_part_of_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "denied").write_bytes(b"\xef\xbb\xbf*.pem\n")

    assert read_pattern_file(str(tmp_path / "denied")) == ("**/*.pem",)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("a\fb", "a\fb"),
        ("p\u2028q", "p\u2028q"),
        ("x\x85y\x0bz\x1cw", "x\x85y\x0bz\x1cw"),
        ("foo\\\\ ", "foo\\\\"),
        ("foo\\ ", "foo "),
        ("foo\\\\\\  ", "foo\\\\ "),
        ("foo \\  \t", "foo  "),
        ("a\\ b\\\\ c", "a b\\\\ c"),
        ("foo \r", "foo"),
        ("foo\\", "foo\\"),  # which a policy refuses
    ],
)
def test_a_line_ends_where_git_says_and_backslashes_are_counted(tmp_path: Path, line: str, text: str) -> None:
    (tmp_path / "denied").write_bytes(f"{line}\n# no more\n".encode())

    assert read_pattern_file(str(tmp_path / "denied")) == (f"**/{text}",)
