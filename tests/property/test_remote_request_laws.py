"""Laws of errands: whatever a policy says arrives, and nothing else is understood."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.model.errors import PolicyError
from corral.policy.errand import Errand, decode_errand, encode_errand
from support.policies import policies

#: As the system has them: any text, bytes that are not UTF-8 included.
texts = st.text(st.characters(exclude_categories=(), max_codepoint=0x1FFFF)).map(
    lambda text: text.encode("utf-8", "surrogateescape" if not _has_surrogate(text) else "replace").decode()
)
arguments = st.one_of(texts, st.binary().map(lambda data: data.decode("utf-8", "surrogateescape")))


def _has_surrogate(text: str) -> bool:
    return any(0xD800 <= ord(char) <= 0xDFFF for char in text)


errands = st.builds(
    Errand,
    run_id=st.text("0123456789abcdef", min_size=1, max_size=16),
    argv=st.lists(arguments, min_size=1, max_size=4).map(tuple),
    cwd=arguments,
    workspace=arguments,
    policy=policies(),
    waived=st.lists(st.sampled_from(["fs.read", "proc.hidden"]), max_size=2).map(tuple),
    terminal=st.booleans(),
)


@given(errands)
def test_an_errand_arrives_as_it_was_sent(errand: Errand) -> None:
    text = encode_errand(errand)

    assert text.isascii()
    assert text.isprintable()
    assert decode_errand(text) == errand


@given(errands, errands)
def test_two_errands_are_never_spelled_alike(one: Errand, other: Errand) -> None:
    assert (encode_errand(one) == encode_errand(other)) == (one == other)


@given(errands, st.data())
def test_an_errand_that_lacks_something_is_refused(errand: Errand, data: st.DataObject) -> None:
    fields = json.loads(encode_errand(errand))
    holder = data.draw(st.sampled_from([fields, fields["policy"]]))
    del holder[data.draw(st.sampled_from(sorted(holder)))]

    with pytest.raises(PolicyError):
        decode_errand(json.dumps(fields))


@given(errands, st.sampled_from(["v", "run_id", "argv", "waived", "policy", "terminal", "limits", "extra"]))
def test_an_errand_with_something_else_in_its_place_is_refused(errand: Errand, name: str) -> None:
    for other in (None, 7, {"x": 1}, "../x y", [1]):
        fields = json.loads(encode_errand(errand))
        if name == "limits":
            fields["policy"]["limits"]["pids"] = True if other in (None, 7) else other
        else:
            fields[name] = other

        with pytest.raises(PolicyError):
            decode_errand(json.dumps(fields))


@given(arguments)
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(PolicyError):
        decode_errand(text)
