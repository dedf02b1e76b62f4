"""Laws of capability strings: the canonical text is a fixed point, and every text is read or refused."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from corral.model.errors import CapabilitySyntaxError
from corral.model.policy import Policy
from corral.model.rules.capability import _VERBS, PolicyDraft, parse_capability

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
numbers = st.text("0123456789.", min_size=1, max_size=8)
targets = st.one_of(
    texts,
    texts.map(lambda text: f"/{text}"),
    texts.map(lambda text: f"~/{text}"),
    texts.map(lambda text: f"${{workspace}}/{text}"),
    texts.map(lambda text: f"NAME={text}"),
    st.builds(
        lambda number, unit: number + unit,
        numbers,
        st.sampled_from(["", "k", "MB", "GiB", "%", "s", "ms", "h"]),
    ),
)


@st.composite
def capabilities(draw: st.DrawFn) -> str:
    """Texts that are capabilities more often than not."""
    kind = draw(st.sampled_from(sorted(_VERBS)))
    verb = draw(st.sampled_from(sorted(_VERBS[kind])))
    return f"{kind}:{verb}" if _VERBS[kind][verb] is None else f"{kind}:{verb}:{draw(targets)}"


@given(capabilities())
@example("time:limit:0.4ms")
@example("cpu:limit:0.0000001")
@example("filesystem:read:/a//b/")
@example("filesystem:read://")
@example("network:https:Example.ORG.")
def test_the_canonical_text_means_the_same_capability(text: str) -> None:
    try:
        capability = parse_capability(text)
    except CapabilitySyntaxError:
        return

    assert parse_capability(str(capability)) == capability


@given(capabilities())
@example("time:limit:0.4ms")
@example("cpu:limit:0.0000001")
def test_what_can_be_read_can_be_taken_into_a_policy(text: str) -> None:
    try:
        capability = parse_capability(text)
    except CapabilitySyntaxError:
        return
    draft = PolicyDraft(Policy())
    draft.add(capability)

    assert draft.build() != Policy() or text in {"network:none", "process:none"}


@given(st.one_of(st.text(), capabilities()))
def test_a_text_is_read_or_refused_at_one_of_its_columns(text: str) -> None:
    try:
        parse_capability(text)
    except CapabilitySyntaxError as refused:
        assert refused.text == text
        assert 1 <= refused.column <= len(text) + 2
        assert refused.why
        assert refused.fix


@given(st.lists(capabilities(), max_size=5))
def test_saying_everything_twice_says_nothing_new(parts: list[str]) -> None:
    read = []
    for text in parts:
        try:
            read.append(parse_capability(text))
        except CapabilitySyntaxError:
            continue
    once, twice = PolicyDraft(Policy()), PolicyDraft(Policy())
    for capability in read:
        once.add(capability)
    for capability in (*read, *read):
        twice.add(capability)
    if any(capability.kind == "network" for capability in read):
        return  # the last word about the network counts

    assert once.build() == twice.build()
