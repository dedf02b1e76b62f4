"""Documents: what is read, where everything is, and how a mistake is shown."""

from __future__ import annotations

import pickle

import pytest

from corral.config.document import (
    MOST_BYTES,
    MOST_DEPTH,
    DocumentProblems,
    Position,
    Problem,
    read_document,
)

TOML = """\
# a comment
preset = "strict"

[filesystem]
read = [
    "/usr",  # with ] and "quotes" in a comment
    '''/opt''',
]

[limits]
memory.limit = "1GiB"
"time limit" = 30
inline = { a.b = 1, 'c' = [ {d = 2} ] }

[[rule]]
name = "first"

[[rule]]
name = "second"
[rule.when]
host = "x"
"""

JSON = """\
{
  "preset": "strict",
  "filesystem": {"read": ["/usr", {"a\\u0062": [1, [2]]}]},
  "é\\"": {}
}
"""


def problem_of(text: str, file: str = "corral.toml") -> Problem:
    with pytest.raises(DocumentProblems) as caught:
        read_document(text, file)
    (problem,) = caught.value.problems
    return problem


def place_of(text: str, file: str = "corral.toml") -> tuple[int, int]:
    problem = problem_of(text, file)
    return problem.line, problem.column


@pytest.mark.parametrize(
    ("keys", "key", "value"),
    [
        (("preset",), (2, 1), (2, 10)),
        (("filesystem",), (4, 2), (4, 2)),
        (("filesystem", "read"), (5, 1), (5, 8)),
        (("filesystem", "read", 0), (6, 5), (6, 5)),
        (("filesystem", "read", 1), (7, 5), (7, 5)),
        (("limits", "memory"), (11, 1), (11, 1)),
        (("limits", "memory", "limit"), (11, 8), (11, 16)),
        (("limits", "time limit"), (12, 1), (12, 16)),
        (("limits", "inline"), (13, 1), (13, 10)),
        (("limits", "inline", "a", "b"), (13, 14), (13, 18)),
        (("limits", "inline", "c", 0, "d"), (13, 30), (13, 34)),
        (("rule",), (15, 3), (15, 3)),
        (("rule", 0, "name"), (16, 1), (16, 8)),
        (("rule", 1), (18, 3), (18, 3)),
        (("rule", 1, "name"), (19, 1), (19, 8)),
        (("rule", 1, "when"), (20, 7), (20, 7)),
        (("rule", 1, "when", "host"), (21, 1), (21, 8)),
    ],
)
def test_every_key_of_a_toml_file_has_its_place(keys, key, value) -> None:
    document = read_document(TOML, "corral.toml")

    assert document.position(keys) == Position(*key)
    assert document.value_position(keys) == Position(*value)


@pytest.mark.parametrize(
    ("keys", "key", "value"),
    [
        (("preset",), (2, 3), (2, 13)),
        (("filesystem",), (3, 3), (3, 17)),
        (("filesystem", "read"), (3, 18), (3, 26)),
        (("filesystem", "read", 0), (3, 27), (3, 27)),
        (("filesystem", "read", 1, "ab"), (3, 36), (3, 47)),
        (("filesystem", "read", 1, "ab", 1, 0), (3, 52), (3, 52)),
        (('é"',), (4, 3), (4, 10)),
    ],
)
def test_every_key_of_a_json_file_has_its_place(keys, key, value) -> None:
    document = read_document(JSON, "corral.json")

    assert document.position(keys) == Position(*key)
    assert document.value_position(keys) == Position(*value)


@pytest.mark.parametrize(
    ("keys", "nearest"),
    [
        ((), (1, 1)),
        (("nothing", "at", "all"), (1, 1)),
        (("filesystem", "write"), (4, 2)),
        (("filesystem", "read", 7), (5, 1)),
        (("rule", 1, "when", "port"), (20, 7)),
        (("rule", "1"), (15, 3)),
    ],
)
def test_what_is_not_there_is_looked_for_where_it_would_be(keys, nearest) -> None:
    assert read_document(TOML, "corral.toml").position(keys) == Position(*nearest)


def test_a_document_has_its_file_and_what_was_parsed() -> None:
    document = read_document('a.b = "c"', "some/corral.toml")

    assert document.file == "some/corral.toml"
    assert document.table == {"a": {"b": "c"}}


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_endings_and_byte_order_marks_move_nothing(ending: str, mark: str) -> None:
    document = read_document(mark + TOML.replace("\n", ending), "corral.toml")

    assert document.position(("limits", "inline", "c", 0, "d")) == Position(13, 30)
    assert document.position(("preset",)) == Position(2, 1)
    assert read_document(mark + JSON.replace("\n", ending), "a.JSON").position(("preset",)) == Position(2, 3)


@pytest.mark.parametrize(
    "value",
    [
        '"a \\" ] , } # b = \\\\"',
        "'a \" ] \\'",
        '""" a "" = ] \n b = 1 \\""" \\\n # """""',
        "''' a '' = ] \n b = 1 \\'''''",
        '""',
        "''",
        '""""""',
        "''''''",
        "1979-05-27 07:32:00Z",
        "-1.5e-3",
        "[ # ]\n 1, # ,\n [ ], {}, \n]",
    ],
)
def test_no_value_hides_what_follows_it(value: str) -> None:
    document = read_document(f"a = {value} # c\n  after = 1\n", "corral.toml")

    assert document.position(("after",)).column == 3
    assert document.position(("after",)).line == value.count("\n") + 2


