"""Laws of requests: whatever a policy says arrives, and nothing else is understood."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.model.errors import PolicyError
from corral.policy.remote_request import RemoteRequest, decode_request, encode_request
from support.policies import policies

#: As the system has them: any text, bytes that are not UTF-8 included.
texts = st.text(st.characters(exclude_categories=(), max_codepoint=0x1FFFF)).map(
    lambda text: text.encode("utf-8", "surrogateescape" if not _has_surrogate(text) else "replace").decode()
)
arguments = st.one_of(texts, st.binary().map(lambda data: data.decode("utf-8", "surrogateescape")))


def _has_surrogate(text: str) -> bool:
    return any(0xD800 <= ord(char) <= 0xDFFF for char in text)


requests = st.builds(
    RemoteRequest,
    run_id=st.text("0123456789abcdef", min_size=1, max_size=16),
    argv=st.lists(arguments, min_size=1, max_size=4).map(tuple),
    cwd=arguments,
    workspace=arguments,
    policy=policies(),
    waived=st.lists(st.sampled_from(["fs.read", "proc.hidden"]), max_size=2).map(tuple),
    terminal=st.booleans(),
)


@given(requests)
def test_a_request_arrives_as_it_was_sent(sent: RemoteRequest) -> None:
    text = encode_request(sent)

    assert text.isascii()
    assert text.isprintable()
    assert decode_request(text) == sent


@given(requests, requests)
def test_two_requests_are_never_spelled_alike(one: RemoteRequest, other: RemoteRequest) -> None:
    assert (encode_request(one) == encode_request(other)) == (one == other)


@given(requests, st.data())
def test_a_request_that_lacks_something_is_refused(sent: RemoteRequest, data: st.DataObject) -> None:
    fields = json.loads(encode_request(sent))
    holder = data.draw(st.sampled_from([fields, fields["policy"]]))
    del holder[data.draw(st.sampled_from(sorted(holder)))]

    with pytest.raises(PolicyError):
        decode_request(json.dumps(fields))


@given(requests, st.sampled_from(["v", "run_id", "argv", "waived", "policy", "terminal", "limits", "extra"]))
def test_a_request_with_something_else_in_its_place_is_refused(sent: RemoteRequest, name: str) -> None:
    for other in (None, 7, {"x": 1}, "../x y", [1]):
        fields = json.loads(encode_request(sent))
        if name == "limits":
            fields["policy"]["limits"]["pids"] = True if other in (None, 7) else other
        else:
            fields[name] = other

        with pytest.raises(PolicyError):
            decode_request(json.dumps(fields))


@given(arguments)
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(PolicyError):
        decode_request(text)
