"""What fuzzing has found worth keeping still holds."""

from __future__ import annotations

import pytest
from targets import TARGETS, read_corpus, to_bytes, to_text


@pytest.mark.parametrize("target", TARGETS)
def test_no_recorded_input_breaks_a_promise(target: str) -> None:
    inputs = read_corpus(target)
    for data in inputs:
        TARGETS[target](data)

    assert len(inputs) > 50


def test_every_input_has_a_text_of_its_own() -> None:
    everything = bytes(range(256)) + "é𝄞".encode()

    assert to_bytes(to_text(everything)) == everything
