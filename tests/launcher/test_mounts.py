"""The command's file system is what the records say, and building it changes nothing on the host."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest
from launching import Mount, MountFlag, MountKind, bind, confined, launch, shell

from corral.linux.spec import Areas

READ_ONLY = MountFlag.READ_ONLY


@pytest.fixture
def shared(open_directory: Path) -> Path:
    """A host directory every user may write, with a file and a directory in it."""
    (open_directory / "sub").mkdir()
    (open_directory / "sub" / "file").write_text("inside\n")
    (open_directory / "file").write_text("hello\n")
    for path in open_directory.rglob("*"):
        path.chmod(0o777)
    return open_directory


def mask(path: str) -> Mount:
    found = os.stat(path)
    return Mount(MountKind.MASK, path, device=found.st_dev, inode=found.st_ino)


def output(binary: Path, user: int, script: str, *mounts: Mount) -> str:
    done = launch(binary, confined(*shell(script), user=user, mounts=mounts))
    assert done.lines[0] == "started", done.lines
    return done.output.decode()


def failure(binary: Path, *mounts: Mount, user: int = os.getuid(), areas: Areas | None = None) -> str:
    done = launch(binary, confined("true", user=user, mounts=mounts, areas=areas))
    assert done.exit_code == 125 and len(done.lines) == 1, done.lines
    return done.lines[0].removeprefix("failed mounts ")


def test_what_is_not_named_is_not_there(launcher: Path, user: int) -> None:
    assert set(output(launcher, user, "ls -A /").split()) <= {
        *("bin", "dev", "etc", "lib", "lib64", "proc", "sbin", "tmp", "usr")
    }


def test_a_writable_bind_is_the_host_directory(launcher: Path, user: int, shared: Path) -> None:
    output(launcher, user, "echo more >> /w/file", bind(str(shared), MountFlag(0), "/w"))

    assert (shared / "file").read_text() == "hello\nmore\n"


def test_a_read_only_bind_below_a_writable_one(launcher: Path, user: int, shared: Path) -> None:
    text = output(
        launcher,
        user,
        f"cd {shared}; echo x >> sub/file; rm -rf sub; mv sub other; chmod 700 sub; "
        "echo y >> file; cat sub/file",
        bind(str(shared), MountFlag(0)),
        bind(str(shared / "sub")),
    )

    assert text.count("Read-only file system") == 3
    assert text.count("busy") >= 1
    assert text.endswith("inside\n")
    assert (shared / "file").read_text() == "hello\ny\n"


def test_flags(launcher: Path, shared: Path) -> None:
    (shared / "tool").write_text("#!/bin/sh\necho ran\n")
    (shared / "tool").chmod(0o755)
    flags = READ_ONLY | MountFlag.NO_EXEC

    text = output(
        launcher, os.getuid(), "/w/tool; grep ' /w ' /proc/self/mountinfo", bind(str(shared), flags, "/w")
    )

    assert "/w/tool: Permission denied" in text
    assert " ro,nosuid,nodev,noexec," in text


def test_devices_work_where_they_are_granted_and_nowhere_else(launcher: Path, user: int) -> None:
    null = Mount(MountKind.BIND, "/other/null", "/dev/null", MountFlag.UNVERIFIED)

    text = output(launcher, user, "echo x > /dev/null && echo ok; echo x > /other/null", null)

    assert text.startswith("ok\n")
    assert "/other/null: Permission denied" in text


def test_a_source_that_changed_is_refused(launcher: Path, user: int, shared: Path) -> None:
    planned = bind(str(shared / "sub"), READ_ONLY, "/w")
    (shared / "sub").rename(shared / "old")
    (shared / "sub").mkdir()

    text = failure(launcher, planned, user=user)

    assert text == f"{errno.ESTALE} bind /w: changed since it was planned"


def test_a_source_behind_a_link_is_refused(launcher: Path, user: int, shared: Path) -> None:
    (shared / "link").symlink_to("sub")

    for source in (shared / "link", shared / "link" / "file"):
        text = failure(launcher, bind(str(source), READ_ONLY, "/w"), user=user)
        assert text == f"{errno.ELOOP} bind /w: source {source}: has a symbolic link"


def test_a_target_behind_a_link_is_refused(launcher: Path, user: int, shared: Path) -> None:
    """bubblewrap 0.8 made a file at the link's end, on the host."""
    (shared / "link").symlink_to("/tmp")
    outer = bind(str(shared), MountFlag(0), "/w")

    for target in ("/w/link", "/w/link/x", "/w/link/x/y"):
        assert failure(launcher, outer, bind("/usr", target=target), user=user).startswith(f"{errno.ELOOP} ")


