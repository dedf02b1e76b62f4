"""What a kept sandbox protects is known to be the same, or not, however much of it there is."""

from __future__ import annotations

import errno
import os
import struct

import pytest

from corral.model.errors import SetupError
from corral.model.plan import Grant, PathKind, ResolvedPath
from corral.model.policy import FsAccess
from corral.protected_names import holds as holds_module
from corral.protected_names.holds import Holds, covered, identity_of
from support.descriptors import count_descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_OVERFLOW = 0x4000  # IN_Q_OVERFLOW


@pytest.fixture(params=[128, 2, 0], ids=["all-held", "some-held", "none-held"])
def held(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch) -> Iterator[tuple[Holds, list[Path]]]:
    monkeypatch.setattr(holds_module, "MOST_HELD", request.param)
    paths = [tmp_path / name for name in ("a", "b", "c", "directory")]
    for path in paths[:-1]:
        path.touch()
    paths[-1].mkdir()
    before = count_descriptors()
    holds = Holds((str(path), identity_of(str(path))) for path in paths)
    assert count_descriptors() - before == min(request.param, 4) + (request.param < 4)
    yield holds, paths
    holds.close()
    assert count_descriptors() <= before


def test_what_stays_is_the_same(held) -> None:
    holds, paths = held
    paths[0].write_text("more")
    paths[1].chmod(0o600)
    (paths[-1] / "new").touch()

    assert holds.changed() == []


def test_what_is_replaced_or_removed_is_another_one_from_then_on(held) -> None:
    holds, paths = held
    paths[1].with_name("new").touch()
    paths[1].with_name("new").rename(paths[1])
    paths[-1].rmdir()

    for _ in range(2):
        assert holds.changed() == [str(paths[1]), str(paths[-1])]


def test_a_number_that_is_used_again_is_noticed(held, monkeypatch) -> None:
    """As if each new file had the number of the last one that was removed."""
    holds, paths = held
    planned = {str(path): identity_of(str(path)) for path in paths}
    paths[2].unlink()
    paths[2].touch()
    if len(holds._held) <= 2:  # else it is held open, and none can
        monkeypatch.setattr(holds_module, "identity_of", planned.get)

    assert holds.changed() == [str(paths[2])]


@pytest.mark.parametrize("most", [0, 1])
def test_what_was_replaced_before_is_found(tmp_path: Path, monkeypatch, most: int) -> None:
    monkeypatch.setattr(holds_module, "MOST_HELD", most)
    missing = str(tmp_path / "missing")
    holds = Holds([(missing, (1, 1))])

    assert holds.changed() == [missing]
    holds.close()


def test_what_the_kernel_could_not_tell_counts_as_another(held) -> None:
    holds, paths = held
    if holds._teller < 0:
        return
    told, writer = os.pipe()
    os.set_blocking(told, False)
    os.write(writer, struct.pack("iIII", -1, _OVERFLOW, 0, 0))
    os.dup2(told, holds._teller)
    assert holds.changed() == [str(path) for path in paths[len(holds._held) :]]
    for descriptor in (told, writer):
        os.close(descriptor)


def test_without_descriptors_nothing_is_kept(tmp_path: Path, monkeypatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(tmp_path))

    monkeypatch.setattr(holds_module.os, "open", refuse)

    with pytest.raises(SetupError, match="Too many open files"):
        Holds([(str(tmp_path), (1, 1))])


def test_where_nothing_can_be_held_nothing_is_kept(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(holds_module, "MOST_HELD", 0)
    monkeypatch.setattr(holds_module, "_MASK", 0)  # which the kernel refuses
    before = count_descriptors()

    with pytest.raises(SetupError) as refused:
        Holds([(str(tmp_path), (1, 1))])

    assert refused.value.code == "guard" and str(tmp_path) in refused.value.what
    assert count_descriptors() <= before


def test_what_is_stricter_than_the_writable_path_around_it_is_held(place: Path, make_plan) -> None:
    """Granted for reading, denied, or hidden by a private area: what takes its place would be writable."""

    def looked_at(path: Path) -> ResolvedPath:
        device, inode = identity_of(str(path)) or (0, 0)
        return ResolvedPath(str(path), str(path), PathKind.DIRECTORY, device, inode)

    read, denied, private, led = (place / name for name in ("read", "denied", "private", "led"))
    elsewhere = place.parent / "elsewhere"
    for path in (read, denied, private, led, elsewhere):
        path.mkdir()
    link = place.parent / "link"
    link.symlink_to(led)
    plan = make_plan(writable=(str(place),))
    grants = (*plan.resolved.grants, *(Grant(looked_at(path), FsAccess.READ) for path in (read, elsewhere)))
    hidden = tuple(map(str, (private, link, elsewhere, place / "missing")))
    resolved = plan.resolved.replace(
        grants=grants, denied=tuple(map(looked_at, (denied, place / "no"))), private=hidden
    )

    held = dict(covered(plan.replace(resolved=resolved)))

    assert held == {str(path): identity_of(str(path)) for path in (read, denied, private, led)}
