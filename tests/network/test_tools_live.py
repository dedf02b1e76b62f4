"""The registry that pip uses on this machine, as a remote of its own: by the usual resolver, over real TLS.

No message of a test says its name; so what is asserted is taken out of the result first, which has it.
"""

from __future__ import annotations

import os

import pytest

from corral.model.container import Container
from corral.model.feature import Feature
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox
from support.confinement import INTERPRETER, PYTHON
from support.engines import ENGINES
from support.net_registry import PACKAGE, Registry, find_registry
from support.net_runs import EVERY, SITE_PACKAGES, Place
from support.probed import probe_of
from support.user_engines import CONTAINER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.model.result import Result

pytestmark = pytest.mark.thorough  # as quick as a server that others use as well
on_each = pytest.mark.parametrize("place", EVERY, indirect=True)


@pytest.fixture(scope="session")
def registry() -> Registry:
    """Asked before a test changes where pip looks for its configuration."""
    found, reason = find_registry()
    if found is None:
        pytest.skip(reason)
    return found


def _download(place: Place, registry: Registry, grants: Sequence[str]) -> Result:
    packages = (f"filesystem:read:{os.path.realpath(SITE_PACKAGES)}", f"env:set:PYTHONPATH={SITE_PACKAGES}")
    told = [f"env:set:PIP_INDEX_URL={registry.index}", f"env:set:PIP_CONFIG_FILE={os.devnull}"]
    if registry.certificates:
        (place.work / "trusted.pem").write_bytes(open(registry.certificates, "rb").read())
        told.append(f"env:set:PIP_CERT={place.work / 'trusted.pem'}")
    sandbox = Sandbox(
        build_policy("moderate", (*INTERPRETER, *packages, *told, *grants)),
        backend=place.backend,
        workspace=place.work,
        waive=frozenset(Feature) - probe_of(place.backend).enforces if place.is_proxied else (),
        container=CONTAINER if place.backend in ENGINES else Container(),
    )
    quiet = ("--no-cache-dir", "--no-deps", "--retries", "0", "--timeout", "30")
    return sandbox.run((PYTHON, "-m", "pip", "download", "-q", *quiet, "--dest", "got", PACKAGE))


@on_each
def test_what_is_granted_by_name_is_downloaded(registry: Registry, place: Place) -> None:
    result = _download(place, registry, (*registry.names, *registry.addresses))

    is_there = [path.suffix for path in (place.work / "got").glob(f"{PACKAGE}*")] == [".whl"]
    is_refused = any(found.feature in {Feature.NET_DOMAINS, Feature.NET_PORTS} for found in result.violations)
    assert not is_refused, "something was refused"
    assert is_there, "nothing was downloaded"
    received = result.network.received
    assert received > 1000


@on_each
def test_what_is_not_granted_is_not_even_looked_up(registry: Registry, place: Place) -> None:
    result = _download(place, registry, ("network:https:api.example.test",))

    is_named = any(registry.is_named_by(found.hint) for found in result.violations)
    is_ok, received = result.ok, result.network.received
    assert not is_ok
    assert list((place.work / "got").glob("*")) == []
    assert is_named, "what was refused is not reported"
    assert received == 0
