"""Reading, writing and listing files of a kept sandbox: what a caller may expect, on both kinds of root."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path

import pytest

from corral.model.errors import PolicyError
from corral.model.file_entry import FileKind
from corral.model.plan import Grant
from corral.model.policy import FsAccess
from corral.sandbox_files import base, put
from corral.sandbox_files.granted import GrantedFiles
from support.descriptors import count_descriptors
from support.file_worlds import KINDS, World, resolved_path


@pytest.fixture(params=KINDS)
def world(request: pytest.FixtureRequest, tmp_path: Path):
    made = World(request.param, tmp_path)
    before = count_descriptors()
    yield made
    assert count_descriptors() <= before
    made.close()


def test_what_was_written_is_read(world: World) -> None:
    world.files.write("a", b"first")
    world.files.write(world.at("ws/a"), b"second", mode=0o600)

    assert world.files.read("a") == b"second"
    assert (world.ws / "a").read_bytes() == b"second"
    assert os.listdir(world.ws) == ["a"]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o400])
def test_a_new_file_has_the_mode_that_was_given_whatever_the_umask(world: World, mode: int) -> None:
    before = os.umask(0o077)
    try:
        world.files.write("new", b"", mode=mode)
    finally:
        os.umask(before)

    status = (world.ws / "new").stat()
    assert stat.S_IMODE(status.st_mode) == mode
    assert status.st_uid == os.geteuid()


def test_only_permission_bits_are_a_mode(world: World) -> None:
    with pytest.raises(ValueError, match="permission bits"):
        world.files.write("new", b"", mode=0o4755)

    assert os.listdir(world.ws) == []


def test_a_file_that_is_there_keeps_mode_and_owner_but_no_set_id_bits(world: World) -> None:
    file = world.ws / "tool"
    file.write_bytes(b"old")
    if os.geteuid() == 0:
        os.chown(file, 1234, 1235)
    before = file.stat()
    file.chmod(0o6751)

    world.files.write("tool", b"new", mode=0o600)

    status = file.stat()
    assert (stat.S_IMODE(status.st_mode), file.read_bytes()) == (0o751, b"new")
    assert (status.st_uid, status.st_gid) == (before.st_uid, before.st_gid)


def test_another_name_of_a_file_keeps_the_old_contents(world: World) -> None:
    """A hard link in the workspace is no way to a file elsewhere; writing in place would be one."""
    os.link(world.outside / "secret", world.ws / "linked")

    world.files.write("linked", b"new")

    assert world.files.read("linked") == b"new"
    assert world.untouched()


def test_a_failed_write_leaves_the_old_contents_and_nothing_else(world: World, monkeypatch) -> None:
    world.files.write("a", b"old")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError) as caught:
        world.files.write("a", b"new")
    monkeypatch.undo()

    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, "a")
    assert {name: (world.ws / name).read_bytes() for name in os.listdir(world.ws)} == {"a": b"old"}


def test_links_inside_are_followed_for_reading_and_writing(world: World) -> None:
    (world.ws / "sub").mkdir()
    (world.ws / "absolute").symlink_to(world.at("ws/sub/file"))
    (world.ws / "chain").symlink_to("sub/../absolute")
    (world.ws / "up").symlink_to("../lib/library")

    world.files.write("chain", b"through two links, the last of which led nowhere")

    assert (world.ws / "sub" / "file").read_bytes() == world.files.read("absolute")
    assert (world.ws / "chain").is_symlink() and (world.ws / "absolute").is_symlink()
    assert world.files.read("up") == b"library"


@pytest.mark.parametrize("path", ["a/b/../../sub/x", "./sub//x", "../ws/sub/x", "../../../../../../ws/sub/x"])
def test_dots_mean_what_they_mean_inside(world: World, path: str) -> None:
    (world.ws / "a" / "b").mkdir(parents=True)
    (world.ws / "sub").mkdir()
    (world.ws / "sub" / "x").write_bytes(b"x")
    if world.kind == "granted" and path.startswith("../../"):
        path = f"{'../' * 30}{str(world.ws)[1:]}/sub/x"

    assert world.files.read(path) == b"x"


def test_links_without_end_are_an_error(world: World) -> None:
    (world.ws / "a").symlink_to("b")
    (world.ws / "b").symlink_to("a")

    for call in (world.files.read, lambda path: world.files.write(path, b"")):
        with pytest.raises(OSError) as caught:
            call("a")
        assert (caught.value.errno, caught.value.filename) == (errno.ELOOP, "a")


CASES = [
    ("missing", FileNotFoundError),
    ("missing/a", FileNotFoundError),
    ("file/a", NotADirectoryError),
    ("sub", IsADirectoryError),
    ("", FileNotFoundError),
    ("x" * 300, OSError),
    ("sub/" * 2000 + "x", OSError),
]


@pytest.mark.parametrize(("path", "kind"), CASES, ids=[case[0][:10] or "empty" for case in CASES])
def test_errors_are_those_of_python_and_name_the_path_as_given(world: World, path: str, kind: type) -> None:
    (world.ws / "file").touch()
    (world.ws / "sub").mkdir()

    with pytest.raises(kind) as caught:
        world.files.read(path)

    assert caught.value.filename == path


@pytest.mark.parametrize("path", ["sub", "sub/", "new/", "sub/.", "sub/..", "."])
def test_a_directory_is_not_written_to(world: World, path: str) -> None:
    (world.ws / "sub").mkdir()

    with pytest.raises(IsADirectoryError):
        world.files.write(path, b"x")

    assert os.listdir(world.ws) == ["sub"]


def test_a_null_byte_cuts_nothing_off(world: World) -> None:
    world.files.write("a", b"short")

    for call in (world.files.read, world.files.list, lambda path: world.files.write(path, b"")):
        with pytest.raises(ValueError, match="null byte"):
            call("a\0b")


def test_a_name_that_is_no_text_can_be_listed_read_and_written(world: World) -> None:
    name = os.fsdecode(b"caf\xe9\n")
    world.files.write(name, b"x")

    assert [entry.name for entry in world.files.list()] == [name]
    assert world.files.read(name) == b"x"


def test_what_is_longer_than_the_limit_is_refused_and_never_cut(world: World) -> None:
    world.files.write("a", b"12345")

    assert world.files.read("a", limit=5) == b"12345"
    with pytest.raises(OSError) as caught:
        world.files.read("a", limit=4)
    assert caught.value.errno == errno.EFBIG


def test_a_sparse_file_costs_no_memory(world: World) -> None:
    with open(world.ws / "huge", "wb") as huge:
        huge.truncate(1 << 42)

    with pytest.raises(OSError) as caught:
        world.files.read("huge")

    assert caught.value.errno == errno.EFBIG


@pytest.fixture
def specials(world: World):
    """Of what is neither file nor directory, as much as the caller may make."""
    os.mkfifo(world.ws / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        directory = os.open(world.ws, os.O_PATH)
        listening.bind(f"/proc/self/fd/{directory}/socket")
        os.close(directory)
        if os.geteuid() == 0:
            os.mknod(world.ws / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero, without end
        yield sorted(os.listdir(world.ws))


def test_what_is_neither_file_nor_directory_is_not_opened(world: World, specials: list[str]) -> None:
    """A FIFO would block, and so would a write to it; a device or socket acts when it is opened."""
    for name in specials:
        for call in (world.files.read, world.files.list, lambda path: world.files.write(path, b"x")):
            with pytest.raises(OSError) as caught:
                call(name)
            assert caught.value.errno in {errno.EINVAL, errno.ENOTDIR}
            assert caught.value.filename == name

    assert sorted(os.listdir(world.ws)) == specials
    assert {entry.kind for entry in world.files.list()} == {FileKind.OTHER}


def test_a_listing_is_sorted_and_tells_what_is_there(world: World) -> None:
    (world.ws / "sub").mkdir(mode=0o700)
    (world.ws / "link").symlink_to("nowhere")
    (world.ws / "file").write_bytes(b"1234")
    (world.ws / "file").chmod(0o640)
    os.utime(world.ws / "file", (1, 7.5))

    entries = world.files.list(world.at("ws"))

    assert [(entry.name, entry.kind) for entry in entries] == [
        ("file", FileKind.FILE),
        ("link", FileKind.LINK),
        ("sub", FileKind.DIRECTORY),
    ]
    assert (entries[0].size, entries[0].mode, entries[0].modified) == (4, 0o640, 7.5)


def test_a_listing_has_an_end(world: World, monkeypatch) -> None:
    monkeypatch.setattr(base, "MOST_LISTED", 3)
    for name in "abcd":
        (world.ws / name).touch()

    with pytest.raises(OSError) as caught:
        world.files.list()

    assert caught.value.errno == errno.EFBIG


def test_missing_directories_are_made_only_when_asked_for(world: World) -> None:
    with pytest.raises(FileNotFoundError):
        world.files.write("a/b/c", b"x")
    assert os.listdir(world.ws) == []

    world.files.write("a/b/c", b"x", parents=True)

    assert world.files.read("a/b/c") == b"x"


@pytest.mark.parametrize("path", [".envrc", ".git/hooks/pre-commit", "alias/.envrc"])
def test_a_protected_name_is_made_neither_as_a_file_nor_on_the_way(world: World, path: str) -> None:
    (world.ws / "alias").symlink_to(".")
    world.protect(world.ws, ".envrc")
    world.protect(world.ws, ".git")

    with pytest.raises(PolicyError) as caught:
        world.files.write(path, b"x", parents=True)

    assert caught.value.code == "file-protected"
    assert os.listdir(world.ws) == ["alias"]


def test_a_link_to_a_protected_name_does_not_make_it(world: World) -> None:
    world.protect(world.ws, ".envrc")
    (world.ws / "notes").symlink_to(".envrc")

    with pytest.raises(PolicyError):
        world.files.write("notes", b"x")

    assert os.listdir(world.ws) == ["notes"]


def test_what_the_policy_only_lets_be_read_is_not_written(tmp_path: Path) -> None:
    """With mounts the mount says so; here the grant does, also when it was renamed into a writable one."""
    world = World("granted", tmp_path)

    for name in (world.at("lib/library"), world.at("lib/new")):
        with pytest.raises(PermissionError) as caught:
            world.files.write(name, b"x")
        assert caught.value.filename == name
    (world.root / "lib").rename(world.ws / "moved")
    for name in ("moved/library", "moved/new"):
        with pytest.raises(PermissionError):
            world.files.write(name, b"x")

    assert [path.read_bytes() for path in (world.ws / "moved").iterdir()] == [b"library"]
    world.close()


def test_outside_of_every_grant_there_is_nothing(tmp_path: Path) -> None:
    world = World("granted", tmp_path)
    (world.ws / "out").symlink_to(world.outside)

    for path in ("/etc/passwd", str(world.outside / "secret"), "out/secret", "../../outside/secret", "/"):
        with pytest.raises(PermissionError) as caught:
            world.files.read(path)
        assert caught.value.filename == path
    for path in (str(world.outside / "new"), "out/new"):
        with pytest.raises(PermissionError):
            world.files.write(path, b"x", parents=True)

    assert world.untouched()
    world.close()


def test_a_grant_in_whose_place_something_else_lies_is_not_entered(tmp_path: Path) -> None:
    world = World("granted", tmp_path)
    world.ws.rename(world.root / "before")
    world.ws.symlink_to(world.outside)
    with pytest.raises(OSError) as caught:
        world.files.read("secret")
    assert caught.value.errno == errno.ESTALE

    world.ws.unlink()
    world.ws.mkdir()
    with pytest.raises(OSError) as caught:
        world.files.write("new", b"x")
    assert caught.value.errno == errno.ESTALE
    world.close()


@pytest.mark.parametrize("way", ["private/key", "alias/key", "moved/key", "key2", "private"])
def test_what_is_denied_is_refused_under_every_name(tmp_path: Path, way: str) -> None:
    """By device and inode: the control is the same path before the denial."""
    world = World("granted", tmp_path)
    private = world.ws / "private"
    private.mkdir()
    (private / "key").write_bytes(b"key")
    world.denied = [resolved_path(private), resolved_path(private / "key")]
    (world.ws / "alias").symlink_to("private")
    os.link(private / "key", world.ws / "key2")
    if way.startswith("moved"):
        private.rename(world.ws / "moved")
    is_directory = way == "private"

    def look() -> object:
        return world.files.list(way) if is_directory else world.files.read(way)

    assert look()

    world.build()

    for call in (look, lambda: world.files.write(f"{way}/new" if is_directory else way, b"x")):
        with pytest.raises(PolicyError) as caught:
            call()
        assert caught.value.code == "file-denied"
    assert os.stat(world.ws / "key2").st_size == 3
    world.close()


def test_a_single_granted_file_is_written_in_place(tmp_path: Path) -> None:
    """A rule of Landlock is about the object: another file under that name would not be granted."""
    world = World("granted", tmp_path)
    file = world.outside / "secret"
    inode = file.stat().st_ino
    files = GrantedFiles([Grant(resolved_path(file), FsAccess.WRITE)], [], lambda *_: False)

    files.write(str(file), b"new")

    assert (file.read_bytes(), file.stat().st_ino) == (b"new", inode)
    with pytest.raises(PermissionError):
        files.write(f"{world.outside}/other", b"x")
    world.close()


@pytest.fixture
def no_giving(monkeypatch) -> None:
    """The caller may not give files away: the old file has an owner that a new one cannot have."""
    monkeypatch.setattr(put, "_give", lambda *_: False)


def test_a_file_whose_owner_cannot_be_kept_is_written_in_place(world: World, no_giving: None) -> None:
    file = world.ws / "file"
    file.write_bytes(b"something longer")
    inode = file.stat().st_ino

    world.files.write("file", b"new")

    assert (file.read_bytes(), file.stat().st_ino) == (b"new", inode)
    assert os.listdir(world.ws) == ["file"]


def test_in_place_neither_other_names_nor_set_id_bits_get_new_contents(world: World, no_giving: None) -> None:
    os.link(world.outside / "secret", world.ws / "linked")
    (world.ws / "tool").write_bytes(b"tool")
    (world.ws / "tool").chmod(0o4755)

    for name in ("linked", "tool"):
        with pytest.raises(PermissionError) as caught:
            world.files.write(name, b"new")
        assert caught.value.filename == name

    assert (world.ws / "tool").read_bytes() == b"tool"
    assert sorted(os.listdir(world.ws)) == ["linked", "tool"]
    assert world.untouched()
