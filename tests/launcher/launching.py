"""Build corral-launch and start it the way corral does: descriptors 0 to 5, no environment, no arguments."""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from corral.linux.encode import encode
from corral.linux.spec import Mount, MountFlag, MountKind, Spec

SOURCES = Path(__file__).resolve().parents[2] / "launcher"
STRICT = [
    *("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fstack-protector-strong"),
    *("-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-D_GNU_SOURCE"),
]
SANITIZED = [
    *("-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-DCORRAL_FAULTS"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
]
NAMESPACES = 0x7C020000  # mount, UTS, IPC, user, PID, network
ORDINARY = 54321  # a user id that owns nothing
#: For a busy machine; less than any command of these tests goes on for if nobody ends it.
#: Where many are known to fail, nobody need wait so long for it.
PATIENCE_SECONDS = float(os.environ.get("CORRAL_TEST_PATIENCE", "20"))
PATH = ("PATH", "/usr/local/bin:/usr/bin:/bin")


def build(target: Path, flags: list[str]) -> None:
    """Compile the launcher."""
    compiler = os.environ.get("CC") or shutil.which("cc") or "gcc"
    subprocess.run([compiler, *flags, *map(str, sorted(SOURCES.glob("*.c"))), "-o", str(target)], check=True)


@dataclass
class Running:
    """A launch under way. Streams are read to their end by `finish`."""

    pid: int
    status_fd: int
    lifeline_fd: int
    output_fd: int
    status: bytes = b""
    output: bytes = b""
    exit_code: int | None = None
    _open: list[int] = field(default_factory=list)

    def wait_for(self, line: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Read the status pipe until it has said `line`."""
        end = time.monotonic() + seconds
        while f"{line}\n".encode() not in self.status:
            assert self._read("status", end), f"no {line!r} in {self.status!r}"

    def wait_for_output(self, text: bytes, seconds: float = PATIENCE_SECONDS) -> None:
        end = time.monotonic() + seconds
        while text not in self.output:
            assert self._read("output", end), f"no {text!r} in {self.output!r}"

    def _read(self, name: str, end: float) -> bool:
        fd = getattr(self, f"{name}_fd")
        if not select.select([fd], [], [], max(0.0, end - time.monotonic()))[0]:
            return False
        data = os.read(fd, 65536)
        setattr(self, name, getattr(self, name) + data)
        return bool(data)

    def kill(self, number: int) -> None:
        os.kill(self.pid, number)

    def cut_lifeline(self) -> None:
        os.close(self.lifeline_fd)
        self.lifeline_fd = -1

    def finish(self, seconds: float = PATIENCE_SECONDS) -> Running:
        """Wait for the launcher to exit, then read what is left."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.exit_code = os.waitstatus_to_exitcode(status)
                break
            self._read("output", time.monotonic() + 0.005)
        else:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            raise AssertionError(f"the launcher did not end: {self.status!r} {self.output!r}")
        for name in ("status", "output"):
            while self._read(name, time.monotonic() + 1.0):
                pass
        for fd in (self.status_fd, self.output_fd, self.lifeline_fd):
            if fd >= 0:
                os.close(fd)
        return self

    @property
    def lines(self) -> list[str]:
        """What was reported, without the costs, which are never the same twice."""
        return [line for line in self.status.decode().splitlines() if not line.startswith("usage ")]


def start(
    binary: Path,
    spec: Spec | bytes,
    *,
    user: int = 0,
    stdin: int | None = None,
    ignored: tuple[int, ...] = (),
) -> Running:
    """Start the launcher, with some signals ignored; stdout and stderr go to one pipe."""
    raw = spec if isinstance(spec, bytes) else encode(spec)
    if isinstance(spec, Spec) and spec.uid_map:
        user = int(spec.uid_map.split()[0])  # the user the spec is for
    memory = os.memfd_create("spec")
    os.write(memory, raw)
    status_read, status_write = os.pipe()
    life_read, life_write = os.pipe()
    out_read, out_write = os.pipe()
    null = os.open("/dev/null", os.O_RDONLY)
    pid = os.fork()
    if pid == 0:
        try:
            wanted = [null if stdin is None else stdin, out_write, out_write, memory, status_write, life_read]
            for number, fd in enumerate([fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in wanted]):
                os.dup2(fd, number)
            os.close(life_write)
            os.setsid()
            for signal_number in ignored:
                signal.signal(signal_number, signal.SIG_IGN)
            if user and user != os.getuid():
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
            os.execve(binary, ["corral-launch"], {})
        finally:
            os._exit(99)
    for fd in (memory, status_write, life_read, out_write, null):
        os.close(fd)
    return Running(pid, status_read, life_write, out_read)


def launch(binary: Path, spec: Spec | bytes, *, user: int = 0) -> Running:
    """Start and finish."""
    return start(binary, spec, user=user).finish()


def bind(path: str, flags: MountFlag = MountFlag.READ_ONLY, target: str = "") -> Mount:
    """A bind of a host path as it is now."""
    found = os.stat(path)
    return Mount(MountKind.BIND, target or path, path, flags, found.st_dev, found.st_ino)


def view() -> tuple[Mount, ...]:
    """The host's programs, a private /tmp, /proc and a few devices."""
    device = MountFlag.DEVICES | MountFlag.UNVERIFIED
    mounts = [Mount(MountKind.TMPFS, "/tmp", size=1 << 24, mode=0o1777)]
    for name in ("/usr", "/bin", "/lib", "/lib64", "/sbin", "/etc"):
        if os.path.islink(name):
            mounts.append(Mount(MountKind.SYMLINK, name, os.readlink(name)))
        elif os.path.isdir(name):
            mounts.append(bind(name))
    mounts += [Mount(MountKind.PROC, "/proc")]  # read-only by the lock
    mounts += [
        Mount(MountKind.BIND, f"/dev/{n}", f"/dev/{n}", device) for n in ("null", "zero", "urandom", "tty")
    ]
    mounts += [Mount(MountKind.DEVPTS, "/dev/pts"), Mount(MountKind.SYMLINK, "/dev/ptmx", "pts/ptmx")]
    return tuple(mounts)


def confined(*argv: str, user: int = os.getuid(), mounts: tuple[Mount, ...] = (), **more: object) -> Spec:
    """A spec with every namespace."""
    values: dict[str, object] = {
        "namespaces": NAMESPACES,
        "uid_map": f"{user} {user} 1\n",
        "gid_map": f"{user} {user} 1\n",
        "mounts": view() + mounts,
        "lock": True,
        "hostname": "corral",
        "loopback": True,
        "env": (PATH,),
        "cwd": "/",
    }
    return Spec(argv=argv, **(values | more))  # type: ignore[arg-type]


def bare(*argv: str, **more: object) -> Spec:
    """A spec without namespaces."""
    values: dict[str, object] = {"env": (PATH,), "cwd": "/"}
    return Spec(argv=argv, **(values | more))  # type: ignore[arg-type]


def shell(script: str) -> tuple[str, str, str]:
    return "sh", "-c", script
