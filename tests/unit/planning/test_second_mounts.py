"""A denied directory that is mounted once more inside a grant is found by the kernel's own table."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from corral.model.errors import PolicyError
from corral.model.plan import PathKind, ResolvedPath
from corral.model.probe import Stat
from corral.planning.second_mounts import check_second_mounts

ROOT = "21 1 8:1 / / rw - ext4 /dev/sda1 rw"


class Table:
    """A host with mounts; a path's inode is that of the path it really is."""

    def __init__(self, *lines: str, same: dict[str, str]) -> None:
        self._text = "\n".join(lines)
        self._same = same
        self.reads = 0

    def read_text(self, path: str, limit_bytes: int) -> str:
        self.reads += 1
        return self._text[:limit_bytes]

    def lstat(self, path: str) -> Stat | None:
        return Stat(True, False, 1, hash(self._same.get(path, path)))


def denied(path: str, kind: PathKind = PathKind.DIRECTORY) -> ResolvedPath:
    return ResolvedPath(path, path, kind, 1, 2)


@pytest.mark.parametrize(
    ("mount", "seen", "inner"),
    [
        ("30 21 8:1 /srv/keys /work/k rw - ext4 /dev/sda1 rw", "/work/k", "/srv/keys"),
        ("30 21 8:1 /srv /work/all rw - ext4 /dev/sda1 rw", "/work/all/keys", "/srv/keys"),
        ("30 21 8:1 /srv/keys/deep /work/part rw - ext4 /dev/sda1 rw", "/work/part", "/srv/keys/deep"),
        ("30 21 8:1 /srv/keys /work/with\\040blank rw - ext4 /dev/sda1 rw", "/work/with blank", "/srv/keys"),
    ],
)
def test_another_mount_of_what_is_denied_is_refused(mount: str, seen: str, inner: str) -> None:
    host = Table(ROOT, mount, same={seen: inner})

    with pytest.raises(PolicyError) as caught:
        check_second_mounts([denied("/srv/keys")], ["/work"], host)  # type: ignore[arg-type]

    assert caught.value.code == "mounted-twice"
    assert seen in caught.value.fix


@pytest.mark.parametrize(
    ("mount", "granted", "also"),
    [
        ("30 21 8:1 /srv/keys /mnt/k rw - ext4 /dev/sda1 rw", "/work", ()),  # nothing is granted there
        ("30 21 8:1 /srv/keys /work/k rw - ext4 /dev/sda1 rw", "/work", ("/work/k",)),  # denied as well
        ("30 21 8:2 /srv/keys /work/k rw - ext4 /dev/sdb1 rw", "/work", ()),  # another file system
        ("30 21 8:1 /srv/other /work/k rw - ext4 /dev/sda1 rw", "/work", ()),
    ],
)
def test_other_mounts_are_none_of_its_business(mount: str, granted: str, also: tuple[str, ...]) -> None:
    host = Table(ROOT, mount, same={"/work/k": "/srv/keys", "/mnt/k": "/srv/keys"})

    check_second_mounts([denied("/srv/keys"), *map(denied, also)], [granted], host)  # type: ignore[arg-type]


def test_what_is_covered_by_another_mount_is_not_seen() -> None:
    host = Table(ROOT, "30 21 8:1 /srv/keys /work/k rw - ext4 /dev/sda1 rw", same={})

    check_second_mounts([denied("/srv/keys")], ["/work"], host)  # type: ignore[arg-type]


def test_a_plan_has_the_lines_that_show_a_part_of_what_is_denied_and_no_others() -> None:
    lines = [
        "22 21 8:2 / /srv rw - ext4 /dev/sdb1 rw",
        "30 21 8:2 /keys/deep /mnt/deep rw - ext4 /dev/sdb1 rw",
        "31 21 8:2 /keysmith /mnt/other rw - ext4 /dev/sdb1 rw",
        "32 21 0:40 / /run/engine rw - tmpfs none rw",
        "33 21 8:1 /keys /mnt/elsewhere rw - ext4 /dev/sda1 rw",
    ]
    there = [denied("/srv/keys"), denied("/srv/keys/two"), denied("/srv/a blank")]
    view = check_second_mounts(there, ["/work"], Table(ROOT, *lines, same={}))  # type: ignore[arg-type]

    assert view is not None
    assert view.places == ("8:2 /a\\040blank", "8:2 /keys")
    assert view.lines == ("8:2 / /srv", "8:2 /keys/deep /mnt/deep")


def test_the_table_is_read_only_where_something_is_denied() -> None:
    host = Table(ROOT, same={})
    missing = denied("/srv/keys", PathKind.MISSING)

    assert check_second_mounts([missing], ["/work"], host) is None  # type: ignore[arg-type]
    assert host.reads == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user cannot mount")
def test_a_real_bind_mount_is_refused_and_shows_the_key_without_the_check(tmp_path: Path) -> None:
    unshare = shutil.which("unshare")
    assert unshare is not None
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/key").write_text("KEY")
    (tmp_path / "work/k").mkdir(parents=True)
    corral = Path(sys.executable).with_name("corral")
    script = 'mount --bind keys work/k && cd work && cat k/key; "$1" run --deny ../keys -- cat k/key'
    done = subprocess.run(
        [unshare, "-m", "sh", "-c", script, "sh", str(corral)], cwd=tmp_path, capture_output=True, text=True
    )

    assert done.stdout == "KEY"  # by the control alone
    assert done.returncode == 2
    assert "mounted at" in done.stderr
