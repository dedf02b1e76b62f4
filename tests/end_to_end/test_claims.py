"""What each backend claims here, name by name: a claim that is lost would turn its proofs into skips."""

from __future__ import annotations

import pytest

from corral.backends.registry import get_backend
from corral.host import RealHost
from corral.model.feature import Feature

NOBODY_YET = {Feature.NET_PORTS, Feature.NET_DOMAINS, Feature.LIMIT_CPU_TIME, Feature.LIMIT_DISK}
BY_CONTROL_GROUP = {"memory": Feature.LIMIT_MEMORY, "cpu": Feature.LIMIT_CPU, "pids": Feature.LIMIT_PIDS}
BEYOND_LANDLOCK = {
    *(Feature.FS_DENY, Feature.FS_METADATA, Feature.FS_PROTECT),
    *(Feature.PROC_HIDDEN, Feature.PROC_CONTAINED),
}


@pytest.mark.parametrize("name", ["native", "landlock"])
def test_the_claims_are_the_known_ones(name: str, request: pytest.FixtureRequest) -> None:
    host = RealHost()
    probe = get_backend(name).probe(host)
    if not probe.available or host.landlock_abi() < 6:
        required = request.config.getoption("--require").split(",")
        (pytest.fail if name in required else pytest.skip)(probe.reason or "an older Landlock claims less")

    groups = {BY_CONTROL_GROUP[controller] for controller in host.cgroup_controllers()}
    limits = groups | ({Feature.LIMIT_PIDS} if name == "native" and host.uid != 0 else set())
    beyond = BEYOND_LANDLOCK if name == "landlock" else set()
    unproved = set(BY_CONTROL_GROUP.values()) - limits
    assert probe.enforces == frozenset(Feature) - NOBODY_YET - beyond - unproved
