"""Uploads and downloads: what is copied, what is refused, and where a copy that has no end ends."""

from __future__ import annotations

import errno
import gc
import os
import stat
from pathlib import Path

import pytest

from corral.model.errors import PolicyError
from corral.model.file_entry import CopyBounds
from support.descriptors import count_descriptors
from support.file_worlds import KINDS, World, resolved_path


@pytest.fixture(params=KINDS)
def world(request: pytest.FixtureRequest, tmp_path: Path):
    made = World(request.param, tmp_path)
    gc.collect()  # what other tests have left is given back now, and not in between
    before = count_descriptors()
    yield made
    assert count_descriptors() <= before
    made.close()


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """Where the caller keeps things."""
    desk = tmp_path / "desk"
    desk.mkdir()
    return desk


def _tree(top: Path) -> dict[str, object]:
    """Every path below with its mode and contents, or the text of a link."""
    found: dict[str, object] = {}
    for path in sorted(top.rglob("*")):
        name = str(path.relative_to(top))
        if path.is_symlink():
            found[name] = os.readlink(path)
        else:
            contents = path.read_bytes() if path.is_file() else None
            found[name] = (stat.S_IMODE(path.lstat().st_mode), contents)
    return found


def _plant(top: Path) -> None:
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "b" / "file").write_bytes(b"deep")
    (top / "tool").write_bytes(b"#!")
    (top / "tool").chmod(0o755)
    (top / "a" / "up").symlink_to("../tool")
    (top / "nowhere").symlink_to("missing")


def test_a_tree_arrives_as_it_was_and_comes_back_as_it_was(world: World, desk: Path) -> None:
    _plant(desk / "tree")

    world.files.upload(desk / "tree", "copy")
    world.files.download("copy", desk / "back")

    assert _tree(world.ws / "copy") == _tree(desk / "tree") == _tree(desk / "back")
    assert sorted(os.listdir(desk)) == ["back", "tree"]


def test_a_file_arrives_and_comes_back(world: World, desk: Path) -> None:
    (desk / "f").write_bytes(b"x" * 3_000_000)
    (desk / "f").chmod(0o750)

    world.files.upload(str(desk / "f"), "new/f", parents=True)
    world.files.download("new/f", str(desk / "g"))

    assert (desk / "g").read_bytes() == (desk / "f").read_bytes()
    assert stat.S_IMODE((desk / "g").stat().st_mode) == 0o750


def test_an_upload_goes_into_a_directory_that_is_there_and_replaces_names(world: World, desk: Path) -> None:
    _plant(desk / "tree")
    (world.ws / "a").mkdir()
    (world.ws / "a" / "kept").write_bytes(b"kept")
    os.link(world.outside / "secret", world.ws / "tool")
    (world.ws / "nowhere").symlink_to(world.outside / "secret")

    world.files.upload(desk / "tree", world.at("ws"))

    assert (world.ws / "tool").read_bytes() == b"#!"
    assert (world.ws / "a" / "kept").read_bytes() == b"kept"
    assert os.readlink(world.ws / "nowhere") == "missing"
    assert world.untouched()


def test_a_file_takes_the_place_of_a_link_in_an_uploaded_tree(world: World, desk: Path) -> None:
    (desk / "tree").mkdir()
    (desk / "tree" / "x").write_bytes(b"new")
    (world.ws / "copy").mkdir()
    (world.ws / "other").write_bytes(b"old")
    (world.ws / "copy" / "x").symlink_to("../other")

    world.files.upload(desk / "tree", "copy")

    assert not (world.ws / "copy" / "x").is_symlink()
    assert (world.ws / "other").read_bytes() == b"old"


def test_a_link_where_the_tree_has_a_directory_is_not_followed(world: World, desk: Path) -> None:
    _plant(desk / "tree")
    (world.ws / "elsewhere").mkdir()
    (world.ws / "copy").mkdir()
    (world.ws / "copy" / "a").symlink_to("../elsewhere")

    with pytest.raises(NotADirectoryError) as caught:
        world.files.upload(desk / "tree", "copy")

    assert caught.value.filename == "copy/a"
    assert os.listdir(world.ws / "elsewhere") == []


def test_a_source_that_is_a_link_is_refused(world: World, desk: Path) -> None:
    (desk / "report").symlink_to(world.outside / "secret")

    with pytest.raises(OSError) as caught:
        world.files.upload(desk / "report", "report")

    assert (caught.value.errno, caught.value.filename) == (errno.ELOOP, str(desk / "report"))
    assert os.listdir(world.ws) == []


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_an_upload_makes_no_protected_name(world: World, desk: Path, kind: str) -> None:
    (desk / "tree" / "sub").mkdir(parents=True)
    forbidden = desk / "tree" / "sub" / ".envrc"
    {
        "file": forbidden.touch,
        "directory": forbidden.mkdir,
        "link": lambda: forbidden.symlink_to("x"),
    }[kind]()
    (world.ws / "sub").mkdir()
    world.protect(world.ws / "sub", ".envrc")
    world.protect(world.ws, ".git")

    for source, path in (
        (desk / "tree", "."),
        (desk / "tree", ".git"),
        (desk / "tree" / "sub", ".git/hooks"),
    ):
        with pytest.raises(PolicyError) as caught:
            world.files.upload(source, path, parents=True)
        assert caught.value.code == "file-protected"

    assert sorted(map(str, world.ws.rglob("*"))) == [str(world.ws / "sub")]


