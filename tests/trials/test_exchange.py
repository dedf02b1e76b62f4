"""Many files that are replaced change places with their backups, in one call for each."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from corral.trials import exchange
from corral.trials.apply import Prefer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.sessions.trial import Trial

_DEFAULT, _ACCESS = "system.posix_acl_default", "system.posix_acl_access"


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for a single file."""
    monkeypatch.setattr(exchange, "_LEAST", 1)


def test_what_was_replaced_is_kept_itself_and_comes_back(trial: Trial, work: Path) -> None:
    readme = work / "README"
    before, text = readme.stat().st_ino, readme.read_text()
    assert trial.run("echo more >> README").ok

    trial.apply()

    backup = Path(trial.record.directory, "journals/1/backup/0")
    assert readme.read_text() == f"{text}more\n"
    assert readme.stat().st_ino != before == backup.stat().st_ino
    assert backup.stat().st_nlink == 1  # it was not kept by a second name

    trial.undo()

    assert (readme.stat().st_ino, readme.read_text()) == (before, text)


def test_what_the_host_puts_there_at_the_last_moment_stays(
    trial: Trial, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = exchange.load_exchange(1)
    assert real is not None
    late = [lambda: (work / "new").rename(work / "README")]

    def swap(*places: Any) -> None:
        if late:
            late.pop()()
        real(*places)

    monkeypatch.setattr("corral.trials.carry_out.load_exchange", lambda _: swap)
    assert trial.run("echo more >> README").ok
    (work / "new").write_text("the host's\n")

    applied = trial.apply()

    assert not late
    assert applied.left == ("README",)
    assert (work / "README").read_text() == "the host's\n"


def test_what_replaces_a_file_begins_to_go_to_the_disk_first(trial: Trial, work: Path) -> None:
    """Else there may be an empty file after a power failure: no block is its own before it is written."""
    (work / "control").write_text("control\n")
    if not _is_delayed(work / "control"):
        pytest.skip("this file system gives blocks at once, or does not tell")
    assert trial.run("echo more >> README").ok

    trial.apply()

    assert not _is_delayed(work / "README")


def _is_delayed(path: Path) -> bool:
    """Whether its content has no place on the disk yet (FS_IOC_FIEMAP, FIEMAP_EXTENT_DELALLOC)."""
    asked = bytearray(struct.pack("<QQIIII", 0, 1 << 62, 0, 0, 1, 0) + bytes(56))
    with path.open("rb") as file:
        try:
            fcntl.ioctl(file, 0xC020660B, asked)
        except OSError:
            return False
    (mapped,) = struct.unpack_from("<I", asked, 20)
    (flags,) = struct.unpack_from("<I", asked, 32 + 40)
    return mapped == 1 and bool(flags & 4)


def test_where_names_cannot_change_places_the_old_way_is_taken(
    trial: Trial, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr("corral.trials.carry_out.load_exchange", lambda _: refuse)
    assert trial.run("echo more >> README").ok
    text = (work / "README").read_text()

    trial.apply()
    assert (work / "README").read_text() == f"{text}more\n"
    trial.undo()
    assert (work / "README").read_text() == text


def test_what_was_kept_as_a_copy_comes_back_with_its_mode(
    trial: Trial, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another file system, where it can neither change places nor have a second name."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr("corral.trials.carry_out.load_exchange", lambda _: refuse)
    paths = work / "README", work / "old/notes"
    for path, mode in zip(paths, (0o640, 0o4751), strict=True):
        path.chmod(mode)
    before = [(path.stat().st_mode, path.stat().st_mtime_ns, path.read_text()) for path in paths]
    assert trial.run("echo more >> README; chmod 666 README; rm old/notes").ok

    monkeypatch.setattr(os, "link", refuse)
    trial.apply(prefer=Prefer.THEIRS)
    assert (paths[0].stat().st_mode & 0o777, paths[1].exists()) == (0o666, False)
    trial.undo()

    assert [(path.stat().st_mode, path.stat().st_mtime_ns, path.read_text()) for path in paths] == before


def test_a_file_gets_what_its_directory_passes_on(trial: Trial, work: Path) -> None:
    """A list of rights for whatever is made in a directory."""
    nobody = 2**32 - 1
    entries = ((1, 7, nobody), (2, 6, 12345), (4, 5, nobody), (16, 7, nobody), (32, 5, nobody))
    try:
        os.setxattr(work, _DEFAULT, struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries))
    except OSError as problem:
        pytest.skip(f"this file system keeps no lists of rights: {problem.strerror}")
    assert trial.run("echo more >> README").ok
    assert _ACCESS not in os.listxattr(work / "README")

    trial.apply()

    assert _ACCESS in os.listxattr(work / "README")


def test_a_file_gets_the_group_of_a_directory_that_passes_it_on(
    trial: Trial, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of somebody who may give no file away."""
    if os.geteuid() != 0:
        pytest.skip("another group takes root")
    assert trial.run("echo more >> README").ok
    for path in (work, work / "README"):
        os.chown(path, -1, 12345)
    work.chmod(0o2755)

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refuse)
    trial.apply(prefer=Prefer.THEIRS)

    assert (work / "README").stat().st_gid == 12345
