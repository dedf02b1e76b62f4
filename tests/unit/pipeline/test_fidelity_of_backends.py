"""The fidelity of a policy: the real mechanisms side by side, and what `run` would do."""

from __future__ import annotations

import pytest

from corral.backends.registry import BUILTIN, get_backend
from corral.model.errors import PolicyError, UnenforceableError
from corral.model.feature import RUNNER_FEATURES, RUNNER_MECHANISM, Feature
from corral.model.fidelity import Finding, Hold
from corral.policy.compose import build_policy
from corral.sandbox import Sandbox
from support.fake_host import FakeHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.fidelity import BackendFidelity, Fidelity

BEYOND_LANDLOCK = {Feature.FS_METADATA, Feature.FS_PROTECT, Feature.PROC_HIDDEN, Feature.PROC_CONTAINED}


def sandbox(*capabilities: str, preset: str = "moderate", host: FakeHost | None = None, **options) -> Sandbox:
    policy = build_policy(preset, capabilities)
    return Sandbox(policy, workspace="/home/ann/project", host=host or FakeHost(), **options)


def backend_of(found: Fidelity, name: str) -> BackendFidelity:
    return next(backend for backend in found.backends if backend.backend == name)


def finding_of(found: Fidelity, name: str, feature: Feature) -> Finding:
    return next(finding for finding in backend_of(found, name).findings if finding.feature is feature)


def test_every_known_backend_is_judged_in_the_order_of_the_registry() -> None:
    found = sandbox(backend="landlock").fidelity()

    assert [backend.backend for backend in found.backends] == list(BUILTIN)


def test_a_finding_is_made_for_each_feature_that_is_required() -> None:
    used = sandbox()
    required = used.explain("true").plan.requires
    defaults = {Feature.LIMIT_PIDS}  # for those backends only that can hold it

    for backend in used.fidelity().backends:
        if not backend.available:  # those of another platform
            continue
        assert {finding.feature for finding in backend.findings} | defaults == required | defaults


def test_the_mechanisms_are_those_of_the_launch() -> None:
    used = sandbox("process:none")
    launch = used.explain("true").launch

    for finding in backend_of(used.fidelity(), "native").findings:
        assert finding.hold is Hold.ENFORCED
        assert finding.how == (
            RUNNER_MECHANISM if finding.feature in RUNNER_FEATURES else launch.enforced[finding.feature]
        )


def test_what_a_backend_lacks_is_approximated_or_not_enforceable() -> None:
    found = sandbox().fidelity()
    landlock = backend_of(found, "landlock")

    assert {finding.feature for finding in landlock.lacking} == BEYOND_LANDLOCK
    assert finding_of(found, "landlock", Feature.FS_PROTECT) == Finding(
        Feature.FS_PROTECT, Hold.NOT_ENFORCEABLE, ""
    )
    assert finding_of(found, "landlock", Feature.PROC_HIDDEN).hold is Hold.APPROXIMATED
    assert not landlock.enforces_all
    assert backend_of(found, "native").enforces_all


def test_a_clause_is_held_no_better_than_the_weakest_that_it_needs() -> None:
    landlock = backend_of(sandbox().fidelity(), "landlock")

    assert landlock.hold_of({Feature.FS_READ}) is Hold.ENFORCED
    assert landlock.hold_of({Feature.FS_READ, Feature.PROC_HIDDEN}) is Hold.APPROXIMATED
    assert landlock.hold_of({Feature.FS_READ, Feature.PROC_HIDDEN, Feature.FS_PROTECT}) is (
        Hold.NOT_ENFORCEABLE
    )
    assert landlock.hold_of(()) is None


def test_a_default_is_held_by_those_backends_that_can_and_counts_against_none() -> None:
    for holds, expected in (
        (frozenset({Feature.LIMIT_PIDS}), Hold.ENFORCED),
        (frozenset[Feature](), Hold.NOT_ENFORCEABLE),
    ):
        host = FakeHost(holds=holds, uid=0, home="/root", tools={})
        found = sandbox(host=host).fidelity()
        clause = next(clause for clause in found.clauses if clause.text.startswith("pids:default:"))
        native = backend_of(found, "native")

        assert clause.features == (Feature.LIMIT_PIDS,)
        assert native.hold_of(clause.features) is expected
        assert native.enforces_all