def test_special_files_are_refused_on_both_ways(world: World, desk: Path) -> None:
    (desk / "tree").mkdir()
    os.mkfifo(desk / "tree" / "fifo")
    (world.ws / "tree").mkdir()
    os.mkfifo(world.ws / "tree" / "fifo")

    with pytest.raises(OSError) as up:
        world.files.upload(desk / "tree", "copy")
    with pytest.raises(OSError) as down:
        world.files.download("tree", desk / "copy")

    assert (up.value.errno, up.value.filename) == (errno.EINVAL, str(desk / "tree" / "fifo"))
    assert (down.value.errno, down.value.filename) == (errno.EINVAL, "tree/fifo")
    assert os.listdir(desk) == ["tree"]


def test_no_dangerous_bit_comes_out(world: World, desk: Path) -> None:
    (world.ws / "tree" / "sub").mkdir(parents=True)
    (world.ws / "tree" / "tool").touch()
    (world.ws / "tree" / "tool").chmod(0o6777)
    (world.ws / "tree" / "sub").chmod(0o7777)
    (world.ws / "tree").chmod(0o7777)
    before = os.umask(0o022)
    try:
        world.files.download("tree", desk / "copy")
    finally:
        os.umask(before)

    modes = {stat.S_IMODE(path.stat().st_mode) for path in (desk / "copy", *(desk / "copy").iterdir())}
    assert modes == {0o755}


@pytest.mark.parametrize("text", ["/etc/passwd", "..", "../x", "sub/../../x", "sub/../y", "./../x"])
def test_a_link_that_may_lead_out_ends_a_download(world: World, desk: Path, text: str) -> None:
    (world.ws / "tree").mkdir()
    (world.ws / "tree" / "bad").symlink_to(text)

    with pytest.raises(PolicyError) as caught:
        world.files.download("tree", desk / "copy")

    assert caught.value.code == "link-leads-out"
    assert os.listdir(desk) == []


@pytest.mark.parametrize(
    ("bounds", "word"),
    [
        (CopyBounds(total_bytes=1000), "bytes"),
        (CopyBounds(entries=3), "entries"),
        (CopyBounds(depth=2), "deep"),
    ],
)
def test_a_copy_ends_at_its_bounds(world: World, desk: Path, bounds: CopyBounds, word: str) -> None:
    for top in (desk / "tree", world.ws / "tree"):
        (top / "1" / "2").mkdir(parents=True)
        (top / "1" / "x").touch()
        with open(top / "sparse", "wb") as sparse:
            sparse.truncate((1 << 40) if word == "bytes" else 0)

    with pytest.raises(OSError, match=word) as down:
        world.files.download("tree", desk / "copy", bounds=bounds)
    with pytest.raises(OSError, match=word) as up:
        world.files.upload(desk / "tree", "copy", bounds=bounds)

    assert down.value.errno == up.value.errno == errno.EFBIG
    assert os.listdir(desk) == ["tree"]


def test_a_tree_finds_nothing_where_it_is_downloaded_to(world: World, desk: Path) -> None:
    (world.ws / "tree").mkdir()
    (world.ws / "tree" / "x").write_bytes(b"x")
    (desk / "there").mkdir()
    (desk / "link").symlink_to(world.outside)

    for name in ("there", "link"):
        with pytest.raises(FileExistsError) as caught:
            world.files.download("tree", desk / name)
        assert caught.value.filename == str(desk / name)

    assert os.listdir(desk / "there") == []
    assert world.untouched()


def test_a_downloaded_file_takes_the_place_of_a_link(world: World, desk: Path) -> None:
    """The target may lie where commands can write: naively, the link would be followed."""
    world.files.write("x", b"x")
    (desk / "x").symlink_to(world.outside / "secret")

    world.files.download("x", desk / "x")

    assert not (desk / "x").is_symlink() and (desk / "x").read_bytes() == b"x"
    assert world.untouched()


def test_what_is_denied_is_not_in_a_download(tmp_path: Path, desk: Path) -> None:
    world = World("granted", tmp_path)
    (world.ws / "tree" / "private").mkdir(parents=True)
    world.denied = [resolved_path(world.ws / "tree" / "private")]
    world.build()

    with pytest.raises(PolicyError) as caught:
        world.files.download("tree", desk / "copy")

    assert caught.value.code == "file-denied"
    assert os.listdir(desk) == []
    world.close()


def test_a_workspace_is_not_copied_into_itself(world: World) -> None:
    """It is the same directory on both sides; without a look at that, only the bounds would end it."""
    (world.ws / "sub").mkdir()

    for copy in (
        lambda: world.files.download(".", world.ws / "sub" / "copy"),
        lambda: world.files.upload(world.ws, "sub/copy"),
        lambda: world.files.upload(world.ws, "."),
    ):
        with pytest.raises(OSError, match="into itself") as caught:
            copy()
        assert caught.value.errno == errno.EINVAL

    assert not list(world.ws.rglob("copy/sub/copy/*"))
    assert not [path for path in world.ws.rglob("*") if path.name.startswith(".corral")]
