"""net.except: nobody keeps hosts away from an open network, so asking for it is refused."""

from __future__ import annotations

import pytest

from corral.model.errors import UnenforceableError
from corral.model.feature import Feature
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox
from support.unclaimed import claiming_backends, explains

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Stage

pytestmark = pytest.mark.proves(Feature.NET_EXCEPT)


def test_no_backend_claims_it() -> None:
    """The day one does, this file has to become a proof in three legs."""
    assert claiming_backends(Feature.NET_EXCEPT) == []


@pytest.mark.parametrize("more", ["network:deny:example.org", "traffic:limit:1MB", "traffic:rate:1MB"])
@pytest.mark.parametrize("backend_name", ["auto", "native", "landlock"])
def test_asking_for_it_is_refused_and_nothing_runs(stage: Stage, backend_name: str, more: str) -> None:
    wanted = ["network:full", more]
    sandbox = Sandbox(build_policy("moderate", wanted), backend=backend_name, workspace=stage.work)

    with pytest.raises(UnenforceableError) as refused:
        sandbox.run("touch ran")

    assert refused.value.exit_status == 3
    assert not refused.value.ran
    assert explains(str(refused.value), Feature.NET_EXCEPT, backend_name)
    assert not (stage.work / "ran").exists()
