"""Laws of documents: what is written is read, from where it was written, and anything else is refused."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from corral.config.document import START, Document, DocumentProblems, read_document
from support.documents import JsonWriter, TomlWriter, Writer, dates, paths, plain, tables
from support.examples import examples

TYPE_CHECKING = False
if TYPE_CHECKING:
    from random import Random

JSON, TOML = "corral.json", "corral.toml"
json_tables = tables(plain | st.none())
toml_tables = tables(plain | dates)
randoms = st.randoms(use_true_random=False)
texts = st.text(st.characters())
fragments = st.one_of(
    st.sampled_from("\"'[]{}=.,:#\\\n\r\0\x7f\ufeff\ud800-_ae1T "),
    st.sampled_from(['"""', "'''", "[[", "]]", "a.b", "nan", "NaN", "\\ud800", "1979-05-27", "\\\n"]),
)


def written(writer: Writer, table: dict[str, object]) -> Writer:
    writer.document(table)
    return writer


def assert_places(document: Document, writer: Writer) -> None:
    for keys in paths(document.table):
        assert document.position(keys) == writer.keys[keys], keys
        assert document.value_position(keys) == writer.values[keys], keys


def read_or_refused(text: str, file: str) -> Document | None:
    """Every way out that there is; a refusal points into the text."""
    try:
        document = read_document(text, file)
    except DocumentProblems as refused:
        assert refused.problems
        lines = text.removeprefix("\ufeff").split("\n")
        for problem in refused.problems:
            assert problem.file == file
            assert problem.what
            assert problem.fix
            assert 1 <= problem.line <= len(lines)
            assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1
        return None
    for keys in paths(document.table):
        document.position(keys)
    return document


@examples(60)
@given(json_tables, randoms)
def test_what_is_written_as_json_is_read_from_its_place(table, random: Random) -> None:
    writer = written(JsonWriter(random), table)
    document = read_document(writer.text, JSON)

    assert document.table == table
    assert_places(document, writer)


@examples(60)
@given(json_tables, st.one_of(st.none(), st.integers(0, 9)), st.booleans())
def test_what_json_writes_is_read(table, indent: int | None, is_ascii: bool) -> None:
    text = json.dumps(table, indent=indent, ensure_ascii=is_ascii)

    assert read_document(text, JSON).table == table


@examples(60)
@given(toml_tables, randoms, st.booleans())
def test_what_is_written_as_toml_is_read_from_its_place(table, random: Random, has_returns: bool) -> None:
    writer = written(TomlWriter(random), table)
    text = writer.text.replace("\n", "\r\n") if has_returns else writer.text
    document = read_document(text, TOML)

    assert document.table == table
    assert_places(document, writer)


@given(st.sampled_from([JSON, TOML]), st.one_of(texts, st.lists(fragments).map("".join)))
@example(TOML, 'a = "\ud800"')
@example(JSON, '{"\\udfff": 1}')
@example(TOML, "\r")
def test_any_text_is_read_or_refused(file: str, text: str) -> None:
    read_or_refused(text, file)


@examples(60)
@given(st.sampled_from([JSON, TOML]), tables(plain), randoms, st.data())
def test_a_damaged_document_is_read_or_refused(file: str, table, random: Random, data) -> None:
    text = written(JsonWriter(random) if file == JSON else TomlWriter(random), table).text
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        removed = data.draw(st.integers(0, 3))
        text = text[:at] + data.draw(st.one_of(st.just(""), fragments)) + text[at + removed :]
    read_or_refused(text, file)


@given(
    json_tables, randoms, st.lists(st.one_of(st.text(max_size=2), st.integers(0, 3)), max_size=4).map(tuple)
)
def test_every_question_has_an_answer(table, random: Random, keys) -> None:
    """The nearest thing that is known, for what is not there."""
    writer = written(JsonWriter(random), table)
    document = read_document(writer.text, JSON)
    known = [keys[:length] for length in range(len(keys), 0, -1) if keys[:length] in writer.keys]

    assert document.position(keys) == (writer.keys[known[0]] if known else START)


@examples(60)
@given(json_tables, randoms, st.data())
def test_a_key_that_json_has_twice_is_found(table, random: Random, data) -> None:
    writer = written(JsonWriter(random), {"outer": table, **table})
    keys = data.draw(st.sampled_from(["outer", *table]))
    writer.text = writer.text.rstrip()[:-1] + ","
    writer.note(again := {}, keys=(keys,))
    text = f"{writer.text}{json.dumps(keys)}: 0}}"

    try:
        read_document(text, JSON)
    except DocumentProblems as refused:
        assert [(problem.line, problem.column) for problem in refused.problems] == [
            (place.line, place.column) for place in again.values()
        ]
    else:
        raise AssertionError("it was read")
