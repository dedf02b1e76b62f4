"""Laws of the limits.

- whatever /proc/self/cgroup says, what is found is a directory that can be written, or nothing
- a share is never more than was asked for, by control groups or by the launcher
- every limit that is claimed is either in the group, in the watch, or a limit of the kernel's own
- the launcher's lines mean the same however they are cut, and none of them raises anything
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from corral.backends._limits import (
    Holders,
    find_holders,
    group_request,
    mechanisms,
    read_holders,
    rlimits,
    watch_request,
)
from corral.limits.group import cpu_quota, is_leftover, label
from corral.limits.hierarchy import hierarchy_of
from corral.model.enforcer import CGROUP1, CGROUP2, RLIMIT, SUPERVISOR, SYSTEMD, Enforcer
from corral.model.feature import Feature
from corral.model.policy import Limits
from corral.model.probe import Probe
from corral.runtime.status import Status
from support.fake_host import FakeHost

FIELDS = {
    Feature.LIMIT_MEMORY: "memory_bytes",
    Feature.LIMIT_CPU: "cpus",
    Feature.LIMIT_CPU_TIME: "cpu_seconds",
    Feature.LIMIT_PIDS: "pids",
}
shares = st.one_of(st.floats(0.001, 100_000), st.sampled_from([0.001, 0.01, 0.5, 1, 1.5, 2, 100]))
enforcers = st.builds(
    Enforcer,
    st.sampled_from([CGROUP1, CGROUP2, SYSTEMD]),
    st.frozensets(st.sampled_from(sorted(FIELDS, key=str))),
)
limits = st.builds(
    Limits,
    memory_bytes=st.none() | st.integers(1 << 20, 1 << 50),
    cpus=st.none() | shares,
    pids=st.none() | st.integers(1, 1 << 20),
    cpu_seconds=st.none() | st.floats(0.001, 1e6),
    open_files=st.none() | st.integers(16, 1 << 20),
)

words = st.sampled_from(
    ["memory", "cpu,cpuacct", "pids", "name=systemd", "", "0", "12", "/", "/a", "/a/b", "/..", "a"]
)
lines = st.lists(words, max_size=5).map(":".join)


@given(st.lists(st.one_of(lines, st.text(st.characters(exclude_characters="\0"), max_size=20)), max_size=6))
def test_whatever_a_membership_says_what_is_found_is_a_group_of_the_tree(texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        for place in ("memory", "pids/a", "cpu,cpuacct", "a"):
            (root / place).mkdir(parents=True)
            (root / place / "cgroup.procs").touch()
        (root / "cpu").symlink_to("cpu,cpuacct")
        (root / "a" / "cgroup.subtree_control").write_text("memory pids\n")

        found = hierarchy_of(str(root), "\n".join(texts))

        for parent in found.parents.values() if found is not None else ():
            assert Path(parent).is_relative_to(root)
            assert os.path.exists(f"{parent}/cgroup.procs")


@given(st.text(max_size=40), st.lists(st.text(st.sampled_from("0123456789-²x"), max_size=6), max_size=5))
def test_a_name_that_is_no_label_is_no_leftover(text: str, parts: list[str]) -> None:
    assert not is_leftover(text)
    assert not is_leftover(label() + "-".join(parts))  # of a process that lives


@given(shares)
def test_a_quota_is_the_share_rounded_down(share: float) -> None:
    quota, period = cpu_quota(share)

    assert quota <= share * period * (1 + 1e-12)
    assert quota + 1 > share * period
    assert quota >= 1000 and 1000 <= period <= 1_000_000  # what the kernel takes


@given(shares, st.integers(1, 512))
def test_a_watched_share_is_never_more_than_was_asked_for(share: float, processors: int) -> None:
    watch = watch_request(
        Limits(cpus=share), Holders(((Feature.LIMIT_CPU, SUPERVISOR),)), processors=processors
    )

    if watch is None:
        assert share >= processors  # it is all there is
    else:
        given_out = watch.processors * watch.share_permille / 1000
        assert given_out <= share * (1 + 1e-12)
        assert share - given_out < watch.processors / 1000 + 1e-9
        assert 1 <= watch.processors <= processors
        assert 1 <= watch.share_permille <= 1000


@given(limits, st.lists(enforcers, max_size=3), st.sampled_from([0, 1000]), st.booleans())
def test_every_limit_that_is_claimed_is_told_to_whoever_holds_it(
    wanted: Limits, available: list[Enforcer], uid: int, namespaced: bool
) -> None:
    host = FakeHost(uid=uid)
    host.enforcers = lambda: tuple(available)  # type: ignore[method-assign]
    found = find_holders(host, namespaced=namespaced)
    holders = read_holders(Probe("native", True, details=found.details()))
    group = group_request(wanted, holders, launcher_pids=1, ends_by_group=False)
    watch = watch_request(wanted, holders, processors=4)
    kinds = {limit.resource for limit in rlimits(wanted, holders)}

    assert dict(holders.pairs) == dict(found.pairs)
    for feature, field in FIELDS.items():
        value, holder = getattr(wanted, field), holders.of(feature)
        assert (feature in mechanisms(wanted, holders)) == (value is not None and holder != "")
        in_group = group is not None and getattr(group, field) is not None
        assert in_group == (value is not None and holder in {CGROUP1, CGROUP2, SYSTEMD})
        if value is not None and holder == SUPERVISOR and not (field == "cpus" and value >= 4):
            assert watch is not None
            watched = {
                "memory_bytes": watch.memory_bytes,
                "pids": watch.processes,
                "cpus": watch.share_permille,
            }
            assert watched[field]
        if value is not None and holder == RLIMIT:
            assert kinds & {6}


status_words = st.sampled_from([b"usage", b"exited", b"failed", b"1", b"23", b"", b"-4", b"\xc2\xb2"])
status_lines = st.one_of(
    st.sampled_from([b"started", b"timed-out", b"lost", b"full", b"exited 3", b"signalled 9", b"limit x"]),
    st.lists(status_words, max_size=8).map(b" ".join),
    st.binary(max_size=30),
)


@given(st.lists(status_lines, max_size=8), st.data())
def test_lines_mean_the_same_however_they_are_cut(texts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(text + b"\n" for text in texts)
    at = data.draw(st.integers(0, len(whole)))
    one, two = Status(), Status()
    one.feed(whole)
    two.feed(whole[:at])
    two.feed(whole[at:])

    assert vars(one) == vars(two)
    assert one.usage is None or len(one.usage) == 6
