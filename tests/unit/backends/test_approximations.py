"""What backends only approximate: said in words, never claimed, and not lost when a probe is remembered."""

from __future__ import annotations

import pytest

from corral.backends.registry import get_backend
from corral.host import probes
from corral.linux.decode import decode
from corral.linux.landlock import NEWEST_ABI
from corral.model.errors import UnenforceableError
from corral.model.feature import Feature
from corral.model.probe import LaunchTrial
from corral.planning.select import select
from support.fake_host import FakeHost
from support.golden_cases import BY_GROUPS, LINUX, REPOSITORY, Case, plan_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.launch import Launch
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


class UnlockedHost(FakeHost):
    """It refuses the second user namespace."""

    def try_launch(self, spec: bytes) -> LaunchTrial:
        refused = LaunchTrial(False, "lock", 28, "a second user namespace")
        return refused if decode(spec).lock else super().try_launch(spec)

    def try_outer(self, launch: Launch) -> LaunchTrial:
        return self.try_launch(launch.spec or b"")


@pytest.mark.parametrize("uid", [0, 1000])
@pytest.mark.parametrize("name", ["native", "bubblewrap", "firejail"])
def test_where_mounts_cannot_be_locked_less_is_claimed_and_nothing_locked(name: str, uid: int) -> None:
    backend, case = get_backend(name), Case("any", files=REPOSITORY, uid=uid)
    claims = {}
    for host in (FakeHost(REPOSITORY, uid=uid), UnlockedHost(REPOSITORY, uid=uid)):
        probe = backend.probe(host)
        is_locked = decode(backend.lower(plan_of(case, probe), probe).spec or b"").lock
        claims[is_locked] = probe.enforces

    identity = {Feature.PROC_IDENTITY} if (name, uid) == ("native", 0) else set()
    assert claims[True] - claims[False] == {Feature.FS_DENY, Feature.FS_PROTECT} | identity
