"""limit.cpu-time: nobody enforces it yet, so asking for it is refused."""

from __future__ import annotations

import pytest

from corral.model.errors import UnenforceableError
from corral.model.feature import Feature
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox
from support.unclaimed import claiming_backends

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.confinement import Stage

pytestmark = pytest.mark.proves(Feature.LIMIT_CPU_TIME)


def test_no_backend_claims_it() -> None:
    """The day one does, this file has to become a proof in three legs."""
    assert claiming_backends(Feature.LIMIT_CPU_TIME) == []


@pytest.mark.parametrize("backend_name", ["auto", "native", "landlock"])
def test_asking_for_it_is_refused_and_nothing_runs(stage: Stage, backend_name: str) -> None:
    sandbox = Sandbox(build_policy("moderate", ["cpu:time:10s"]), backend=backend_name, workspace=stage.work)

    with pytest.raises(UnenforceableError) as refused:
        sandbox.run("touch ran")

    assert refused.value.exit_status == 3
    assert not refused.value.ran
    assert Feature.LIMIT_CPU_TIME.value in str(refused.value) or "limit" in str(refused.value)
    assert not (stage.work / "ran").exists()