@pytest.mark.parametrize(
    "mount",
    [
        Mount(MountKind.TMPFS, "/w/new"),
        Mount(MountKind.TMPFS, "/w/new/er"),
        Mount(MountKind.SYMLINK, "/w/new", "x"),
        Mount(MountKind.FILE, "/w/new", content=b"x"),
        Mount(MountKind.DIRECTORY, "/w/new"),
        Mount(MountKind.PROC, "/w/new"),
        Mount(MountKind.BIND, "/w/new", "/dev/null", MountFlag.UNVERIFIED),
        Mount(MountKind.BIND, "/w/new/er", "/usr", MountFlag.UNVERIFIED),
    ],
    ids=lambda mount: f"{mount.kind.name}-{mount.target}",
)
def test_nothing_is_created_on_the_host(launcher: Path, user: int, shared: Path, mount: Mount) -> None:
    before = sorted(os.listdir(shared))

    text = failure(launcher, bind(str(shared), MountFlag(0), "/w"), mount, user=user)

    assert text.endswith(": would create a mount point on the host")
    assert sorted(os.listdir(shared)) == before


def test_masks_hide_and_cannot_be_undone(launcher: Path, user: int, shared: Path) -> None:
    text = output(
        launcher,
        user,
        f"cd {shared}; cat file; ls sub; cat sub/file; chmod 777 file sub; rm -f file; rmdir sub; "
        "stat -c %a file sub",
        bind(str(shared), MountFlag(0)),
        mask(str(shared / "file")),
        mask(str(shared / "sub")),
    )

    assert "hello" not in text and "inside" not in text
    assert text.count("Permission denied") == 3
    assert text.count("Read-only file system") >= 2
    assert text.endswith("0\n0\n")
    assert (shared / "file").read_text() == "hello\n"


def test_a_mask_over_something_else_is_refused(launcher: Path, shared: Path) -> None:
    planned = mask(str(shared / "file"))
    (shared / "file").rename(shared / "old")
    (shared / "file").write_text("new")

    text = failure(launcher, bind(str(shared), MountFlag(0)), planned)

    assert text == f"{errno.ESTALE} mask {shared}/file: changed since it was planned"


def test_no_trace_of_the_masks(launcher: Path, shared: Path) -> None:
    names = output(
        launcher, os.getuid(), "ls -A /", bind(str(shared), MountFlag(0)), mask(str(shared / "file"))
    )

    assert ".corral" not in names


def link(path: str, text: str) -> Mount:
    found = os.stat(path)
    return Mount(MountKind.LINK, path, text, device=found.st_dev, inode=found.st_ino)


def test_a_link_covers_a_file_and_leads_elsewhere(launcher: Path, user: int, shared: Path) -> None:
    script = (
        f"cd {shared}; readlink file; echo more >> file; cat /made/copy; echo x > new; mv new file; rm file; "
        "mv file other; ln -sfn /etc file; ls"
    )

    text = output(
        launcher,
        user,
        script,
        bind(str(shared), MountFlag(0)),
        bind(str(shared / "sub"), MountFlag(0), "/made"),
        link(str(shared / "file"), "/made/copy"),
    )

    assert text.startswith("/made/copy\nmore\n")
    assert text.count("busy") >= 3
    assert (shared / "file").read_text() == "hello\n"
    assert (shared / "sub" / "copy").read_text() == "more\n"


def test_a_link_over_something_else_is_refused(launcher: Path, user: int, shared: Path) -> None:
    planned = link(str(shared / "file"), "/made/copy")
    (shared / "file").rename(shared / "old")
    (shared / "file").write_text("another")

    text = failure(launcher, bind(str(shared), MountFlag(0)), planned, user=user)

    assert text == f"{errno.ESTALE} link {shared}/file: changed since it was planned"


def test_a_link_over_a_link_is_refused(launcher: Path, user: int, shared: Path) -> None:
    planned = link(str(shared / "file"), "/made/copy")
    (shared / "file").rename(shared / "old")
    (shared / "file").symlink_to("old")

    text = failure(launcher, bind(str(shared), MountFlag(0)), planned, user=user)

    assert text.startswith(f"{errno.ELOOP} link ")


