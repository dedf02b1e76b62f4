"""Who holds which limit: the best that a host was proved to have, and what each of them is told."""

from __future__ import annotations

import pytest

from corral.backends._limits import (
    Holders,
    find_holders,
    group_request,
    mechanisms,
    read_holders,
    rlimits,
    watch_request,
)
from corral.linux.spec import LimitWatch, Rlimit
from corral.model.enforcer import CGROUP1, CGROUP2, RLIMIT, SUPERVISOR, SYSTEMD, Enforcer
from corral.model.feature import Feature
from corral.model.launch import GroupRequest
from corral.model.policy import Limits
from corral.model.probe import Probe
from support.fake_host import FakeHost

MEMORY, CPU, TIME, PIDS = (
    Feature.LIMIT_MEMORY,
    Feature.LIMIT_CPU,
    Feature.LIMIT_CPU_TIME,
    Feature.LIMIT_PIDS,
)
ALL = frozenset({MEMORY, CPU, TIME, PIDS})
FULL = Limits(memory_bytes=1 << 20, cpus=0.5, pids=10, cpu_seconds=30.0)
SUPERVISED = Holders(((MEMORY, SUPERVISOR), (CPU, SUPERVISOR), (PIDS, SUPERVISOR)))


class Host(FakeHost):
    """Has the enforcers that it is given."""

    def __init__(self, *enforcers: Enforcer, uid: int = 1000) -> None:
        super().__init__(uid=uid)
        self._enforcers = enforcers

    def enforcers(self) -> tuple[Enforcer, ...]:
        return self._enforcers


def by_whom(holders: Holders) -> dict[Feature, str]:
    return dict(holders.pairs)


# ---- who holds what


@pytest.mark.parametrize(
    ("uid", "namespaced", "held"),
    [
        (1000, True, {PIDS: RLIMIT, MEMORY: SUPERVISOR, CPU: SUPERVISOR}),
        (1000, False, {PIDS: SUPERVISOR, MEMORY: SUPERVISOR}),
        (0, True, {PIDS: SUPERVISOR, MEMORY: SUPERVISOR, CPU: SUPERVISOR}),
        (0, False, {PIDS: SUPERVISOR, MEMORY: SUPERVISOR}),
    ],
)
@pytest.mark.parametrize("enforcers", [(), (Enforcer(CGROUP2, frozenset(), "none is writable"),)])
def test_without_groups_the_kernel_or_the_supervisor_holds_what_it_can(
    uid: int, namespaced: bool, held: dict[Feature, str], enforcers: tuple[Enforcer, ...]
) -> None:
    """Root's processes are not counted by RLIMIT_NPROC; without PID 1 nobody can stop all at once."""
    holders = find_holders(Host(*enforcers, uid=uid), namespaced=namespaced)

    assert (by_whom(holders), holders.counting) == (held, "")
    assert TIME not in by_whom(holders)
    assert holders.claims == {feature for feature, name in held.items() if name != SUPERVISOR}


@pytest.mark.parametrize("name", [CGROUP1, CGROUP2, SYSTEMD])
@pytest.mark.parametrize("uid", [0, 1000])
@pytest.mark.parametrize("namespaced", [True, False])
def test_groups_hold_all_that_they_can(name: str, uid: int, namespaced: bool) -> None:
    holders = find_holders(Host(Enforcer(name, ALL), uid=uid), namespaced=namespaced)

    assert by_whom(holders) == dict.fromkeys(ALL, name)
    assert holders.counting == ("" if name == SYSTEMD else name)  # a scope is too dear for accounts alone


def test_what_a_group_does_not_hold_others_do() -> None:
    holders = find_holders(Host(Enforcer(CGROUP2, frozenset({TIME, PIDS}))), namespaced=True)

    assert by_whom(holders) == {TIME: CGROUP2, PIDS: CGROUP2, MEMORY: SUPERVISOR, CPU: SUPERVISOR}


def test_a_run_has_one_group_the_first_that_holds_anything() -> None:
    holders = find_holders(
        Host(
            Enforcer(CGROUP1, frozenset(), "not ours"),
            Enforcer(CGROUP2, frozenset({PIDS})),
            Enforcer(SYSTEMD, ALL),
        ),
        namespaced=False,
    )

    assert by_whom(holders) == {PIDS: CGROUP2, MEMORY: SUPERVISOR}
    assert holders.counting == CGROUP2


@pytest.mark.parametrize("holders", [SUPERVISED, Holders(()), Holders(((TIME, CGROUP1),), CGROUP1)])
def test_they_survive_as_facts_of_a_probe(holders: Holders) -> None:
    again = read_holders(Probe("native", True, details=holders.details()))

    assert (by_whom(again), again.counting) == (by_whom(holders), holders.counting)


def test_an_enforcer_is_found_by_its_limit() -> None:
    assert (SUPERVISED.of(MEMORY), SUPERVISED.of(TIME)) == (SUPERVISOR, "")
    assert SUPERVISED.claims == frozenset()
    assert dict(SUPERVISED.approximates).keys() == {MEMORY, CPU, PIDS}


# ---- the control group


def requested(limits: Limits, holders: Holders) -> GroupRequest | None:
    return group_request(limits, holders, launcher_pids=1, ends_by_group=True)


