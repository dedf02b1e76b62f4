"""The last gate: a launch that leaves a required feature without a mechanism does not run."""

from __future__ import annotations

import pytest

from corral.linux.spec import MAX_BYTES
from corral.model.errors import BugError, SetupError, UnenforceableError
from corral.model.feature import RUNNER_FEATURES, Feature
from corral.runtime.check import check
from corral.runtime.run import Run


@pytest.mark.parametrize(
    "feature", sorted(frozenset(Feature) - RUNNER_FEATURES, key=lambda feature: feature.value)
)
def test_a_backend_that_forgets_a_feature_is_stopped(make_plan, make_launch, feature, tmp_path) -> None:
    mark = tmp_path / "ran"
    plan = make_plan(("/usr/bin/touch", str(mark)), requires=frozenset({feature}))

    with pytest.raises(BugError, match=feature.value) as stopped:
        Run(plan, make_launch(plan), quarantine=str(tmp_path)).run()

    assert not stopped.value.ran
    assert not mark.exists()


def test_a_mechanism_without_a_name_is_none(make_plan, make_launch) -> None:
    plan = make_plan(requires=frozenset({Feature.SYSCALLS}))

    with pytest.raises(BugError):
        check(plan, make_launch(plan, enforced={Feature.SYSCALLS: ""}))


def test_what_is_waived_or_named_or_the_runners_own_passes(make_plan, make_launch) -> None:
    features = frozenset({Feature.SYSCALLS, Feature.FS_DENY, *RUNNER_FEATURES})
    plan = make_plan(requires=features, waived=frozenset({Feature.FS_DENY}))

    check(plan, make_launch(plan, enforced={Feature.SYSCALLS: "seccomp"}))


def test_more_than_the_launcher_reads_is_refused_in_words(make_plan, make_launch) -> None:
    plan = make_plan()

    with pytest.raises(SetupError) as refused:
        check(plan, make_launch(plan, spec=b"x" * (MAX_BYTES + 1)))

    assert refused.value.code == "too-much" and "fewer repositories" in refused.value.fix


def test_nothing_starts_where_the_runner_could_not_watch_over_it(make_plan, make_launch, monkeypatch) -> None:
    """On macOS: there is no way yet to notice that a command has ended."""
    monkeypatch.delattr("os.pidfd_open")
    plan = make_plan()

    with pytest.raises(UnenforceableError) as refused:
        check(plan, make_launch(plan))

    assert refused.value.code == "platform"