COPY, MOUNTED = "/made/copy", "grep -qF ' /made/copy ' /proc/self/mountinfo && echo mounted || echo copied"


def copy(path: Path, target: str = COPY) -> Mount:
    return bind(str(path), READ_ONLY, target).replace(kind=MountKind.COPY)


def test_a_small_file_for_everyone_is_copied_and_stays_as_it_is(
    launcher: Path, user: int, shared: Path
) -> None:
    file = shared / "file"
    file.write_bytes(b"0123456789abcdef" * 4096)
    file.chmod(0o644)

    text = output(
        launcher,
        user,
        f"{MOUNTED}; cd /made; cksum < copy; echo x >> copy; rm -f copy; chmod 600 copy; touch new; "
        "stat -c %a copy",
        copy(file),
    )

    control = subprocess.run(["cksum"], stdin=file.open(), capture_output=True, text=True, check=True)
    assert text.startswith(f"copied\n{control.stdout}")
    assert text.count("Read-only file system") + text.count("Permission denied") == 4
    assert text.endswith("444\n")
    assert file.read_bytes() == b"0123456789abcdef" * 4096


@pytest.mark.parametrize("case", ["large", "closed", "directory", "fifo", "where commands write"])
def test_anything_else_is_bound(launcher: Path, shared: Path, case: str) -> None:
    path = shared / "sub" if case == "directory" else shared / "file"
    if case == "large":
        path.write_bytes(b"x" * (64 * 1024 + 1))
    if case == "closed":
        path.chmod(0o640)
    if case == "fifo":
        path.unlink()
        os.mkfifo(path, 0o644)

    area = (Mount(MountKind.TMPFS, "/made", size=1 << 20, mode=0o777),) if "write" in case else ()

    text = output(launcher, os.getuid(), MOUNTED, *area, copy(path))

    assert text == "mounted\n"


def test_a_copy_is_of_what_was_planned(launcher: Path, user: int, shared: Path) -> None:
    planned = copy(shared / "file")
    (shared / "file").rename(shared / "old")
    (shared / "file").write_text("another")

    text = failure(launcher, planned, user=user)

    assert text == f"{errno.ESTALE} copy {COPY}: changed since it was planned"


def test_a_copy_is_not_led_by_a_link(launcher: Path, user: int, shared: Path) -> None:
    planned = copy(shared / "file")
    (shared / "file").rename(shared / "old")
    (shared / "file").symlink_to("old")

    text = failure(launcher, planned, user=user)

    assert text.startswith(f"{errno.ELOOP} copy ")


def test_what_is_made_after_a_mount_lies_in_it(launcher: Path, user: int) -> None:
    """Beside what was made in the same directory before, which the mount hides."""
    text = output(
        launcher,
        user,
        "cd /a/b; cat *",
        Mount(MountKind.FILE, "/a/b/before", mode=0o644, content=b"before"),
        Mount(MountKind.TMPFS, "/a", size=1 << 20, mode=0o755),
        Mount(MountKind.FILE, "/a/b/after", mode=0o644, content=b"after"),
    )

    assert text == "after"


def test_no_trace_of_the_links(launcher: Path, user: int, shared: Path) -> None:
    text = output(
        launcher,
        user,
        "ls -A /; touch -h /nowhere 2>&1; grep -c /file /proc/self/mountinfo",
        bind(str(shared), MountFlag(0)),
        link(str(shared / "file"), "/made/copy"),
    )

    assert ".corral" not in text
    assert text.endswith("1\n")


def test_a_tmpfs_has_its_size_and_mode(launcher: Path, user: int) -> None:
    mount = Mount(MountKind.TMPFS, "/scratch", size=1 << 20, mode=0o700)

    text = output(
        launcher,
        user,
        "stat -c %a /scratch; head -c 2000000 /dev/zero > /scratch/f; stat -c %s /scratch/f",
        mount,
    )

    assert text.startswith("700\n") and text.endswith(f"\n{1 << 20}\n")
    assert "No space left" in text


def test_a_read_only_tmpfs_may_still_hold_mount_points(launcher: Path, user: int, shared: Path) -> None:
    text = output(
        launcher,
        user,
        "cat /home/me/w/file; touch /home/me/x; touch /home/me/w/new && echo ok",
        Mount(MountKind.TMPFS, "/home", flags=READ_ONLY, mode=0o755),
        bind(str(shared), MountFlag(0), "/home/me/w"),
    )

    assert text.startswith("hello\n") and text.endswith("ok\n") and "Read-only file system" in text