def test_a_group_is_asked_for_the_limits_that_it_holds() -> None:
    holders = Holders(((TIME, CGROUP1), (PIDS, CGROUP1), (MEMORY, SUPERVISOR), (CPU, SUPERVISOR)), CGROUP1)

    assert requested(FULL, holders) == GroupRequest(
        CGROUP1, pids=10, cpu_seconds=30.0, launcher_pids=1, ends_by_group=True
    )


def test_without_a_limit_a_group_counts_and_can_be_done_without() -> None:
    found = requested(Limits(), Holders(((PIDS, CGROUP2),), CGROUP2))

    assert found == GroupRequest(CGROUP2, launcher_pids=1, ends_by_group=True)
    assert not found.is_needed
    assert requested(Limits(), Holders(((PIDS, SYSTEMD),))) is None


def test_without_groups_none_is_asked_for() -> None:
    assert requested(FULL, SUPERVISED) is None


@pytest.mark.parametrize("limit", ["memory_bytes", "cpus", "pids", "cpu_seconds"])
def test_a_group_with_a_limit_is_needed(limit: str) -> None:
    assert GroupRequest(CGROUP2, **{limit: 1}).is_needed  # type: ignore[arg-type]


# ---- the launcher's own watch


@pytest.mark.parametrize(
    ("share", "processors", "permille", "used"),
    [
        (0.001, 1, 1, 1),
        (0.001, 4, 1, 1),
        (0.5, 1, 500, 1),
        (0.5, 2, 500, 1),
        (0.5, 4, 500, 1),
        (1, 1, 0, 0),  # all there is
        (1, 2, 1000, 1),
        (1, 4, 1000, 1),
        (1.5, 1, 0, 0),
        (1.5, 2, 750, 2),
        (1.5, 4, 750, 2),
        (2, 1, 0, 0),
        (2, 2, 0, 0),
        (2, 4, 1000, 2),
        (3.9, 4, 975, 4),
        (100, 1, 0, 0),
        (100, 2, 0, 0),
        (100, 4, 0, 0),
    ],
)
def test_a_share_is_a_part_of_the_time_on_few_processors(
    share: float, processors: int, permille: int, used: int
) -> None:
    found = watch_request(Limits(cpus=share), SUPERVISED, processors=processors)

    assert (found or LimitWatch()) == LimitWatch(0, 0, permille, used)
    assert (found is None) == (permille == 0)


def test_memory_and_processes_are_watched_as_they_are() -> None:
    assert watch_request(Limits(memory_bytes=1 << 30, pids=5), SUPERVISED, processors=4) == LimitWatch(
        1 << 30, 5
    )


def test_what_somebody_else_holds_is_not_watched() -> None:
    holders = Holders(((PIDS, RLIMIT), (MEMORY, SUPERVISOR), (CPU, CGROUP2)))

    assert watch_request(FULL, holders, processors=4) == LimitWatch(memory_bytes=1 << 20)
    assert watch_request(FULL, Holders(tuple((feature, CGROUP2) for feature in ALL)), processors=4) is None


def test_a_policy_without_limits_has_nothing_to_watch() -> None:
    assert watch_request(Limits(), SUPERVISED, processors=4) is None


# ---- limits of the kernel's own


def test_the_processes_of_a_user_namespace_are_counted_with_pid_1() -> None:
    assert rlimits(Limits(pids=10), Holders(((PIDS, RLIMIT),))) == (Rlimit(6, 11, 11),)
    assert rlimits(Limits(pids=10), Holders(((PIDS, SUPERVISOR),))) == ()
    assert rlimits(Limits(), Holders(((PIDS, RLIMIT),))) == ()


@pytest.mark.parametrize(("open_files", "held"), [(None, 1024), (16, 16), (1024, 1024), (65_536, 1024)])
def test_with_watched_memory_there_are_few_buffers_out_of_sight(open_files: int | None, held: int) -> None:
    limits = Limits(memory_bytes=1 << 30, open_files=open_files)

    assert rlimits(limits, SUPERVISED) == (Rlimit(7, held, held),)
    assert rlimits(limits, Holders(((MEMORY, CGROUP2),))) == ()
    assert rlimits(Limits(open_files=open_files), SUPERVISED) == ()


# ---- what is said of it


def test_each_limit_has_the_words_of_its_holder() -> None:
    watched = "the launcher looks every few milliseconds"

    assert mechanisms(FULL, SUPERVISED) == {
        MEMORY: watched,
        PIDS: watched,
        CPU: "the launcher stops all processes for the rest of the time",
    }
    assert mechanisms(
        FULL, Holders(((PIDS, RLIMIT), (TIME, CGROUP1), (MEMORY, CGROUP2), (CPU, SYSTEMD)))
    ) == {
        PIDS: "RLIMIT_NPROC in the user namespace",
        TIME: "control group, version 1",
        MEMORY: "control group, version 2",
        CPU: "systemd scope",
    }


def test_a_limit_that_is_not_set_or_not_held_has_none() -> None:
    assert mechanisms(Limits(), SUPERVISED) == {}
    assert mechanisms(Limits(cpu_seconds=3.0), SUPERVISED) == {}