def test_columns_count_characters() -> None:
    document = read_document('"äöü𝄞" = {"ß" = 1}', "corral.toml")

    assert document.position(("äöü𝄞", "ß")) == Position(1, 11)


def test_keys_are_found_by_what_they_mean() -> None:
    document = read_document("\"a\\u0062\" . 'c\\u0064' = 1", "corral.toml")

    assert document.position(("ab", "c\\u0064")) == Position(1, 13)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a = 1\nb = what\n", (2, 5)),
        ("a = 1\r\nb = what\r\n", (2, 5)),
        ("\ufeffb = what", (1, 5)),
        ("a = [1,\n", (2, 1)),
        ('a = "', (1, 6)),
        ("a = 1\na = 2", (2, 1)),
        ("a = 1\n  a = 2\nb = 3", (2, 3)),
        ("[a]\n[b]\n[a]\n", (3, 1)),
        ("a = { b = 1, b = 2 }", (1, 19)),
        ("a = 1\0", (1, 6)),
        ("é é", (1, 1)),
        ('a = "\ud800"', (1, 6)),
        ("a = 9223372036854775807\nb = 9223372036854775808", (2, 5)),
        ("a = '" + "1" * 99 + "'\nb = " + "1" * 5000, (2, 5)),
        ("a = 0x" + "f" * 5000, (1, 5)),
        ("a = [1,\n nan]", (2, 2)),
        ("a = -inf", (1, 5)),
        ("a = 1" + " " * MOST_BYTES, (1, 1)),
    ],
)
def test_a_mistake_in_a_toml_file_has_its_place(text: str, place: tuple[int, int]) -> None:
    assert place_of(text) == place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{\n "a": what}', (2, 7)),
        ('{"a": 1,\n "b": {"a": 1},\n "a": 2}', (3, 2)),
        ('{"a": {"b": 1, "\\u0062": 2}}', (1, 16)),
        ('{"a": {"b": 1}, "a": {"b": 1}}', (1, 17)),
        ('{"a": [0, NaN]}', (1, 11)),
        ('{"a": -Infinity}', (1, 7)),
        ('{"a": 1e999}', (1, 7)),
        ('{"a": ' + "1" * 5000 + "}", (1, 7)),
        ('{"a": "\\ud800"}', (1, 7)),
        ('{"\\ud800": 1}', (1, 2)),
        ('{"a": "\n"}', (1, 8)),
        ("", (1, 1)),
        ("[]", (1, 1)),
        ("3", (1, 1)),
    ],
)
def test_a_mistake_in_a_json_file_has_its_place(text: str, place: tuple[int, int]) -> None:
    assert place_of(text, "corral.json") == place


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("a = " + "[" * 100_000, "corral.toml"),
        ("a = " + "[" * 51 + "]" * 51, "corral.toml"),
        ("a = " + "{a=" * 100_000, "corral.toml"),
        ("a." * 500_000 + "a = 1", "corral.toml"),
        ("[" + "a ." * 300_000 + "a]", "corral.toml"),
        (f"[{'a.' * 40}a]\n{'a.' * 40}a = 1", "corral.toml"),
        ("a = " + f"{{{'a.' * 40}a = " * 45 + "1" + "}" * 45, "corral.toml"),
        ("[" * 500_000, "corral.json"),
        ('{"a":' * 100_000, "corral.json"),
        ('{"a":' * 51 + "1" + "}" * 51, "corral.json"),
    ],
)
@pytest.mark.timeout(20)
def test_a_document_is_not_nested_without_end(text: str, file: str) -> None:
    assert problem_of(text, file).what == f"this is nested more than {MOST_DEPTH} levels deep"


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "part", ['\\"""\n', "\\'''\n", '"', "'", '"\\', "'''a", "=#", "[", "a", "a.", "a=[1,", '"a".', "\\\n"]
)
@pytest.mark.parametrize("file", ["corral.toml", "corral.json"])
def test_no_text_takes_long(part: str, file: str) -> None:
    problem_of(part * (MOST_BYTES // len(part)), file)


def test_dots_in_texts_and_comments_are_no_levels() -> None:
    text = f"# {'a.' * 99}\na = ['{'a.' * 99}', {'1.5, ' * 99}]"

    assert len(read_document(text, "corral.toml").table["a"]) == 100


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('{"b": [1e999, {"x": NaN}],\n"a": 99999999999999999999}', [(1, 8), (1, 21), (2, 6)]),
        ('{"b": {"x": 1, "x": 2},\n"b": 3, "b": 4, "c": 5, "c": 6}', [(1, 16), (2, 1), (2, 9), (2, 25)]),
    ],
)
def test_every_mistake_of_a_kind_is_reported_at_once(text: str, places: list[tuple[int, int]]) -> None:
    with pytest.raises(DocumentProblems) as caught:
        read_document(text, "corral.json")

    assert [(problem.line, problem.column) for problem in caught.value.problems] == places


def test_a_problem_is_shown_with_place_and_remedy() -> None:
    with pytest.raises(DocumentProblems) as caught:
        read_document("preset = strict", "corral.toml")

    assert str(caught.value) == (
        'corral.toml:1:10: this is not TOML: Invalid value\n  fix: write a text in quotes: "..."'
    )


def test_a_name_with_a_line_feed_does_not_pass_for_a_line() -> None:
    assert len(Problem("a\nb", 1, 1, "c\nd", "e\nf").render().splitlines()) == 2


def test_problems_survive_pickling() -> None:
    with pytest.raises(DocumentProblems) as caught:
        read_document("=", "corral.toml")

    assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems
