"""The host's side of a kept sandbox goes over the sandbox's own mounts, and takes none of them away."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from corral.sandbox_files.root import RootFiles

#: Shields one file, hides another, mounts a writable one and a private area; then answers questions.
_INSIDE = """
set -e
cd "$1"
mount --bind ws/config ws/config
mount -o remount,bind,ro ws/config
mount --bind empty ws/hidden
mount -o remount,bind,ro ws/hidden
mount --bind elsewhere ws/granted
mount -t tmpfs none ws/private
mount --bind ws/readonly ws/readonly
mount -o remount,bind,ro ws/readonly
set +e
echo ready
while read -r line; do sh -c "$line" 2>&1; echo "status $?"; done
"""


class Inside:
    def __init__(self, top: Path) -> None:
        self.ws = top / "ws"
        for directory in ("ws", "ws/private", "ws/readonly"):
            (top / directory).mkdir()
        for name in ("ws/config", "ws/hidden", "ws/granted", "ws/readonly/file", "empty", "elsewhere"):
            (top / name).write_text(f"{name}\n")
        (top / "empty").write_text("")
        user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
        self._process = subprocess.Popen(
            ["unshare", *user, "--mount", "sh", "-c", _INSIDE, "sh", str(top)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if self._process.stdout.readline() != "ready\n":
            reason = self._process.communicate()[1]
            pytest.skip(f"there is no mount namespace to be had: {reason.strip()}")
        self.root = os.open(f"/proc/{self._process.pid}/root", os.O_PATH)
        self.files = RootFiles(self.root, lambda *_: False, cwd=str(self.ws))

    def run(self, line: str) -> str:
        """What a shell inside prints."""
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        printed = ""
        while not (answer := self._process.stdout.readline()).startswith("status "):
            assert answer
            printed += answer
        return printed

    def is_mounted(self, name: str) -> bool:
        return f"{self.ws}/{name} " in self.run("cat /proc/self/mountinfo")

    def close(self) -> None:
        os.close(self.root)
        self._process.communicate()


@pytest.fixture
def inside(tmp_path: Path):
    made = Inside(tmp_path)
    yield made
    made.close()


def _rename_over(inside: Inside, name: str) -> None:
    """What a file interface does that writes beside and renames."""
    parent = os.open(str(inside.ws)[1:], os.O_PATH, dir_fd=inside.root)
    handle = os.open("temporary", os.O_CREAT | os.O_WRONLY, dir_fd=parent)
    os.write(handle, b"planted\n")
    os.close(handle)
    os.rename("temporary", name, src_dir_fd=parent, dst_dir_fd=parent)
    os.close(parent)


def test_the_naive_way_takes_a_shield_away(inside: Inside) -> None:
    """The control: from another mount namespace a rename over a mount point works and unmounts it."""
    assert "Read-only" in inside.run(f"echo x > {inside.ws}/config")

    _rename_over(inside, "config")

    assert not inside.is_mounted("config")
    assert (inside.ws / "config").read_text() == "planted\n"


@pytest.mark.parametrize("name", ["config", "hidden"])
def test_a_shield_stays_where_it_is(inside: Inside, name: str, tmp_path: Path) -> None:
    before = (inside.ws / name).read_text()
    source = tmp_path / "source"
    source.mkdir()
    (source / name).write_text("planted\n")
    calls = (
        lambda: inside.files.write(name, b"planted\n"),
        lambda: inside.files.upload(source / name, name),
        lambda: inside.files.upload(source, "."),
    )

    for call in calls:
        with pytest.raises(OSError) as caught:
            call()
        assert caught.value.errno == errno.EROFS
        assert caught.value.filename in {name, f"./{name}"}

    (source / name).unlink()
    (source / name).symlink_to("x")
    with pytest.raises(FileExistsError):
        inside.files.upload(source, ".")
    assert inside.is_mounted(name)
    assert (inside.ws / name).read_text() == before
    assert sorted(os.listdir(inside.ws)) == ["config", "granted", "hidden", "private", "readonly"]


def test_what_is_read_only_inside_is_so_for_the_caller(inside: Inside) -> None:
    for path in ("readonly/file", "readonly/new"):
        with pytest.raises(OSError) as caught:
            inside.files.write(path, b"x")
        assert (caught.value.errno, caught.value.filename) == (errno.EROFS, path)

    assert inside.files.read("readonly/file") == b"ws/readonly/file\n"
    assert os.listdir(inside.ws / "readonly") == ["file"]


def test_a_hidden_file_shows_what_it_shows_inside(inside: Inside) -> None:
    assert (inside.ws / "hidden").read_text() == "ws/hidden\n"

    assert inside.files.read("hidden") == b""


def test_a_mounted_file_is_written_through_the_mount(inside: Inside, tmp_path: Path) -> None:
    inside.files.write("granted", b"new\n")

    assert (tmp_path / "elsewhere").read_text() == "new\n"
    assert (inside.ws / "granted").read_text() == "ws/granted\n"
    assert inside.is_mounted("granted")


def test_a_private_area_is_the_one_inside(inside: Inside) -> None:
    inside.files.write("private/x", b"from outside\n")
    inside.run(f"echo from inside > {inside.ws}/private/y")

    assert inside.run(f"cat {inside.ws}/private/x") == "from outside\n"
    assert inside.files.read("private/y") == b"from inside\n"
    assert [entry.name for entry in inside.files.list("private")] == ["x", "y"]
    assert os.listdir(inside.ws / "private") == []


@pytest.mark.parametrize(
    "path", ["/proc/version", "/proc/sys/kernel/hostname", "/sys/kernel/uevent_seqnum", "/proc"]
)
def test_the_kernels_own_files_are_refused(inside: Inside, path: str, tmp_path: Path) -> None:
    """They would be read, and written, with the power of the caller."""
    assert os.path.isdir(path) or Path(path).read_text()
    (inside.ws / "innocent").symlink_to(path)

    for name in (path, "innocent"):
        with pytest.raises((PermissionError, IsADirectoryError)):
            inside.files.read(name)
        with pytest.raises((PermissionError, NotADirectoryError)):
            inside.files.list(name)
        with pytest.raises((PermissionError, IsADirectoryError)):
            inside.files.write(name, b"x")
        with pytest.raises(PermissionError):
            inside.files.download(name, tmp_path / "copy")


@pytest.mark.parametrize("path", ["/proc/1/root/etc/passwd", "/proc/1/cwd/etc/passwd"])
def test_no_magic_link_is_followed(inside: Inside, path: str) -> None:
    (inside.ws / "innocent").symlink_to(path)

    for name in (path, "innocent"):
        with pytest.raises(OSError) as caught:
            inside.files.read(name)
        assert caught.value.errno in {errno.ELOOP, errno.EACCES}
