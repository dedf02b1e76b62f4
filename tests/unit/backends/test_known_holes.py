"""Known holes: which versions have them, and that one that matters makes a version unusable."""

from __future__ import annotations

import pytest

from corral.backends._holes import HOLES, Hole, find_gate, find_holes, known_holes, read_version
from corral.backends.registry import CONFINING
from corral.model.probe import Probe


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("bubblewrap 0.8.0", (0, 8, 0)),
        ("firejail version 0.9.72", (0, 9, 72)),
        ("Docker version 28.1.1, build 4eba377", (28, 1, 1)),
        ("1.1.5+ds1", (1, 1, 5)),
        ("v1.3.0-rc.1", (1, 3, 0)),
        ("limactl version 2.1.3", (2, 1, 3)),
        ("", ()),
        ("nothing", ()),
        ("7", ()),
    ],
)
def test_a_version_is_the_first_dotted_number(text: str, version: tuple[int, ...]) -> None:
    assert read_version(text) == version


@pytest.mark.parametrize(
    ("version", "has"),
    [
        *(("1.1.12", True), ("1.2.7", True), ("1.2.8", False), ("1.2.9", False)),
        *(("1.3.0", True), ("1.3.2", True), ("1.3.3", False), ("1.4.0", False), ("unknown", True)),
    ],
)
def test_a_hole_may_be_mended_in_several_branches(version: str, has: bool) -> None:
    hole = Hole("runc", ("1.2.8", "1.3.3"), "it leaks", "CVE-0", False, "it does not matter")

    assert hole.is_in(version) is has


def test_a_hole_that_came_with_a_version_is_not_in_those_before() -> None:
    hole = Hole("x", ("0.11.2",), "it leaks", "CVE-0", False, "it does not matter", since="0.11.0")

    assert [hole.is_in(version) for version in ("0.10.0", "0.11.1", "0.11.2")] == [False, True, False]


def test_one_that_corral_falls_into_is_a_gate_and_the_others_are_notes() -> None:
    assert [hole.reference for hole in find_holes("bubblewrap", "0.8.0")] == ["CVE-2026-87766"]
    assert find_gate("bubblewrap", "0.8.0") is None
    gate = find_gate("runc", "0.9.9")
    assert gate is not None and gate.affects
    assert find_gate("runc", "1.0.1") is None


def test_a_probe_is_looked_at_for_its_program_and_the_runtime_beneath() -> None:
    probe = Probe("podman", True, version="4.3.1", details=(("runtime", "runc 1.1.5+ds1"),))

    assert "CVE-2024-21626" in {hole.reference for hole in known_holes(probe)}
    assert known_holes(Probe("bubblewrap", False)) == ()


def test_every_hole_is_of_a_program_that_some_backend_uses_and_says_all() -> None:
    for hole in HOLES:
        assert hole.tool in {*CONFINING, "runc"}
        assert all(read_version(version) for version in hole.fixed)
        assert hole.render().isprintable()
        assert hole.reference.startswith(("CVE-", "GHSA-"))
        assert (hole.what and hole.why) and not hole.why.endswith(".")
