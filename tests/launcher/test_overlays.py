"""Layers over a directory of the host: nothing of it is written, whatever is held inside."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from launching import Mount, MountFlag, MountKind, bind, confined, launch, shell

from corral.linux.spec import Areas


class Place:
    """A directory of the host, and two for a layer over it."""

    def __init__(self, top: Path, user: int) -> None:
        self.work, self.upper, self.spare = (top / name for name in ("work", "upper", "spare"))
        (self.work / "held/inner").mkdir(parents=True)
        (self.work / "held/file").write_text("host\n")
        self.upper.mkdir()
        self.spare.mkdir()
        for path in top.rglob("*"):
            os.chown(path, user, user)

    def overlay(self) -> Mount:
        found = self.work.stat()
        content = b"".join(os.fsencode(path) + b"\0" for path in (self.upper, self.spare))
        numbers = {"device": found.st_dev, "inode": found.st_ino}
        return Mount(MountKind.OVERLAY, str(self.work), str(self.work), content=content, **numbers)

    def held(self, name: str, flags: MountFlag) -> Mount:
        return bind(str(self.work / name), flags)


@pytest.fixture
def place(open_directory: Path, user: int) -> Place:
    return Place(open_directory, user)


def _output(binary: Path, user: int, script: str, *mounts: Mount) -> str:
    done = launch(binary, confined(*shell(script), user=user, mounts=mounts))
    assert done.lines[0] == "started", done.lines
    return done.output.decode()


def test_what_is_written_goes_to_the_layer(launcher: Path, user: int, place: Place) -> None:
    script = f"cd {place.work}; echo more >> held/file; echo x > new; cat held/file"

    text = _output(launcher, user, script, place.overlay())

    assert text.startswith("host\nmore\n")
    assert (place.work / "held/file").read_text() == "host\n"
    assert not (place.work / "new").exists()
    assert (place.upper / "new").read_text() == "x\n"


def test_a_layer_is_made_beside_private_areas(launcher: Path, user: int, place: Place) -> None:
    """Those are made upon the host's /proc, by which layers are named."""
    area = Mount(MountKind.AREA, "/area", mode=0o700)
    spec = confined(
        *shell(f"cat {place.work}/held/file; echo x > {place.work}/new; echo y > /area/y; cat /area/y"),
        user=user,
        mounts=(area, place.overlay()),
        areas=Areas(1 << 20, 64),
    )

    done = launch(launcher, spec)

    assert (done.lines[0], done.output) == ("started", b"host\ny\n"), done.lines
    assert not (place.work / "new").exists()
    assert (place.upper / "new").read_text() == "x\n"


def test_what_is_bound_inside_is_the_layers_own(launcher: Path, user: int, place: Place) -> None:
    """A pin is writable: were it the host's directory, commands would write there."""
    script = f"cd {place.work}; echo more > held/made; mv held away; echo y > held/inner/y"
    pin, sealed = place.held("held", MountFlag(0)), place.held("held/inner", MountFlag.READ_ONLY)

    text = _output(launcher, user, script, place.overlay(), pin, sealed)

    assert "busy" in text and "Read-only file system" in text
    assert sorted(os.listdir(place.work / "held")) == ["file", "inner"]
    assert (place.upper / "held/made").exists()


def test_what_is_writable_inside_of_read_only_is_the_layers_as_well(
    launcher: Path, user: int, place: Place
) -> None:
    script = f"cd {place.work}; echo no > held/no; echo yes > held/inner/yes"
    sealed, inner = place.held("held", MountFlag.READ_ONLY), place.held("held/inner", MountFlag(0))

    _output(launcher, user, script, place.overlay(), sealed, inner)

    assert os.listdir(place.work / "held/inner") == []
    assert os.listdir(place.upper / "held/inner") == ["yes"]
    assert not (place.upper / "held/no").exists()


def test_what_changed_since_it_was_planned_is_refused(launcher: Path, user: int, place: Place) -> None:
    shield = place.held("held", MountFlag.READ_ONLY)
    (place.work / "held").rename(place.work / "away")
    (place.work / "held").mkdir()

    done = launch(launcher, confined("true", user=user, mounts=(place.overlay(), shield)))

    assert done.lines == [
        f"failed mounts {errno.ESTALE} bind {place.work}/held: changed since it was planned"
    ]


def test_a_layer_behind_a_link_is_refused(launcher: Path, user: int, place: Place) -> None:
    overlay = place.overlay()
    place.upper.rename(place.upper.parent / "moved")
    place.upper.symlink_to(place.upper.parent / "moved")

    done = launch(launcher, confined("true", user=user, mounts=(overlay,)))

    assert done.lines[0].startswith(f"failed mounts {errno.ELOOP} overlay {place.work}: layer")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["spare/work/incompat/volatile/dirty"], "started"),
        (["spare/work/incompat/volatile/unknown"], f"failed mounts {errno.ENOTEMPTY} "),
        (["other/volatile/dirty", "spare/work/incompat"], f"failed mounts {errno.ELOOP} "),
    ],
    ids=["note", "unknown", "link"],
)
def test_the_kernels_note_of_a_layer_is_removed_and_nothing_else(
    launcher: Path, user: int, place: Place, names: list[str], expected: str
) -> None:
    """It would not take the layer again. No link is followed there, and what is not known stays."""
    top = place.work.parent
    noted = top / names[0]
    noted.parent.mkdir(parents=True)
    noted.write_text("")
    if len(names) > 1:
        (top / names[1]).parent.mkdir()
        (top / names[1]).symlink_to("../../other")
    for path in (*place.spare.rglob("*"), *(top / "other").rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)

    line = launch(launcher, confined("true", user=user, mounts=(place.overlay(),))).lines[0]

    assert line.startswith(expected), line
    if expected != "started":
        assert line.endswith(f"overlay {place.work}: the kernel's note in the layer, incompat/volatile")
        assert noted.exists()
