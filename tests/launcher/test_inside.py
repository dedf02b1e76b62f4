"""Inside somebody else's sandbox: the launcher is equipped by a socket, and looks at what it finds."""

from __future__ import annotations

import array
import errno
import os
import signal
import socket
from pathlib import Path

import pytest
from launching import PATH, Running

from corral.linux.encode import encode
from corral.linux.spec import Cgroup, CgroupKind, Expect, ExpectFlag, Mount, MountFlag, MountKind, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

NOTHING = ExpectFlag(0)
NEEDS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root may mount without a namespace of its own")


def begin(
    launcher: Path,
    spec: Spec,
    *,
    files: Sequence[int] = (),
    env: dict[str, str] | None = None,
    wrap: Sequence[str] = (),
) -> Running:
    """Start a launcher with nothing but a socket, and send it the rest."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    argv = [*wrap, str(launcher), "--control", "3"]
    pid = os.posix_spawnp(
        argv[0], argv, env or {}, file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), 3)], setsid=True
    )
    theirs.close()
    with ours:
        assert ours.recv(64) == b"corral-launch 1"
        return _equip(ours, pid, spec, files)


def _equip(control: socket.socket, pid: int, spec: Spec, files: Sequence[int]) -> Running:
    memory = os.memfd_create("spec")
    os.write(memory, encode(spec))
    status_read, status_write = os.pipe()
    life_read, life_write = os.pipe()
    out_read, out_write = os.pipe()
    null = os.open("/dev/null", os.O_RDONLY)
    given = (null, out_write, out_write, memory, status_write, life_read, *files)
    control.sendmsg([b"g"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", given))])
    for descriptor in set(given):
        os.close(descriptor)
    return Running(pid, status_read, life_write, out_read)


def inside(*argv: str, **fields: object) -> Spec:
    return Spec(argv=argv, cwd="/", env=(PATH,), inside=True, **fields)  # type: ignore[arg-type]


def of(path: Path | str, flags: ExpectFlag = NOTHING) -> Expect:
    status = os.stat(path)
    return Expect(os.path.realpath(path), flags, status.st_dev, status.st_ino)


def failure(done: Running) -> tuple[str, int, str]:
    assert done.lines[0].startswith("failed "), done.lines
    _, phase, number, detail = done.lines[0].split(" ", 3)
    return phase, int(number), detail


def test_a_launcher_with_a_socket_alone_runs_the_command(launcher: Path) -> None:
    done = begin(launcher, inside("sh", "-c", "echo here; ls /proc/self/fd | wc -l; exit 7")).finish()

    assert done.lines == ["started", "exited 7"]
    assert done.output.split() == [b"here", b"4"]  # three, and the one of the directory


def test_a_launcher_that_nobody_answers_runs_nothing(launcher: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.posix_spawn(
        launcher, [launcher, "--control", "3"], {}, file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), 3)]
    )
    theirs.close()
    ours.recv(64)
    ours.close()

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 125


@pytest.mark.parametrize("count", [0, 5])
def test_a_launcher_without_its_descriptors_runs_nothing(launcher: Path, count: int) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.posix_spawn(
        launcher, [launcher, "--control", "3"], {}, file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), 3)]
    )
    theirs.close()
    with ours, open(os.devnull, "rb") as null:
        ours.recv(64)
        given = array.array("i", [null.fileno()] * count)
        ours.sendmsg([b"g"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, given)] if count else [])

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 125


def test_a_socket_is_found_by_its_path(launcher: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(tmp_path / "control"))
        listener.listen(1)
        pid = os.posix_spawn(launcher, [launcher, "--control", str(tmp_path / "control")], {})
        control, _ = listener.accept()
        with control:
            control.recv(64)
            done = _equip(control, pid, inside("true"), ()).finish()

    assert done.lines == ["started", "exited 0"]


def test_what_is_as_expected_lets_the_command_run(launcher: Path, tmp_path: Path) -> None:
    expects = (of(tmp_path), of("/proc", ExpectFlag.MOUNT_POINT), of("/dev/null"))

    done = begin(launcher, inside("true", expects=expects)).finish()

    assert done.lines == ["started", "exited 0"]


def test_another_object_than_the_planned_one_is_noticed(launcher: Path, tmp_path: Path) -> None:
    planned = of(tmp_path).replace(inode=1)

    done = begin(launcher, inside("true", expects=(planned,))).finish()

    assert failure(done)[:2] == ("expect", errno.ESTALE)


def test_a_link_on_the_way_is_noticed(launcher: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    status = os.stat(tmp_path / "real")
    led = Expect(str(tmp_path / "link"), ExpectFlag(0), status.st_dev, status.st_ino)

    done = begin(launcher, inside("true", expects=(led,))).finish()

    assert failure(done)[:2] == ("expect", errno.ESTALE)


@pytest.mark.parametrize(
    "flag", [ExpectFlag.READ_ONLY, ExpectFlag.MOUNT_POINT, ExpectFlag.TMPFS, ExpectFlag.OTHER]
)
def test_a_place_that_is_not_as_it_should_be_is_noticed(launcher: Path, flag: ExpectFlag) -> None:
    """A directory of the disk: writable, in the middle of a mount, and just the one that is to be hidden."""
    here = Path(__file__).resolve().parent

    done = begin(launcher, inside("true", expects=(of(here, flag),))).finish()

    assert failure(done)[:2] == ("expect", errno.EPERM)


@pytest.mark.parametrize("permitted", [0, 1])
def test_a_sandbox_whose_mounts_cannot_be_locked_runs_nothing(launcher: Path, permitted: int) -> None:
    """No probe of a container engine tries it: there is no image to try it with."""
    script = f'echo {permitted} > /proc/sys/user/max_user_namespaces; exec "$@"'
    wrap = ("/usr/bin/unshare", "-r", "/bin/sh", "-c", script, "sh")
    spec = inside("true", lock=True, uid_map="0 0 1\n", gid_map="0 0 1\n")

    done = begin(launcher, spec, wrap=wrap).finish()

    if permitted:
        assert done.lines == ["started", "exited 0"]
    else:
        assert failure(done)[:2] == ("lock", errno.ENOSPC)


def test_files_of_control_groups_come_along(launcher: Path, tmp_path: Path) -> None:
    """Their paths need not lead anywhere; a file stands in for `tasks`, to which a process writes itself."""
    tasks = os.open(tmp_path / "tasks", os.O_WRONLY | os.O_CREAT)
    spec = inside("sh", "-c", "ls /proc/self/fd | wc -l", cgroups=(Cgroup(CgroupKind.TASKS, "@6"),))

    done = begin(launcher, spec, files=[tasks]).finish()

    assert done.lines == ["started", "exited 0"]
    assert (tmp_path / "tasks").read_text() == "0"
    assert done.output.strip() == b"4"


def test_a_file_that_did_not_come_is_an_error(launcher: Path) -> None:
    done = begin(launcher, inside("true", cgroups=(Cgroup(CgroupKind.TASKS, "@6"),))).finish()

    assert failure(done)[:2] == ("cgroup", errno.EBADF)


def test_a_signal_comes_by_the_lifeline(launcher: Path) -> None:
    running = begin(
        launcher,
        inside("sh", "-c", "trap 'echo caught; exit 3' USR1; echo ready; while :; do sleep 0.01; done"),
    )
    running.wait_for_output(b"ready")

    os.write(running.lifeline_fd, bytes((signal.SIGUSR1,)))

    done = running.finish()
    assert b"caught" in done.output
    assert done.lines == ["started", "exited 3"]


@pytest.mark.parametrize("word", [b"x", bytes((signal.SIGKILL,)), bytes((signal.SIGSEGV,)), b"\0"])
def test_any_other_word_ends_all(launcher: Path, word: bytes) -> None:
    running = begin(launcher, inside("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done"))
    running.wait_for_output(b"ready")

    os.write(running.lifeline_fd, word)

    assert running.finish().lines == ["started", "signalled 9"]


def test_variables_of_an_image_are_kept_but_not_those_of_its_engine(launcher: Path) -> None:
    env = {
        "PATH": "/bin:/usr/bin:/opt/tool",
        "TOOL_HOME": "/opt/tool",
        "MODE": "image",
        "HTTP_PROXY": "http://u:p@h",
    }
    env |= {"https_proxy": "http://u:p@h", "HOSTNAME": "c0ffee", "HOME": "/root", "container": "docker"}
    spec = Spec(
        argv=("env",),
        cwd="/",
        env=(PATH, ("MODE", "mine"), ("HOME", "/home/ann")),
        inside=True,
        image_environment=True,
    )

    done = begin(launcher, spec, env=env).finish()

    expected = {"PATH": env["PATH"], "TOOL_HOME": "/opt/tool", "MODE": "mine", "HOME": "/home/ann"}
    assert dict(line.split("=", 1) for line in done.output.decode().split()) == expected


@NEEDS_ROOT
def test_paths_are_bound_and_covered_in_place(plain: Path, tmp_path: Path) -> None:
    """In a mount namespace that `unshare` has made, as a bwrap that was told nothing of these paths."""
    for name in ("shield", "secret", "area"):
        (tmp_path / name).mkdir()
    (tmp_path / "secret/key").write_text("the secret")
    mounts = (
        Mount(
            MountKind.BIND,
            *[str(tmp_path / "shield")] * 2,
            MountFlag.READ_ONLY,
            *identity(tmp_path / "shield"),
        ),
        Mount(MountKind.MASK, str(tmp_path / "secret"), "", MountFlag(0), *identity(tmp_path / "secret")),
        Mount(MountKind.FILE, str(tmp_path / "area/file"), mode=0o600, content=b"ours"),
    )
    expects = (
        Expect(str(tmp_path / "area"), ExpectFlag.TMPFS),
        of(tmp_path / "shield", ExpectFlag.READ_ONLY | ExpectFlag.MOUNT_POINT),
        of(tmp_path / "secret", ExpectFlag.OTHER | ExpectFlag.READ_ONLY),
    )
    tries = "touch shield/x; cat secret/key; mv secret other; cat area/file; mount | grep -c /.corral"
    script = f"cd {tmp_path}; {tries}"
    prepare = f"mount -t tmpfs tmpfs {tmp_path}/area; mount -t tmpfs tmpfs /.corral"
    os.makedirs("/.corral", exist_ok=True)
    try:
        wrap = ("unshare", "--mount", "sh", "-c", f'{prepare} && exec "$0" "$@"')
        done = begin(plain, inside("sh", "-c", script, mounts=mounts, expects=expects), wrap=wrap).finish()
    finally:
        os.rmdir("/.corral")

    assert done.lines == ["started", "exited 1"], done.output
    assert b"the secret" not in done.output
    assert b"Read-only file system" in done.output
    assert b"busy" in done.output
    assert done.output.endswith(b"ours0\n")
    assert not list((tmp_path / "shield").iterdir())


@NEEDS_ROOT
def test_a_private_area_is_made_in_place_upon_what_is_held_beneath_it(plain: Path, tmp_path: Path) -> None:
    top, hooks = tmp_path / "git", tmp_path / "git/hooks"
    hooks.mkdir(parents=True)
    mounts = (
        Mount(MountKind.BIND, *[str(hooks)] * 2, MountFlag.READ_ONLY, *identity(hooks)),
        Mount(MountKind.TMPFS, str(top), size=1 << 20, mode=0o700),
        Mount(MountKind.FILE, str(top / "file"), mode=0o600, content=b"ours"),
    )
    expects = (Expect(str(top), ExpectFlag.TMPFS), Expect(str(hooks), ExpectFlag.BENEATH))
    script = f"cd {top}; ls; touch new && echo made"

    done = begin(
        plain,
        inside("sh", "-c", script, mounts=mounts, expects=expects),
        wrap=("unshare", "--mount"),
    ).finish()

    assert done.lines == ["started", "exited 0"], done.lines
    assert done.output.split() == [b"file", b"made"]
    assert [path.name for path in top.iterdir()] == ["hooks"]


@NEEDS_ROOT
@pytest.mark.parametrize("is_held", [True, False])
def test_what_lies_beneath_a_cover_is_looked_for_among_the_mounts(
    plain: Path, tmp_path: Path, is_held: bool
) -> None:
    """As another program should have made it; a name with a space is written otherwise in the list."""
    top, held = tmp_path / "top", tmp_path / "top/the hooks"
    held.mkdir(parents=True)
    prepare = f"mount --bind '{held}' '{held}';" if is_held else ""
    wrap = ("unshare", "--mount", "sh", "-c", f'{prepare} mount -t tmpfs tmpfs {top} && exec "$0" "$@"')
    spec = inside("true", expects=(Expect(str(held), ExpectFlag.BENEATH),))

    done = begin(plain, spec, wrap=wrap).finish()

    if is_held:
        assert done.lines == ["started", "exited 0"]
    else:
        assert failure(done) == ("expect", errno.EPERM, f"{held} is not a separate mount")


@NEEDS_ROOT
def test_no_file_is_made_outside_of_private_areas(plain: Path, tmp_path: Path) -> None:
    mounts = (Mount(MountKind.FILE, str(tmp_path / "file"), mode=0o600, content=b"litter"),)

    done = begin(plain, inside("true", mounts=mounts), wrap=("unshare", "--mount")).finish()

    assert failure(done)[:2] == ("mounts", errno.EROFS)
    assert not list(tmp_path.iterdir())


def identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino
