"""Files that say what is protected: a change of them is noticed, whoever else made it than a command."""

from __future__ import annotations

import os

import pytest

from corral.model.plan import FileStamp, PathKind, ResolvedPath, Shield
from corral.model.policy import FsAccess
from corral.untrusted_files.stamps import Stamps, stamp_from, stamp_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def stamping(place: Path, make_plan) -> Callable[..., Stamps]:
    """Stamps of a plan that has read some files, with a shield on some."""

    def make(*read: Path, shielded: tuple[Path, ...] = ()) -> Stamps:
        shields = tuple(Shield(ResolvedPath(str(path), str(path), PathKind.FILE)) for path in shielded)
        plan = make_plan(writable=(str(place),), shields=shields)
        return Stamps(plan.replace(readings=tuple(stamp_of(str(path)) for path in read)))

    return make


def append(path: Path) -> None:
    with path.open("a") as file:
        file.write("more")


@pytest.mark.parametrize("is_idle", [True, False])
def test_a_shielded_file_that_is_changed_in_its_place_is_noticed(place: Path, stamping, is_idle) -> None:
    file = place / "config"
    file.write_text("[core]\n")
    stamps = stamping(file, shielded=(file,))
    assert stamps.changed(is_idle=is_idle) == []
    append(file)
    stamps.settle()

    assert stamps.changed(is_idle=is_idle) == [str(file)]


def test_a_change_of_the_same_size_is_noticed(place: Path, stamping) -> None:
    file = place / "config"
    file.write_text("one")
    os.utime(file, ns=(1, 1))
    before = file.stat()
    stamps = stamping(file, shielded=(file,))
    while file.stat().st_ctime_ns == before.st_ctime_ns:  # as coarse as the kernel's tick
        file.write_text("two")
        os.utime(file, ns=(1, 1))

    assert stamps.changed(is_idle=True) == [str(file)]


def test_a_file_elsewhere_that_comes_or_goes_is_noticed(tmp_path: Path, stamping) -> None:
    came, went = tmp_path / "came", tmp_path / "went"
    went.touch()
    stamps = stamping(came, went)
    came.touch()
    went.unlink()

    assert stamps.changed(is_idle=False) == [str(came), str(went)]


def test_what_a_link_leads_to_is_what_counts(tmp_path: Path, stamping) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    stamps = stamping(tmp_path / "link")
    append(tmp_path / "file")

    assert stamps.changed(is_idle=True) == [str(tmp_path / "link")]


def test_what_a_command_makes_is_its_own_until_the_host_changes_it(place: Path, stamping) -> None:
    made = place / ".git/config"
    stamps = stamping(made)
    made.parent.mkdir()
    made.touch()
    assert stamps.changed(is_idle=False) == [] and stamps.changed(is_idle=True) == [str(made)]
    stamps.settle()
    assert stamps.changed(is_idle=True) == []
    append(made)

    assert stamps.changed(is_idle=True) == [str(made)]


def test_what_is_granted_for_reading_is_no_commands_to_change(place: Path, tmp_path, make_plan) -> None:
    (tmp_path / "file").touch()
    plan = make_plan(writable=(str(tmp_path),))
    (grant,) = plan.resolved.grants
    resolved = plan.resolved.replace(grants=(grant.replace(access=FsAccess.READ),))
    stamps = Stamps(plan.replace(resolved=resolved, readings=(stamp_of(str(tmp_path / "file")),)))
    append(tmp_path / "file")
    stamps.settle()

    assert stamps.changed(is_idle=False) == [str(tmp_path / "file")]


def test_what_leads_into_a_writable_path_is_the_commands_to_change(place: Path, tmp_path, stamping) -> None:
    (place / "dotfile").touch()
    (tmp_path / ".gitconfig").symlink_to(place / "dotfile")
    stamps = stamping(tmp_path / ".gitconfig")
    append(place / "dotfile")
    stamps.settle()

    assert stamps.changed(is_idle=True) == []


def test_what_the_runner_wrote_is_no_change_by_whatever_name_it_was_read(place: Path, stamping) -> None:
    file, other, third = (place / name for name in ("config", "other", "third"))
    for path in (file, other, third):
        path.write_text("[core]\n")
    (place.parent / "name").symlink_to(file)
    stamps = stamping(file, place.parent / "name", other, third, shielded=(file, other, third))
    append(file)
    append(other)
    stamps.renew([stamp_of(str(file))])

    assert stamps.changed(is_idle=True) == [str(other)]


def test_a_directory_in_the_place_of_a_file_may_change(place: Path) -> None:
    status = place.stat()

    assert stamp_from("x", status) == FileStamp("x", status.st_dev, status.st_ino)


def test_what_cannot_be_looked_at_is_as_good_as_missing(place: Path) -> None:
    assert [stamp_of(path) for path in ("/\0", str(place / "no"))] == [
        FileStamp("/\0"),
        FileStamp(str(place / "no")),
    ]
