"""Private container engines: a docker and a podman that leave nothing on the host, with their own image."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import shutil
import subprocess
import tarfile
import tempfile
import time
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

IMAGE = "corral-test"
PROGRAMS = {"docker": ("dockerd", "docker", "containerd", "runc"), "podman": ("podman", "conmon", "runc")}
_APPLETS = ("sh", "cat", "chmod", "true")
_START_SECONDS, _STOP_SECONDS, _RUN_SECONDS = 30, 20, 60
_GROUPS = Path("/sys/fs/cgroup")
_PID_MAX = Path("/proc/sys/kernel/pid_max")

# The engines write to these whatever their options say: keys to /etc, locks to /dev/shm, sockets to /run.
# SIGCHLD is ignored so that the kernel reaps what the engines orphan. The end of stdin ends the first process
# of the namespace, and so the kernel ends all others and takes the mounts away. It is `cat` that waits for
# that, since a signal can end the shell's own `read`. Podman chooses its defaults by the highest process
# number, which a namespace has for itself since Linux 6.14: with the machine's own it is as a user has it.
_HOLDER = """
set -e
mount -t tmpfs tmpfs "$1"
for name in etc var/lib; do
    mkdir -p "$1/$name/upper" "$1/$name/work"
    mount -t overlay overlay -o "lowerdir=/$name,upperdir=$1/$name/upper,workdir=$1/$name/work" "/$name"
done
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev/shm
echo "$2" >/proc/sys/kernel/pid_max
trap '' CHLD
echo ready
exec cat
"""


class EngineFailed(AssertionError):
    """An engine that is installed does not do what it should; the message has its own words."""


class Finished(NamedTuple):
    """How a container ended."""

    status: int
    output: str
    errors: str


def why_unavailable(engine: str) -> str:
    """Why an engine cannot be tried on this machine; empty if it can."""
    if os.geteuid() != 0:
        return f"{engine}: a private engine needs root"
    needed = (*PROGRAMS[engine], "busybox", "unshare", "nsenter", "cc")
    missing = [program for program in needed if shutil.which(program) is None]
    if missing:
        return f"{engine}: {', '.join(missing)} not installed"
    return "" if _is_static(_busybox()) else f"{engine}: busybox needs libraries; busybox-static does not"


class Enclosure:
    """Namespaces for processes, mounts and network: with them ends everything that was started inside."""

    def __init__(self, folder: Path) -> None:
        scratch = folder / "enclosure"
        scratch.mkdir()
        namespaces = ("--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc")
        self._folder = folder
        self._holder = subprocess.Popen(
            ["unshare", *namespaces, "sh", "-c", _HOLDER, "sh", str(scratch), _PID_MAX.read_text().strip()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if self._holder.stdout.readline() != "ready\n":
            raise EngineFailed(f"no namespaces for an engine: {self._holder.communicate()[1]}")

    def enter(self, command: Sequence[str]) -> list[str]:
        """The command line that runs a command inside, in the engine's folder."""
        own = f"/proc/{self._holder.pid}/ns"
        places = (f"--mount={own}/mnt", f"--net={own}/net", f"--pid={own}/pid_for_children")
        return ["nsenter", *places, f"--wd={self._folder}", "--", *command]

    def close(self) -> None:
        """End all. The first process is reaped only when every other one of its namespace is gone."""
        self._holder.communicate(timeout=_STOP_SECONDS)


