"""What lies in a mount is looked up from there, whatever becomes of the names that lead to it.

The launcher that is made for tests exchanges the names `a` and `b` of the first private area after every
bind and area, as somebody may do who holds a descriptor of it.
"""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest
from launching import Mount, MountFlag, MountKind, bind, confined, launch, shell

from corral.linux.landlock import read_rights, write_rights
from corral.linux.spec import Areas, Landlock, PathRule

ABI = 1
AREAS = Areas(1 << 20, 128)
FEW_FILES = 256


@pytest.fixture
def home(open_directory: Path) -> Path:
    """Of the host, with the place of a workspace in `a`."""
    work = open_directory / "home" / "a" / "work"
    for name in ("hooks", "private"):
        (work / name).mkdir(parents=True)
        (work / name / "secret").write_text("secret\n")
    (work / "file").write_text("secret\n")
    for path in open_directory.rglob("*"):
        path.chmod(0o777)
    return open_directory / "home"


def decoy(home: Path) -> tuple[Mount, ...]:
    """The area, and the same names in `b`, where nothing is."""
    names = ("a", "b", "b/work", "b/work/hooks", "b/work/private")
    return (
        Mount(MountKind.AREA, str(home), mode=0o777),
        *(Mount(MountKind.DIRECTORY, f"{home}/{name}", mode=0o777) for name in names),
        Mount(MountKind.FILE, f"{home}/b/work/file", mode=0o666),
    )


def at_work(kind: MountKind, path: Path, text: str = "") -> Mount:
    found = os.stat(path)
    return Mount(kind, str(path), text, device=found.st_dev, inode=found.st_ino)


def run(binary: Path, user: int, script: str, *mounts: Mount, landlock: Landlock | None = None) -> list[str]:
    spec = confined(
        *shell(script), user=user, mounts=mounts, areas=AREAS, landlock=landlock, fault="exchange"
    )
    done = launch(binary, spec)
    return [*done.lines, done.output.decode()]


def both(home: Path, script: str) -> str:
    """A script for wherever the workspace is by now."""
    return f"for work in {home}/a/work {home}/b/work; do {script}; done; true"


def test_names_are_exchanged_by_the_launcher_for_tests(checked: Path, user: int, home: Path) -> None:
    """Or the others prove nothing."""
    mounts = (*decoy(home), bind(str(home / "a" / "work"), MountFlag(0)))

    assert run(checked, user, f"cat {home}/b/work/file", *mounts)[-1] == "secret\n"


def test_a_shield_covers_what_the_bind_above_it_shows(checked: Path, user: int, home: Path) -> None:
    work = home / "a" / "work"
    mounts = (*decoy(home), bind(str(work), MountFlag(0)), bind(str(work / "hooks")))

    lines = run(checked, user, both(home, "echo evil > $work/hooks/evil; echo well > $work/well"), *mounts)

    assert lines[0] == "started", lines
    assert (work / "well").read_text() == "well\n"
    assert os.listdir(work / "hooks") == ["secret"]


@pytest.mark.parametrize("kind", [MountKind.MASK, MountKind.AREA, MountKind.LINK], ids=lambda kind: kind.name)
def test_a_cover_hides_what_the_bind_above_it_shows(
    checked: Path, user: int, home: Path, kind: MountKind
) -> None:
    work = home / "a" / "work"
    target = work / ("file" if kind is MountKind.LINK else "private")
    cover = at_work(kind, target, "/nowhere" if kind is MountKind.LINK else "")
    script = both(home, f"cat $work/{target.name} $work/{target.name}/secret; cat $work/hooks/secret")

    lines = run(checked, user, script, *decoy(home), bind(str(work), MountFlag(0)), cover)

    assert lines[0] == "started", lines
    assert lines[-1].count("secret\n") == 1, "what is not covered alone"


def test_what_is_missing_in_a_bind_is_not_made_elsewhere(checked: Path, user: int, home: Path) -> None:
    work = home / "a" / "work"
    shield = bind(str(work / "hooks"))
    gone = Mount(MountKind.BIND, f"{work}/gone", f"{work}/gone", shield.flags, shield.device, shield.inode)
    made = Mount(MountKind.FILE, f"{work}/made", content=b"x")

    for mount in (gone, made):
        lines = run(checked, user, "true", *decoy(home), bind(str(work), MountFlag(0)), mount)
        assert lines[0].startswith("failed mounts "), lines
    assert sorted(os.listdir(work)) == ["file", "hooks", "private"]


def test_a_bind_upon_an_area_that_hides_the_first_lies_in_the_area(
    checked: Path, user: int, home: Path
) -> None:
    """What is held beneath an area is older than it, and no base of what is shown in it."""
    work = str(home / "a" / "work")
    beneath = (bind(str(home), MountFlag(0)), bind(work))

    lines = run(checked, user, f"cat {home}/b/work/file", *beneath, *decoy(home), bind(work, MountFlag(0)))

    assert lines[0] == "started" and lines[-1] == "secret\n", lines


def test_no_landlock_rule_about_an_area_leaves_the_areas(checked: Path, user: int, home: Path) -> None:
    """An area in another one: where its name was, a link leads to everything."""
    inner = f"{home}/a/inner"
    mounts = (
        Mount(MountKind.AREA, str(home), mode=0o777),
        Mount(MountKind.DIRECTORY, f"{home}/a", mode=0o777),
        Mount(MountKind.SYMLINK, f"{home}/b/inner", "/"),
        Mount(MountKind.AREA, inner, mode=0o777),
    )
    write = write_rights(ABI, is_directory=True)
    rules = (PathRule(read_rights(ABI, is_directory=True), "/"), PathRule(write, inner))

    lines = run(checked, user, "echo evil > /tmp/evil", *mounts, landlock=Landlock(write, 0, 0, rules))

    assert lines[0] == f"failed landlock {errno.ESTALE} rule for {inner}: changed since it was planned"


def test_very_many_binds_in_a_bind_take_no_descriptors(plain: Path, user: int, open_directory: Path) -> None:
    names = [open_directory / str(number) / "in" for number in range(700)]
    for name in names:
        name.mkdir(parents=True)
    binds = [bind(str(path)) for name in names for path in (name.parent, name)]
    mounts = (
        bind(str(open_directory), MountFlag(0)),
        *sorted(binds, key=lambda mount: mount.target.count("/")),
    )

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW_FILES, before[1]))
    try:
        done = launch(plain, confined(*shell("true"), user=user, mounts=mounts))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

    assert done.lines[:2] == ["started", "exited 0"], done.lines
