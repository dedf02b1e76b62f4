"""Ids of a command's own: taken where they are nobody's, and refused where it could not work with them."""

from __future__ import annotations

import pytest

from corral.backends.registry import get_backend
from corral.model.errors import UnenforceableError
from corral.model.feature import Feature
from corral.model.plan import TrialLayers
from support.fake_host import FakeHost
from support.golden_cases import REPOSITORY, Case, plan_of

FIRST, COUNT = 1879048192, 65536
OWN_IDS = Feature.PROC_IDENTITY


@pytest.mark.parametrize("file", ["/etc/subuid", "/etc/subgid"])
@pytest.mark.parametrize(
    ("line", "is_free"),
    [
        (f"ann:{FIRST - 10}:10", True),
        (f"ann:{FIRST - 10}:11", False),
        (f"ann:{FIRST + COUNT - 1}:10", False),
        (f"ann:{FIRST + COUNT}:10", True),
        ("ann:1:4294967294", False),
        ("ann:nothing:of the kind", True),
    ],
)
def test_ids_that_somebody_hands_out_are_not_taken(file: str, line: str, is_free: bool) -> None:
    host = FakeHost({**REPOSITORY, file: f"bob:100000:65536\n{line}\n"}, uid=0)

    assert (OWN_IDS in get_backend("native").probe(host).enforces) is is_free


def test_where_a_command_could_not_work_with_them_it_is_refused() -> None:
    native = get_backend("native")
    probe = native.probe(FakeHost(REPOSITORY, uid=0))
    case = Case("any", files=REPOSITORY, uid=0, capabilities=(f"feature:require:{OWN_IDS.value}",))
    plan = plan_of(case, probe)
    command, resolved = plan.command, plan.resolved
    assert native.lower(plan, probe).spec  # the control

    for other in (
        plan.replace(command=command.replace(keeps=True)),
        plan.replace(command=command.replace(trial=TrialLayers("/work", "/state/upper", "/state/work"))),
        plan.replace(resolved=resolved.replace(unmappable=(("/home/ann/project", "overlay"),))),
    ):
        with pytest.raises(UnenforceableError) as refused:
            native.lower(other, probe)
        assert refused.value.lacking == {OWN_IDS}
