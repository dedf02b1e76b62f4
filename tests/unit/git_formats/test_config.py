"""Git configurations are read as git reads them, and written with nothing changed but what is left out."""

from __future__ import annotations

import pytest

from corral.git_formats.config import ConfigEntry, MalformedConfig, read_config, without


def settings(data: bytes) -> list[tuple[str, str | None]]:
    return [(entry.name, entry.value) for entry in read_config(data)]


def values(data: bytes) -> list[str | None]:
    return [entry.value for entry in read_config(b"[a]\n" + data)]


def test_a_setting_has_the_name_by_which_git_compares_it() -> None:
    (entry,) = read_config(b'[Remote "Origin.x"]\n\tURL = https://a/b\n')

    assert entry.name == "remote.Origin.x.url"
    assert (entry.section, entry.subsection, entry.key) == ("remote", "Origin.x", "url")
    assert entry.value == "https://a/b"
    assert entry.line == 2


@pytest.mark.parametrize(
    ("header", "name", "section", "subsection"),
    [
        (b"[core]", "core.k", "core", None),
        (b"[Branch.Main]", "branch.main.k", "branch", "main"),
        (b"[core.]", "core..k", "core", ""),
        (b'[core ""]', "core..k", "core", ""),
        (b'[a \t "B c"]', "a.B c.k", "a", "B c"),
        (b'[a.B "C"]', "a.b.C.k", "a", "b.C"),
        (b'[a "x\\"y\\\\z\\n"]', 'a.x"y\\zn.k', "a", 'x"y\\zn'),
        (b'[a "]#;"]', "a.]#;.k", "a", "]#;"),
        (b'[a "\xff"]', "a.\udcff.k", "a", "\udcff"),
        (b'[ "x"]', ".x.k", "", "x"),
        (b"[a][b]", "b.k", "b", None),
        (b"", "k", "", None),
    ],
)
def test_every_form_of_a_section_is_read(header: bytes, name: str, section: str, subsection: str) -> None:
    (entry,) = read_config(header + b" K = v")

    assert (entry.name, entry.section, entry.subsection, entry.key) == (name, section, subsection, "k")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"k", None),
        (b"k \t", None),
        (b"k =", ""),
        (b"k = v \t\r ", "v"),
        (b"k=a  b", "a  b"),
        (b"k = v # comment", "v"),
        (b"k = v;comment", "v"),
        (b'k = "v ; # " x', "v ; #  x"),
        (b'k = a" b "c', "a b c"),
        (b'k = " v "', " v "),
        (b'k = "" v', "v"),
        (b'k = \\t\\b\\n\\\\\\"', '\t\b\n\\"'),
        (b"k = \xc3\xa4\xff", "ä\udcff"),
        (b"k = a\x0bb\x0c", "a\x0bb\x0c"),
        (b"k = [x]", "[x]"),
        (b"k = x = y", "x = y"),
    ],
)
def test_every_form_of_a_value_is_read(text: bytes, value: str | None) -> None:
    assert values(text) == values(text + b"\n") == values(text + b"\r\n") == [value]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"k = my\\\nhooks", "myhooks"),
        (b"k = my\\\r\nhooks", "myhooks"),
        (b'k = "my \\\n hooks"', "my  hooks"),
        (b"k = my \\\n  hooks", "my   hooks"),
        (b"k = v # \\\n", "v"),
        (b"k = v \\", "v "),
        (b"k = \\\n\\\n v", "v"),
    ],
)
def test_a_value_goes_on_behind_a_backslash_at_the_end_of_a_line(text: bytes, value: str) -> None:
    assert values(text) == [value]


def test_a_hooks_path_over_two_lines_is_one_path() -> None:
    assert settings(b"[core]\n\thooksPath = my\\\nhooks\n") == [("core.hookspath", "myhooks")]


def test_what_versions_read_differently_is_said_in_both_ways() -> None:
    (entry,) = read_config(b'[a] k = x\ty \r z "\t" \t\n')

    assert entry.value == "x\ty \r z \t"
    assert entry.older_value == "x y   z \t"
    assert entry.readings == (entry.value, entry.older_value)
    assert read_config(b"[a] k = v w\n j")[0].readings == ("v w",)
    assert read_config(b"[a] k = v w\n j")[1].readings == ()


def test_a_mark_of_utf8_at_the_start_is_passed_over() -> None:
    assert settings(b"\xef\xbb\xbf[core]\nhooksPath = x\n") == [("core.hookspath", "x")]


