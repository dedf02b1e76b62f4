"""Answers: whatever a worker says is a value, an error of ours, or nothing; and bounded in every way."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest

from corral.model.errors import CallError, RemoteError
from corral.parallel.calls.answer import Answer
from corral.parallel.calls.codec import Bounds, encode

TOKEN = b"t" * 16
DONE = SimpleNamespace(ok=True)


def _answer(said: bytes, **bounds: int) -> object:
    answer = Answer(TOKEN, Bounds(**bounds), None)
    for start in range(0, len(said), 7):
        answer.take("stdout", said[start : start + 7])
    return answer.conclude(DONE)


def test_a_value_comes_back() -> None:
    assert _answer(encode((TOKEN, "value", {"a": [1, (2,)]}))) == {"a": [1, (2,)]}


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"garbage",
        pickle.dumps((TOKEN, "value", 1)),
        encode((b"u" * 16, "value", 1)),  # of another call
        encode((TOKEN, "value", 1)) * 2,
        encode((TOKEN, "value", 1))[:-1],
        encode((TOKEN, "value")),
        encode((TOKEN, "value", 1, 2)),
        encode((TOKEN, "raised", "ValueError", "text")),
        encode((TOKEN, "raised", "ValueError", 3, "")),
        encode((TOKEN, "refused", None)),
        encode((TOKEN, "import", "os")),
        encode({"token": TOKEN}),
        encode(None),
    ],
)
def test_what_is_no_answer_to_this_call_is_an_error(said: bytes) -> None:
    with pytest.raises(CallError) as caught:
        _answer(said)

    assert (caught.value.code, caught.value.ran) == ("bad-answer", True)


def test_an_answer_without_end_is_not_kept() -> None:
    answer = Answer(TOKEN, Bounds(size=1000), None)
    piece = b"x" * 65_536

    with pytest.raises(CallError) as caught:
        for _ in range(1000):
            answer.take("stdout", piece)

    assert caught.value.code == "answer-too-large"
    assert len(answer._said) == 0


def test_the_class_that_a_worker_names_is_text() -> None:
    said = encode((TOKEN, "raised", "os.system", "touch mark", "Traceback:\n  x\n"))

    with pytest.raises(RemoteError) as caught:
        _answer(said)

    error = caught.value
    assert (error.type_name, error.message, error.traceback) == (
        "os.system",
        "touch mark",
        "Traceback:\n  x\n",
    )
    assert "Traceback:\n  x" in str(error.__cause__)
    assert pickle.loads(pickle.dumps(error.with_traceback(None))).code == "remote-error"


def test_what_is_shown_of_an_error_is_printable_and_has_an_end() -> None:
    hostile = "\x1b[2J\r\u202e\ud800" * 50_000

    with pytest.raises(RemoteError) as caught:
        _answer(encode((TOKEN, "raised", hostile, hostile, hostile), Bounds()))

    shown = str(caught.value) + str(caught.value.__cause__)
    assert len(shown) < 1_000_000
    assert all(letter.isprintable() or letter in "\n\t" for letter in shown)


def test_what_the_function_printed_goes_where_it_was_asked_for() -> None:
    heard: list[bytes] = []
    answer = Answer(TOKEN, Bounds(), heard.append)
    answer.take("stderr", b"hello")
    answer.take("stdout", encode((TOKEN, "value", 1)))

    assert (answer.conclude(DONE), heard) == (1, [b"hello"])