def test_without_control_groups_the_supervisor_approximates_a_limit_of_memory() -> None:
    limited = sandbox("memory:limit:1g").fidelity()
    with_groups = sandbox(
        "memory:limit:1g", host=FakeHost(holds=frozenset({Feature.LIMIT_MEMORY}))
    ).fidelity()

    for name in ("native", "landlock"):
        alone, grouped = (finding_of(found, name, Feature.LIMIT_MEMORY) for found in (limited, with_groups))
        assert (alone.hold, alone.how) == (Hold.APPROXIMATED, "the launcher looks every few milliseconds")
        assert (grouped.hold, grouped.how) == (Hold.ENFORCED, "control group, version 2")


def test_without_control_groups_nobody_holds_a_limit_of_processor_time() -> None:
    limited = sandbox("cpu:time:10s", host=FakeHost(tools={})).fidelity()

    for name in ("native", "landlock"):
        assert finding_of(limited, name, Feature.LIMIT_CPU_TIME).hold is Hold.NOT_ENFORCEABLE
    assert limited.chosen == ""


def test_only_where_there_is_a_pid_1_is_a_share_of_the_processors_supervised() -> None:
    limited = sandbox("cpu:limit:50%").fidelity()

    assert finding_of(limited, "native", Feature.LIMIT_CPU).hold is Hold.APPROXIMATED
    assert finding_of(limited, "landlock", Feature.LIMIT_CPU).hold is Hold.NOT_ENFORCEABLE


def test_a_backend_that_does_not_work_says_why_and_has_no_findings() -> None:
    landlock = backend_of(sandbox(host=FakeHost(abi=0)).fidelity(), "landlock")

    assert (landlock.available, landlock.findings, landlock.enforces_all) == (False, (), False)
    assert "Landlock ABI 0" in landlock.reason
    assert landlock.fix


def test_what_only_this_plan_makes_impossible_is_found_as_well() -> None:
    """The probe claims ipc.private; with the host's network it needs a newer Landlock."""
    found = sandbox("network:full", host=FakeHost(abi=5)).fidelity()
    finding = finding_of(found, "native", Feature.IPC_PRIVATE)

    assert (finding.hold, found.chosen) == (Hold.NOT_ENFORCEABLE, "")
    assert "ABI 6" in finding.how
    assert found.reasons[0].startswith("native: ") and finding.how in found.reasons[0]
    assert found.reasons[1].startswith("landlock: cannot enforce ")
    assert {lack.feature for lack in backend_of(found, "native").lacking} == {Feature.IPC_PRIVATE}


def test_what_is_chosen_is_what_run_would_take() -> None:
    waive = [feature.value for feature in BEYOND_LANDLOCK]

    assert sandbox().fidelity().chosen == "native"
    assert sandbox(backend="none").fidelity().chosen == "none"
    assert sandbox(backend="landlock", waive=waive).fidelity().chosen == "landlock"


def test_a_refusal_is_told_with_its_reason_and_fix() -> None:
    found = sandbox(backend="landlock").fidelity()

    assert found.chosen == ""
    assert "fs.protect" in found.refusal
    assert "waive=" in found.fix


def test_a_waiver_changes_what_is_chosen_and_not_what_is_found() -> None:
    plain, waived = sandbox().fidelity(), sandbox(waive=["fs.protect"]).fidelity()

    assert waived.backends == plain.backends
    assert waived.waived == {Feature.FS_PROTECT}


def test_an_unknown_backend_is_an_error() -> None:
    with pytest.raises(PolicyError, match="no backend"):
        sandbox(backend="magic").fidelity()


def test_a_backend_that_gives_up_without_a_reason_counts_as_unavailable(monkeypatch) -> None:
    def give_up(*_: object) -> None:
        raise UnenforceableError("unenforceable", "it cannot be done", why="of the moon", fix="wait")

    monkeypatch.setattr(type(get_backend("landlock")), "lower", give_up)
    landlock = backend_of(sandbox().fidelity(), "landlock")

    assert (landlock.available, landlock.reason, landlock.fix) == (False, "of the moon", "wait")


def test_a_claim_without_a_mechanism_counts_as_none(monkeypatch) -> None:
    lower = type(get_backend("native")).lower

    def forget(self, plan, probe):
        launch = lower(self, plan, probe)
        return launch.replace(enforced={**launch.enforced, Feature.TERMINAL: ""})

    monkeypatch.setattr(type(get_backend("native")), "lower", forget)

    assert finding_of(sandbox().fidelity(), "native", Feature.TERMINAL).hold is Hold.NOT_ENFORCEABLE