def test_nothing_of_a_long_file_is_left_unread() -> None:
    filler = b"# nothing\n" * 10_000 + b"[user]\n" + b"name = a\n" * 10_000

    assert len(filler) > 2 * 65_536
    assert settings(filler + b"[core] hooksPath = x")[-1] == ("core.hookspath", "x")


def test_a_nul_ends_a_name_and_a_value_as_it_does_in_git() -> None:
    """Proved with git itself: the first is core.fsmonitor there, whatever its key."""
    assert settings(b'[core "fsmonitor\0x"] y = evil\0not this\n[core "hooksPath\0"] z = v\n') == [
        ("core.fsmonitor", "evil"),
        ("core.hooksPath", "v"),
    ]


def test_a_comment_is_no_setting() -> None:
    assert settings(b"# [core] a = b\n;[core]\n[core] # a = b\n  ; c = d\n e = f") == [("core.e", "f")]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"[]", 1),
        (b"[core", 2),
        (b"\n[core\n]", 2),
        (b'[core "x]\n', 1),
        (b'[core "x\\\n"]', 1),
        (b'[core "x" ]', 1),
        (b"[core x]", 1),
        (b"[co_re]", 1),
        (b"[core]]", 1),
        (b"[core]\n= v", 2),
        (b"[core]\n1k = v", 2),
        (b"[core]\nk_ = v", 2),
        (b"[core]\nk # no comment here", 2),
        (b"[core]\nk\r = v", 2),
        (b"[core]\n\0", 2),
        (b"[core]\nk\0 = v", 2),
        (b'[core]\nk = "v\n', 2),
        (b"[core]\nk = \\x", 2),
        (b"[core]\nk = \\\0", 2),
        (b"\xef\xbb[core]", 1),
        (b"[core]\n\xef\xbb\xbf", 2),
        (b"[core]\n\xc3\xa4 = v", 2),
        (b"[core]\x0b", 1),
    ],
)
def test_what_git_refuses_is_refused_at_the_line_that_git_names(text: bytes, line: int) -> None:
    with pytest.raises(MalformedConfig) as refused:
        read_config(text)

    assert refused.value.line == line
    assert str(refused.value) == f"bad config line {line}"


def test_an_empty_file_has_no_settings() -> None:
    assert read_config(b"") == read_config(b"\n\r\n \r") == read_config(b"\xef\xbb\xbf") == ()


CONFIG = b"""\
[core]
\tbare = false ; kept
\thooksPath = my\\
hooks # gone with it
  # a comment
[alias] x = !evil
[alias "y"]\tcommand = !evil
\t z
[user] name = "Ada"
"""


def is_evil(entry: ConfigEntry) -> bool:
    return entry.section == "alias" or entry.key == "hookspath"


def test_what_is_left_out_is_gone_and_all_else_is_as_it_was() -> None:
    rest = without(CONFIG, is_evil)

    assert rest == (
        b'[core]\n\tbare = false ; kept\n  # a comment\n[alias] \n[alias "y"]\t\n[user] name = "Ada"\n'
    )
    assert settings(rest) == [("core.bare", "false"), ("user.name", "Ada")]


def test_what_is_left_out_may_be_named_by_a_set() -> None:
    dropped = {entry for entry in read_config(CONFIG) if is_evil(entry)}

    assert without(CONFIG, dropped.__contains__) == without(CONFIG, is_evil)


def test_with_nothing_to_leave_out_a_file_is_the_same() -> None:
    assert without(CONFIG, lambda _: False) == CONFIG


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (b"\xef\xbb\xbfk = v\r\n[a]\r\n", b"\xef\xbb\xbf\r\n[a]\r\n"),
        (b"[a] k = v ; x\r\n j = w\r\n", b"[a] \r\n"),
        (b"[a]\n  k = v", b"[a]\n"),
        (b"[a]\n\r k", b"[a]\n"),
        (b"[a] k = v", b"[a] "),
        (b"k\n\nk\n", b"\n"),
    ],
)
def test_the_line_of_a_setting_goes_unless_something_else_is_on_it(text: bytes, rest: bytes) -> None:
    assert without(text, lambda _: True) == rest


def test_a_malformed_file_is_not_written() -> None:
    with pytest.raises(MalformedConfig):
        without(b"[core", is_evil)
