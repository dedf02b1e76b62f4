"""What backends only approximate: said in words, never claimed, and not lost when a probe is remembered."""

from __future__ import annotations

import pytest

from corral import probes
from corral.backends.registry import get_backend
from corral.linux.landlock import NEWEST_ABI
from corral.model.errors import UnenforceableError
from corral.planning.select import select
from support.fake_host import FakeHost
from support.golden_cases import BY_GROUPS, LINUX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.probe import Probe

HOSTS = [
    FakeHost(uid=uid, holds=holds, abi=abi)
    for uid in (0, 1000)
    for holds in (frozenset(), BY_GROUPS)
    for abi in range(NEWEST_ABI + 1)
]


def probes_of(name: str) -> list[Probe]:
    return [probe for probe in map(get_backend(name).probe, HOSTS) if probe.available]


@pytest.mark.parametrize("name", LINUX)
def test_nothing_is_both_enforced_and_approximated(name: str) -> None:
    found = probes_of(name)

    assert found
    for probe in found:
        assert dict(probe.approximates).keys() & probe.enforces == set()


@pytest.mark.parametrize("name", LINUX)
def test_every_approximation_says_once_and_in_one_line_what_is_done(name: str) -> None:
    for probe in probes_of(name):
        assert len(dict(probe.approximates)) == len(probe.approximates)
        assert all(how and how.isprintable() for _, how in probe.approximates)


@pytest.mark.parametrize("name", LINUX)
def test_a_remembered_probe_is_the_one_that_was_found(name: str) -> None:
    for probe in probes_of(name):
        assert probes._decode(probes._encode(probe, "key"), "key", name) == probe


def test_an_approximation_does_not_count_as_enforced() -> None:
    probe = get_backend("landlock").probe(FakeHost())

    for feature, _ in probe.approximates:
        with pytest.raises(UnenforceableError):
            select(frozenset({feature}), [probe])