def test_files_links_and_directories_are_made_up(launcher: Path, user: int) -> None:
    old = os.umask(0o077)
    text = output(
        launcher,
        user,
        "cat /etc2/motd /link/motd; stat -c '%a %n' /etc2 /etc2/motd /d; umask; echo x > /etc2/motd",
        Mount(MountKind.FILE, "/etc2/motd", mode=0o644, content=b"hi\n"),
        Mount(MountKind.SYMLINK, "/link", "etc2"),
        Mount(MountKind.SYMLINK, "/link", "etc2"),
        Mount(MountKind.DIRECTORY, "/d", mode=0o711),
    )
    os.umask(old)

    assert text.startswith("hi\nhi\n755 /etc2\n644 /etc2/motd\n711 /d\n0077\n")
    assert "Read-only file system" in text


@pytest.mark.parametrize(
    "mount",
    [
        Mount(MountKind.SYMLINK, "/bin", "elsewhere"),
        Mount(MountKind.SYMLINK, "/tmp", "elsewhere"),
        Mount(MountKind.FILE, "/tmp"),
        Mount(MountKind.DIRECTORY, "/tmp"),
    ],
    ids=lambda mount: f"{mount.kind.name}-{mount.target}",
)
def test_what_is_there_already_is_not_replaced(launcher: Path, mount: Mount) -> None:
    assert failure(launcher, mount).startswith(f"{errno.EEXIST} ")


@pytest.mark.parametrize("kind", list(MountKind))
def test_the_root_itself_is_no_target(launcher: Path, kind: MountKind) -> None:
    areas = Areas(1 << 20, 10) if kind is MountKind.AREA else None
    content = b"/upper\0/work\0" if kind is MountKind.OVERLAY else b""
    target = Mount(kind, "/", "/usr", MountFlag.UNVERIFIED, content=content)

    assert failure(launcher, target, areas=areas).startswith(f"{errno.EINVAL} ")


def test_the_whole_host_can_be_bound_read_only(launcher: Path, user: int) -> None:
    text = output(
        launcher, user, "ls /host/usr/bin/env; touch /host/tmp/x /host/proc/x", bind("/", target="/host")
    )

    assert text.startswith("/host/usr/bin/env\n")
    assert text.count("Read-only file system") >= 1


def test_proc_shows_only_the_inside_and_its_settings_are_read_only(launcher: Path, user: int) -> None:
    text = output(launcher, user, "echo /proc/[0-9]*; echo x > /proc/sys/kernel/core_pattern")

    first, *others = text.split("\n")[0].split()
    assert first == "/proc/1"
    assert len(others) == 1  # the command: whoever has made the network is gone
    assert "Read-only file system" in text or "Permission denied" in text


def test_a_private_terminal_can_be_opened(launcher: Path, user: int) -> None:
    script = 'python3 -SEc "import os; print(os.ttyname(os.openpty()[1]))"'

    assert output(launcher, user, script) == "/dev/pts/0\n"


def test_nothing_mounted_inside_appears_on_the_host(launcher: Path, user: int, shared: Path) -> None:
    output(launcher, user, "true", bind(str(shared)), Mount(MountKind.TMPFS, f"{shared}/sub"))

    assert str(shared) not in Path("/proc/self/mountinfo").read_text()
    assert (shared / "sub" / "file").exists()


def test_no_name_leads_to_the_old_root(launcher: Path, user: int) -> None:
    script = (
        'for d in /.. /proc/self/root/.. /tmp/../..; do [ "$(ls -A $d)" = "$(ls -A /)" ] && echo same; done'
    )

    assert output(launcher, user, script + "; ls /oldroot 2>/dev/null") == "same\n" * 3


def test_a_path_bound_onto_itself_must_still_be_itself(launcher: Path, user: int, shared: Path) -> None:
    """Else the bind would cover another object, and the name it was to protect would be free."""
    (shared / "sub" / "sub").mkdir()
    elsewhere = bind(str(shared / "sub"), MountFlag(0), target=str(shared))

    text = failure(launcher, elsewhere, bind(str(shared / "sub")), user=user)

    assert text == f"{errno.ESTALE} bind {shared}/sub: changed since it was planned"
