"""The command runs, and its end is told faithfully."""

from __future__ import annotations

import ctypes
import errno
import os
import pty
import signal
import subprocess
import time
from pathlib import Path

import pytest
from launching import bare, bind, confined, launch, shell, start

from corral.linux.spec import Cgroup, CgroupKind, Landlock, PathRule, Rlimit

TIERS = {"namespaces": confined, "bare": bare}


@pytest.fixture(params=TIERS)
def make(request: pytest.FixtureRequest, user: int):
    """A function that makes a spec of one tier for one user."""
    if request.param == "bare":
        return bare
    return lambda *argv, **more: confined(*argv, user=user, **more)


def test_exit_code(launcher: Path, make, user: int) -> None:
    done = launch(launcher, make(*shell("echo out; echo err >&2; exit 7")), user=user)

    assert done.lines == ["started", "exited 7"]
    assert done.output == b"out\nerr\n"
    assert done.exit_code == 0


def test_125_is_an_exit_code_like_any_other(launcher: Path, make, user: int) -> None:
    done = launch(launcher, make(*shell("exit 125")), user=user)

    assert (done.lines, done.exit_code) == (["started", "exited 125"], 0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGPIPE])
def test_signal(plain: Path, make, user: int, number: int) -> None:
    done = launch(plain, make(*shell(f"kill -{int(number)} $$")), user=user)

    assert done.lines == ["started", f"signalled {int(number)}"]


def test_arguments_and_environment_arrive_as_they_are(launcher: Path, make) -> None:
    script = "import os, sys; print(sys.argv[1:], dict(os.environ), os.getcwd())"
    env = (("PATH", "/usr/bin"), ("A", "b=c"), ("EMPTY", ""))

    done = launch(launcher, make("python3", "-SEc", script, "", "a b", "é", env=env, cwd="/usr"))

    wanted = {"PATH": "/usr/bin", "A": "b=c", "EMPTY": ""}
    seen = done.output.decode().replace(", 'LC_CTYPE': 'C.UTF-8'", "")
    assert seen == f"['', 'a b', 'é'] {wanted} /usr\n"


@pytest.mark.parametrize(
    ("argv", "number"),
    [
        (("no-such-program",), errno.ENOENT),
        (("/no/such/program",), errno.ENOENT),
        (("",), errno.ENOENT),
        (("/etc/passwd",), errno.EACCES),
        (("/usr",), errno.EACCES),
        (("/etc/passwd/x",), errno.ENOTDIR),
    ],
)
def test_what_cannot_be_executed(launcher: Path, make, user: int, argv: tuple[str, ...], number: int) -> None:
    done = launch(launcher, make(*argv), user=user)

    assert done.lines == [f"failed exec {number} {argv[0]}"]
    assert done.exit_code == 125


