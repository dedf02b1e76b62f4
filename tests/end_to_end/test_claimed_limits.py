"""What each backend claims here, name by name: a claim that is lost would turn its proofs into skips."""

from __future__ import annotations

import pytest

from corral.backends.registry import get_backend
from corral.host.real import RealHost
from corral.model.feature import Feature

NOBODY_YET = {Feature.NET_EXCEPT}
#: The supervisor approximates some of these where there are no control groups.
BY_CONTROL_GROUP = {Feature.LIMIT_MEMORY, Feature.LIMIT_CPU, Feature.LIMIT_CPU_TIME, Feature.LIMIT_PIDS}
BEYOND_LANDLOCK = {
    *(Feature.FS_DENY, Feature.FS_METADATA, Feature.FS_PROTECT, Feature.FS_TRIAL),
    *(Feature.PROC_HIDDEN, Feature.PROC_CONTAINED, Feature.PROC_IDENTITY),
    *(Feature.LIMIT_DISK, Feature.LIMIT_DISK_FILES),
}


@pytest.mark.parametrize("name", ["native", "landlock"])
def test_the_claims_are_the_known_ones(name: str, request: pytest.FixtureRequest) -> None:
    host = RealHost()
    probe = get_backend(name).probe(host)
    if not probe.available or host.landlock_abi() < 6:
        required = request.config.getoption("--require").split(",")
        (pytest.fail if name in required else pytest.skip)(probe.reason or "an older Landlock claims less")

    by_group = {feature for enforcer in host.enforcers() for feature in enforcer.holds}
    beyond = BEYOND_LANDLOCK if name == "landlock" else set() if host.uid == 0 else {Feature.PROC_IDENTITY}
    by_rlimit = {Feature.LIMIT_PIDS} if name == "native" and host.uid != 0 else set()
    unproved = BY_CONTROL_GROUP - by_group - by_rlimit
    assert probe.enforces == frozenset(Feature) - NOBODY_YET - beyond - unproved
