"""Laws of choosing a backend."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from corral.model.errors import UnenforceableError
from corral.model.feature import Feature
from corral.model.probe import Probe
from corral.planning.select import select

features = st.frozensets(st.sampled_from(Feature), max_size=8)
probes = st.lists(
    st.builds(
        Probe,
        st.sampled_from(["native", "landlock", "bubblewrap"]),
        st.booleans(),
        st.one_of(features, st.just(frozenset(Feature))),
        st.just("it is not installed"),
    ),
    max_size=5,
)


def _chosen(needed: frozenset[Feature], offered: list[Probe]) -> Probe | None:
    try:
        return select(needed, offered)
    except UnenforceableError:
        return None


@given(features, probes)
def test_the_chosen_backend_enforces_everything_or_there_is_none(needed, offered) -> None:
    chosen = _chosen(needed, offered)
    able = [probe for probe in offered if probe.available and needed <= probe.enforces]

    assert chosen in able if able else chosen is None


@given(features, probes)
def test_an_earlier_backend_is_never_passed_over(needed, offered) -> None:
    chosen = _chosen(needed, offered)
    if chosen is None:
        return
    earlier = offered[: next(at for at, probe in enumerate(offered) if probe is chosen)]

    assert not any(probe.available and needed <= probe.enforces for probe in earlier)


@given(features, features, features, probes)
def test_waiving_more_never_turns_acceptance_into_refusal(needed, waived, more, offered) -> None:
    if _chosen(needed - waived, offered) is not None:
        assert _chosen(needed - waived - more, offered) is not None


@given(features, features, probes)
def test_requiring_more_never_turns_refusal_into_acceptance(needed, more, offered) -> None:
    if _chosen(needed, offered) is None:
        assert _chosen(needed | more, offered) is None


@given(features, probes)
def test_a_refusal_names_every_backend_that_was_tried(needed, offered) -> None:
    try:
        select(needed, offered)
    except UnenforceableError as refused:
        assert all(f"{probe.backend}: " in refused.why for probe in offered)
        assert refused.fix


@given(features, probes)
def test_no_probe_is_taken_after_the_one_that_is_chosen(needed, offered) -> None:
    """Probing takes time: what comes after the choice is not asked."""
    taken = []

    def asking():
        for probe in offered:
            taken.append(probe)
            yield probe

    try:
        chosen = select(needed, asking())
    except UnenforceableError:
        assert taken == offered
    else:
        assert taken[-1] is chosen