def test_the_first_permission_error_is_remembered(plain: Path, tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("")
    path = f"{tmp_path}:/usr/bin"

    assert launch(plain, bare("tool", env=(("PATH", path),))).lines == [f"failed exec {errno.EACCES} tool"]
    assert launch(plain, bare("true", env=(("PATH", path),))).lines == ["started", "exited 0"]


def test_no_program_is_taken_from_the_working_directory(plain: Path, tmp_path: Path) -> None:
    (tmp_path / "tool").symlink_to("/bin/true")

    done = launch(plain, bare("tool", cwd=str(tmp_path), env=(("PATH", ":/usr/bin:"),)))

    assert done.lines == [f"failed exec {errno.ENOENT} tool"]


def test_a_file_without_a_format_is_not_given_to_a_shell(plain: Path, tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("echo hi\n")
    (tmp_path / "tool").chmod(0o755)

    done = launch(plain, bare(f"{tmp_path}/tool"))

    assert done.lines == [f"failed exec {errno.ENOEXEC} {tmp_path}/tool"]


def test_a_missing_working_directory(plain: Path, make) -> None:
    assert launch(plain, make("true", cwd="/no/such")).lines == [
        f"failed surroundings {errno.ENOENT} chdir /no/such"
    ]


def test_a_name_cannot_add_a_status_line(plain: Path, make) -> None:
    done = launch(plain, make("/x\nexited 0\n"))

    assert done.lines == [f"failed exec {errno.ENOENT} /x?exited 0?"]


def test_the_wall_limit_ends_the_command(launcher: Path, make, user: int) -> None:
    begun = time.monotonic()

    done = launch(launcher, make("sleep", "600", wall_ms=200, grace_ms=600_000), user=user)

    assert done.lines == ["started", "timed-out", f"signalled {int(signal.SIGTERM)}"]
    assert 0.2 <= time.monotonic() - begun


@pytest.mark.parametrize("grace_ms", [0, 200])
def test_the_wall_limit_ends_who_does_not_listen(launcher: Path, make, user: int, grace_ms: int) -> None:
    stubborn = shell("trap '' TERM; while :; do sleep 0.05; done")

    done = launch(launcher, make(*stubborn, wall_ms=300, grace_ms=grace_ms), user=user)

    assert done.lines == ["started", "timed-out", f"signalled {int(signal.SIGKILL)}"]


def test_a_command_that_uses_its_grace_is_still_late(plain: Path, make) -> None:
    done = launch(plain, make(*shell("trap 'exit 3' TERM; sleep 60 & wait"), wall_ms=300, grace_ms=5000))

    assert done.lines == ["started", "timed-out", "exited 3"]


def test_only_three_descriptors_are_passed(launcher: Path, make, user: int) -> None:
    extra = [os.dup(1) for _ in range(20)]  # inherited by the launcher, which must close them
    done = launch(launcher, make(*shell("echo /proc/self/fd/*"), env=(("PATH", "/bin:/usr/bin"),)), user=user)
    for fd in extra:
        os.close(fd)

    numbers = {int(name.rsplit("/", 1)[1]) for name in done.output.decode().split()}
    assert numbers - {0, 1, 2} <= {3, 10}  # what the shell itself opened to look


def test_signals_begin_unblocked_and_not_ignored(plain: Path, make) -> None:
    """Python, which starts the launcher, ignores SIGPIPE; the launcher blocks everything."""
    done = launch(plain, make("grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"))

    assert {line.split()[1] for line in done.output.decode().splitlines()} == {"0" * 16}


def test_no_capability_is_left(launcher: Path, make, user: int) -> None:
    done = launch(
        launcher, make("grep", "-E", "^(Cap(Inh|Prm|Eff|Amb)|NoNewPrivs)", "/proc/self/status"), user=user
    )

    assert done.lines == ["started", "exited 0"]
    values = [line.split()[1] for line in done.output.decode().splitlines()]
    assert values == ["0" * 16] * 4 + ["1"]


def test_limits_hold_and_no_core_is_dumped(launcher: Path, make, user: int) -> None:
    limits = (Rlimit(7, 100, 200), Rlimit(1, 2**64 - 1, 2**64 - 1))  # open files; file size: unlimited

    done = launch(
        launcher, make(*shell("ulimit -Sn; ulimit -Hn; ulimit -c; ulimit -f"), rlimits=limits), user=user
    )

    assert done.output.split() == [b"100", b"200", b"0", b"unlimited"]


def test_no_core_handler_of_the_host_is_run(plain: Path, make) -> None:
    """One byte, not none: core(5) runs a handler for a limit of zero."""
    done = launch(plain, make("grep", "core file", "/proc/self/limits"))

    assert done.output.split()[4:6] == [b"1", b"1"]


def test_an_unknown_limit_is_refused(plain: Path, make) -> None:
    done = launch(plain, make("true", rlimits=(Rlimit(99, 1, 1),)))

    assert done.lines == [f"failed limits {errno.EINVAL} resource 99"]


def test_landlock_denies_what_has_no_rule(launcher: Path, make, user: int) -> None:
    read = 0xD  # execute, read a file, read a directory
    lock = Landlock(handled_fs=0x1FFF, paths=tuple(PathRule(read, p) for p in ("/usr", "/lib64", "/etc")))

    done = launch(
        launcher,
        make(*shell("cat /etc/hostname >/dev/null; head -1 /etc/passwd; ls /proc"), landlock=lock),
        user=user,
    )

    assert b"root:" in done.output
    assert b"/dev/null: Permission denied" in done.output.replace(b"cannot create ", b"")
    assert b"'/proc': Permission denied" in done.output


def test_a_landlock_rule_for_nothing_is_refused(plain: Path, make) -> None:
    lock = Landlock(handled_fs=0x1FFF, paths=(PathRule(0xD, "/no/such"),))

    assert launch(plain, make("true", landlock=lock)).lines == [
        f"failed landlock {errno.ENOENT} rule for /no/such"
    ]


def test_unknown_landlock_rights_are_refused(plain: Path, make) -> None:
    assert (
        launch(plain, make("true", landlock=Landlock(handled_fs=1 << 60)))
        .lines[0]
        .startswith("failed landlock ")
    )


def test_the_filter_is_installed(launcher: Path, make, user: int) -> None:
    allow_all = bytes.fromhex("06000000" + "0000ff7f")

    done = launch(
        launcher, make("grep", "-E", "^Seccomp:", "/proc/self/status", seccomp=allow_all), user=user
    )

    assert done.output.split() == [b"Seccomp:", b"2"]


def test_a_filter_the_kernel_refuses(plain: Path, make) -> None:
    assert launch(plain, make("true", seccomp=bytes(8))).lines == [
        f"failed seccomp {errno.EINVAL} install filter"
    ]


def test_the_command_has_its_own_session_and_terminal(plain: Path, make, user: int) -> None:
    primary, secondary = pty.openpty()
    if user:
        os.fchown(secondary, user, user)
    script = (
        "import os\n"
        "print(os.getsid(0) == os.getpid(), os.tcgetpgrp(0) == os.getpgrp(), os.open('/dev/tty', 2) > 2)"
    )

    done = start(plain, make("python3", "-Sc", script, terminal=True), user=user, stdin=secondary).finish()
    os.close(primary)
    os.close(secondary)

    assert done.output == b"True True True\n"


def test_a_terminal_that_is_none(plain: Path, make) -> None:
    done = launch(plain, make("true", terminal=True))

    assert done.lines == [f"failed session {errno.ENOTTY} controlling terminal"]


def test_a_missing_cgroup(plain: Path, make) -> None:
    done = launch(plain, make("true", cgroups=(Cgroup(CgroupKind.TASKS, "/no/such/tasks"),)))

    assert done.lines == [f"failed cgroup {errno.ENOENT} open /no/such/tasks"]


def test_without_its_descriptors_it_explains_itself(plain: Path) -> None:
    done = subprocess.run([plain], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"descriptors 0 to 5" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [(["--version"], 0, "corral-launch 1\n"), (["--nonsense"], 125, ""), (["--version", "x"], 125, "")],
)
def test_questions(plain: Path, arguments: list[str], code: int, text: str) -> None:
    done = subprocess.run([plain, *arguments], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout) == (code, text)


def test_landlock_abi_is_a_number(plain: Path) -> None:
    assert int(subprocess.run([plain, "--landlock-abi"], capture_output=True, check=True).stdout) >= 0


def test_the_session_keyring_is_not_corrals(plain: Path, make) -> None:
    session = "import ctypes; print(ctypes.CDLL(None).syscall(250, 0, -3, 1))"  # KEYCTL_GET_KEYRING_ID
    # KEYCTL_JOIN_SESSION_KEYRING: a process without one gets a new one each time it asks.
    assert ctypes.CDLL(None).syscall(250, 1, 0) > 0
    ours = subprocess.run(["python3", "-SEc", session], capture_output=True, check=True).stdout

    assert launch(plain, make("python3", "-SEc", session)).output not in (ours, b"-1\n")


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_every_user_may_be_mapped_by_root(launcher: Path, open_directory: Path) -> None:
    """Only then can root show a directory that another user keeps to itself."""
    private = open_directory / "private"
    private.mkdir(mode=0o700)
    os.chown(private, 54321, 54321)
    everyone = "0 0 4294967295\n"
    mounts = (bind(str(private), target="/w"), bind(str(private), target="/w2"))

    done = launch(
        launcher, confined(*shell("ls /w; stat -c %u /w"), mounts=mounts, uid_map=everyone, gid_map=everyone)
    )

    assert done.output == b"ls: cannot open directory '/w': Permission denied\n54321\n"