class Engine:
    """What docker and podman have in common: a folder, a control group, and containers that run and end."""

    name = ""

    def __init__(self, programs: Iterable[Path]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="corral-engine-"))  # short: sockets have short paths
        self.group = self.folder.name
        self.enclosure: Enclosure | None = None
        self._numbers = itertools.count()
        self._path = os.environ["PATH"]  # as it is now: later `install` may lead to this engine
        try:
            self.enclosure = Enclosure(self.folder)
            _prefer_group(self.group)
            self._start()
            self._check(["import", str(_make_image(self.folder, programs)), IMAGE])
        except BaseException:
            self.close()
            raise

    @cached_property
    def facts(self) -> dict[str, object]:
        """What the engine says of itself."""
        form = "{{json .}}" if self.name == "docker" else "json"
        return json.loads(self._check(["info", "--format", form]))

    def run(self, arguments: Sequence[str], command: Sequence[str]) -> Finished:
        """Run a command as the child of the container's first process, as corral's launcher would."""
        return self._run(["--rm", *arguments], command)

    def run_out_of_memory(self, arguments: Sequence[str], command: Sequence[str], *, told: bool) -> bool:
        """Run a command, and ask the engine whether the kernel ended it for its memory.

        It hears of that from the kernel: not before it listens, shortly after the start of the container, and
        not once that is gone. So where it is to be `told`, the command is run again until it was.
        """
        name = f"{IMAGE}-{next(self._numbers)}"
        script = 'while :; do "$@"; measure sleep 1; done' if told else '"$@"'
        line = [*self._run_options(arguments), *arguments, IMAGE, "sh", "-c", script, "init", *command]
        self._check(["run", "--detach", "--name", name, *line])
        while told and not self._was_told(name):
            time.sleep(0.1)
        if told:
            self._check(["kill", name])
        self._check(["wait", name])
        answer = self._says_so(name)
        self._check(["rm", name])
        return answer

    def _was_told(self, name: str) -> bool:
        """Whether it knows already, of a container that has not ended."""
        return self._says_so(name)

    def _says_so(self, name: str) -> bool:
        return self._check(["inspect", "--format", "{{.State.OOMKilled}}", name]).strip() == "true"

    def start(self, command: Sequence[str]) -> None:
        """Start a container that is left running, and that an engine which ends does not wait for."""
        self._check(["run", "--detach", "--stop-signal", "KILL", *self._run_options(()), IMAGE, *command])

    def install(self) -> Path:
        """Make a program of the engine's name that leads to this one, and return its directory."""
        directory = self.folder / "bin"
        directory.mkdir(exist_ok=True)
        program = directory / self.name
        own = os.path.realpath(shutil.which(self.name, path=self._path))
        line = [own if word == self.name else word for word in self._line([])]
        group = f'case "$1" in run) shift; set -- run --cgroup-parent /{self.group} "$@";; esac'
        text = f'#!/bin/sh\n{group}\nexec {shlex.join(line)} "$@"\n'
        if not program.exists():
            program.write_text(text)
            program.chmod(0o755)
        return directory

    def ask(self, *arguments: str) -> list[str]:
        """The lines of an answer."""
        return self._check(arguments).splitlines()

    def close(self) -> None:
        """Stop the engine and all of its processes, and remove what it made. Raises if something stays."""
        try:
            self._stop()
        finally:
            if self.enclosure is not None:
                self.enclosure.close()
            _remove_groups(self.group)
            shutil.rmtree(self.folder)

    def _start(self) -> None:
        """Start what has to run all the time."""

    def _stop(self) -> None:
        """Ask it to end."""

    def _line(self, arguments: Sequence[str]) -> list[str]:
        raise NotImplementedError

    def _run_options(self, arguments: Sequence[str]) -> list[str]:
        return ["--network", "none"]

    def _run(self, arguments: Sequence[str], command: Sequence[str]) -> Finished:
        as_child = ("sh", "-c", '"$@"; exit $?', "init", *command)
        done = self._call(["run", *self._run_options(arguments), *arguments, IMAGE, *as_child])
        if done.returncode in {125, 126, 127}:  # of the engine itself: the command never ran
            raise EngineFailed(f"{self.name} run {' '.join(arguments)}: {done.stderr}")
        return Finished(done.returncode, done.stdout, done.stderr)

    def _call(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": self._path, "HOME": str(self.folder)}
        line = self._line(arguments)
        return subprocess.run(line, capture_output=True, text=True, timeout=_RUN_SECONDS, env=environment)

    def _check(self, arguments: Sequence[str]) -> str:
        done = self._call(arguments)
        if done.returncode != 0:
            raise EngineFailed(f"{self.name} {' '.join(arguments)}: {done.stderr}")
        return done.stdout


class Docker(Engine):
    """A daemon with its own data, sockets and containerd."""

    name = "docker"
    options: tuple[str, ...] = ()
    _daemon: subprocess.Popen[bytes] | None = None

    def _start(self) -> None:
        folder = self.folder
        places = ("--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec")
        network = ("--iptables=false", "--ip6tables=false", "--bridge=none")
        groups = ("--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", f"/{self.group}")
        line = ["dockerd", *network, *places, *groups, "--storage-driver", "overlay2"]
        line += ["--pidfile", f"{folder}/pid", "-H", self._socket, *self.options]
        with open(folder / "log", "wb") as log:
            self._daemon = subprocess.Popen(self.enclosure.enter(line), stdout=log, stderr=log)
        deadline = time.monotonic() + _START_SECONDS
        while self._call(["version"]).returncode != 0:
            if self._daemon.poll() is not None or time.monotonic() > deadline:
                raise EngineFailed(f"dockerd did not start:\n{(folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def _stop(self) -> None:
        pidfile = self.folder / "pid"
        if self._daemon is not None and self._daemon.poll() is None and pidfile.exists():
            inside = pidfile.read_text().strip()  # as it is numbered in its namespace
            subprocess.run(self.enclosure.enter(["kill", inside]), check=True)
            self._daemon.wait(_STOP_SECONDS)

    def _was_told(self, name: str) -> bool:
        """Its answer changes with the end of the container only; before that there is an event."""
        narrow = ("--filter", f"container={name}", "--filter", "event=oom")
        return bool(self.ask("events", "--since", "10m", "--until", "0s", *narrow))

    @property
    def _socket(self) -> str:
        return f"unix://{self.folder}/socket"

    def _line(self, arguments: Sequence[str]) -> list[str]:
        return ["docker", "-H", self._socket, *arguments]


class Podman(Engine):
    """No daemon: each command works on the same folder, in the same enclosure."""

    name = "podman"

    def _line(self, arguments: Sequence[str]) -> list[str]:
        folder = self.folder
        places = ("--root", f"{folder}/data", "--runroot", f"{folder}/exec", "--tmpdir", f"{folder}/tmp")
        manner = ("--storage-driver", "overlay", "--events-backend", "none", "--cgroup-manager", "cgroupfs")
        return self.enclosure.enter(["podman", *places, *manner, "--runtime", "runc", *arguments])

    def _run_options(self, arguments: Sequence[str]) -> list[str]:
        """Podman asks for a million of each, which fails where the hard limit is lower and stays so."""
        given = " ".join(arguments)
        defaults = [("nofile", 1024), ("nproc", 4096)]
        ulimits = [f"--ulimit={name}={most}:{most}" for name, most in defaults if f"{name}=" not in given]
        return [*super()._run_options(arguments), *ulimits, "--cgroup-parent", f"/{self.group}"]

    def run_out_of_memory(self, arguments: Sequence[str], command: Sequence[str], *, told: bool) -> bool:
        (self.folder / "oom").unlink(missing_ok=True)
        return super().run_out_of_memory(arguments, command, told=told)

    def _says_so(self, name: str) -> bool:
        """Conmon leaves a mark at once, at which podman looks when the container has ended.

        With control groups of version 1, conmon 2.1 leaves it where podman 4.3 does not look for it: in the
        working directory. When newer ones are required, that one can go.
        """
        marks = (self.folder / "oom", *self.folder.glob("*/overlay-containers/*/userdata/oom"))
        return any(mark.exists() for mark in marks) or super()._says_so(name)


ENGINES: dict[str, type[Engine]] = {"docker": Docker, "podman": Podman}


def _busybox() -> Path:
    return Path(shutil.which("busybox")).resolve()


def _is_static(program: Path) -> bool:
    """Whether it names no loader, which stands near the beginning (elf(5), PT_INTERP)."""
    with open(program, "rb") as file:
        return b"/ld-" not in file.read(4096)


def _make_image(folder: Path, programs: Iterable[Path]) -> Path:
    """A root file system with busybox and the given programs in /bin, as an archive."""
    archive = folder / "image.tar"
    with tarfile.open(archive, "w") as tar:
        for name in ("bin", "dev", "etc", "proc", "run", "sys", "tmp", "var", "var/tmp"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name.endswith("tmp") else 0o755
            tar.addfile(entry)
        for program in (_busybox(), *programs):
            tar.add(program, f"bin/{program.name}")
        for applet in _APPLETS:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return archive


def _prefer_group(name: str) -> None:
    """Make the control group in which all containers run, with the first call on the processors.

    Their limits are to be measured, not what else the machine does meanwhile.
    """
    for hierarchy, file, weight in (("cpu", "cpu.shares", 262144), (".", "cpu.weight", 10000)):
        if (_GROUPS / hierarchy / "cgroup.procs").exists():
            group = _GROUPS / hierarchy / name
            group.mkdir()
            if (group / file).exists():
                (group / file).write_text(str(weight))


def _remove_groups(name: str) -> None:
    """Remove the control groups of an engine; the kernel may take a moment to notice that they are empty."""
    deadline = time.monotonic() + _STOP_SECONDS
    while left := [path for path in (_GROUPS / name, *_GROUPS.glob(f"*/{name}")) if path.is_dir()]:
        for top in left:
            for directory, _, _ in os.walk(top, topdown=False):
                try:
                    os.rmdir(directory)
                except OSError as problem:
                    if time.monotonic() > deadline:
                        raise EngineFailed(f"a control group stays behind: {problem}") from problem
        time.sleep(0.01)
