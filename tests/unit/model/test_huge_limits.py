"""Limits beyond all reason: refused with a sentence, or carried out; never a traceback."""

from __future__ import annotations

import pytest

from corral.backends.registry import get_backend
from corral.model.errors import PolicyError
from corral.policy.compose import build_policy
from support.golden_cases import Case, fake_probe, plan_of

KINDS = ("memory", "time", "output", "file", "files", "pids", "cpu", "disk")
HUGE = ("9" * 12, "9" * 20, "9" * 40, "9" * 400)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", HUGE, ids=["12 digits", "20 digits", "40 digits", "400 digits"])
def test_a_number_too_large_is_refused_or_carried_out(kind: str, number: str) -> None:
    capability = f"{kind}:limit:{number}"
    try:
        build_policy("moderate", [capability])
    except PolicyError:
        return
    probe = fake_probe("native")

    assert get_backend("native").lower(plan_of(Case("x", capabilities=(capability,)), probe), probe).spec


@pytest.mark.parametrize("kind", KINDS)
def test_no_limit_is_more_than_the_kernel_can_count(kind: str) -> None:
    """Sizes are signed 64-bit numbers there, and so are the launcher's milliseconds."""
    with pytest.raises(PolicyError):
        build_policy("moderate", [f"{kind}:limit:{2**64}"])
