"""A host in memory: a tree of files, an environment, a kernel that can do everything. The same everywhere."""

from __future__ import annotations

import posixpath
import zlib

from corral.model.enforcer import CGROUP2, Enforcer
from corral.model.plan import FileStamp
from corral.model.probe import Entries, LaunchTrial, ModuleRunner, Stat, ToolRun
from support.tools import EVERY_TOOL, RELEASE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from corral.model.feature import Feature
    from corral.model.launch import Launch

DEVICE = 7
LAUNCHER = "/opt/corral/bin/corral-launch"

LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max processes             30000                unlimited            processes
Max open files            1024                 20000                files
"""

#: What almost every Linux machine has.
SYSTEM = {
    "/usr/bin/": "",
    "/usr/bin/sh": "#!",
    "/usr/sbin/": "",
    "/usr/lib/libc.so.6": "elf",
    "/usr/lib64/": "",
    "/usr/local/bin/": "",
    "/bin": "-> usr/bin",
    "/sbin": "-> usr/sbin",
    "/lib": "-> usr/lib",
    "/lib64": "-> usr/lib64",
    "/etc/passwd": "root:x:0:0",
    "/etc/group": "root:x:0",
    "/etc/hosts": "127.0.0.1 localhost",
    "/etc/shadow": "root:!",
    "/etc/ld.so.cache": "cache",
    "/etc/alternatives/": "",
    "/etc/localtime": "-> ../usr/share/zoneinfo/UTC",
    "/usr/share/zoneinfo/UTC": "TZif",
    "/opt/corral/bin/corral-launch": "elf",
    "/dev/null": "",
    "/proc/sys/kernel/osrelease": f"{RELEASE}\n",
    "/proc/sys/kernel/pid_max": "4194304\n",
    "/proc/sys/kernel/random/uuid": "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9\n",
    "/proc/self/limits": LIMITS,
    "/run/": "",
    "/tmp/": "",
    "/var/tmp/": "",
    "/home/ann/.ssh/id_ed25519": "the secret",
}


class FakeHost:
    """Implements `Host` over a mapping: path -> text; `-> text` is a link, `/` at the end a directory.

    Directories above a path come by themselves. Numbers of files follow from their names alone.
    """

    platform = "linux"
    machine = "x86_64"

    def __init__(
        self,
        files: Mapping[str, str] = {},
        *,
        env: Mapping[str, str] = {},
        home: str = "/home/ann",
        cwd: str = "/home/ann/project",
        uid: int = 1000,
        holds: frozenset[Feature] = frozenset(),
        abi: int = 7,
        sockets: frozenset[str] = frozenset(),
        system: bool = True,
        corral_files: tuple[str, ...] = ("/opt/corral",),
        tools: Mapping[str, Mapping[str, ToolRun]] = EVERY_TOOL,
        outer: LaunchTrial | None = None,
    ) -> None:
        self.uid = self.gid = uid
        self.home = home
        self._env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": home, "LANG": "C.UTF-8", **env}
        self._cwd = cwd
        self._holds = holds
        self._abi = abi
        self._sockets = sockets
        self._corral_files = corral_files
        self.controls: tuple[str, ...] = ()
        self._tools = tools  # name -> beginning of the arguments -> answer
        self._outer = outer
        self.tried: list[Launch] = []
        self.asked: list[tuple[str, ...]] = []
        self._files: dict[str, str] = {}
        self._directories = {"/"}
        self.opened: list[str] = []  # whatever was read, so that tests can tell what was not
        for path, text in {**(SYSTEM if system else {}), cwd + "/": "", home + "/": "", **files}.items():
            self.add(path, text)

    def add(self, path: str, text: str = "") -> None:
        plain = path.rstrip("/")
        if path.endswith("/"):
            self._directories.add(plain)
        else:
            self._files[plain] = text
        parent = posixpath.dirname(plain)
        while parent not in self._directories:
            self._directories.add(parent)
            parent = posixpath.dirname(parent)

    def environment(self) -> Mapping[str, str]:
        return self._env

    def cwd(self) -> str:
        return self._cwd

    def lstat(self, path: str) -> Stat | None:
        plain, up, _ = path.partition("/..")
        if up:  # the kernel goes up only from where there is something
            plain = posixpath.normpath(path) if self.lstat(plain) is not None else path
        inode = zlib.crc32(plain.encode("utf-8", "surrogateescape"))
        if plain in self._directories:
            return Stat(True, False, DEVICE, inode)
        if plain in self._files:
            text = self._files[plain]
            is_program = text.startswith(("elf", "#!"))
            is_socket = plain in self._sockets
            return Stat(False, text[:3] == "-> ", DEVICE, inode, is_socket, is_executable=is_program)
        return None

    def readlink(self, path: str) -> str:
        return self._files[path].removeprefix("-> ")

    def links(self, path: str) -> tuple[str, ...]:
        return tuple(
            sorted(self._names(path, [name for name, text in self._files.items() if text[:3] == "-> "]))
        )

    def entries(self, path: str) -> Entries | None:
        links = self.links(path)
        others = [name for name in sorted(self._names(path, self._files)) if name not in links]
        return Entries(self.subdirectories(path), links, tuple(others))

    def subdirectories(self, path: str) -> tuple[str, ...]:
        return tuple(sorted(self._names(path, self._directories)))

    def _names(self, path: str, among: object) -> list[str]:
        return [
            posixpath.basename(entry)
            for entry in among  # type: ignore[attr-defined]
            if entry != "/" and posixpath.dirname(entry) == path
        ]

    def read_text(self, path: str, limit_bytes: int) -> str:
        self.opened.append(path)
        text = self._files.get(self._real(path), "")
        return "" if text.startswith("-> ") else text[:limit_bytes]

    def _real(self, path: str) -> str:
        """As open(2) would: links are followed, at the end as well as on the way."""
        real, pending, followed = "/", path.split("/"), 0
        while pending and followed < 40:
            part = pending.pop(0)
            if part in {"", "."}:
                continue
            real = posixpath.dirname(real) if part == ".." else posixpath.join(real, part)
            text = self._files.get(real, "")
            if text.startswith("-> "):
                followed += 1
                pending = text[3:].split("/") + pending
                real = "/" if text[3:].startswith("/") else posixpath.dirname(real)
        return real

    def stamp(self, path: str) -> FileStamp:
        real = self._real(path)
        stat, text = self.lstat(real), self._files.get(real, "")
        return FileStamp(path) if stat is None else FileStamp(path, DEVICE, stat.inode, len(text))

    def launcher(self) -> tuple[str, str]:
        return LAUNCHER, ""

    def landlock_abi(self) -> int:
        return self._abi

    def enforcers(self) -> tuple[Enforcer, ...]:
        return (Enforcer(CGROUP2, self._holds),)

    def processors(self) -> tuple[int, int]:
        return 4, 4

    def try_launch(self, spec: bytes) -> LaunchTrial:
        return LaunchTrial(False, "exec", 2, "/corral-trial")

    def which(self, name: str) -> str:
        return f"/usr/bin/{name}" if name in self._tools else ""

    def tool_path(self) -> str:
        return self._env["PATH"]

    def run_tool(self, argv: tuple[str, ...], *, seconds: float = 10.0) -> ToolRun:
        self.asked.append(argv)
        words = " ".join(argv[1:])
        answers = self._tools.get(posixpath.basename(argv[0]), {})
        fitting = [text for text in answers if words.startswith(text)]
        return answers[max(fitting, key=len)] if fitting else ToolRun(-1, "", "No such file or directory")

    def try_outer(self, launch: Launch) -> LaunchTrial:
        self.tried.append(launch)
        if self._outer is not None:
            return self._outer
        is_engine = launch.outer is not None and launch.outer.control != ""  # their trial is of a command
        return LaunchTrial(True, "command") if is_engine else LaunchTrial(False, "exec", 2, "/corral-trial")

    def corral_files(self) -> tuple[str, ...]:
        return self._corral_files

    def control_directories(self) -> tuple[str, ...]:
        return self.controls

    def module_runner(self) -> ModuleRunner:
        return ModuleRunner(
            ("/usr/bin/python3", "/corral/wasi/child.py"), f"{self.home}/.local/state/corral/wasm"
        )

    def copies_directory(self) -> str:
        return f"{self.home}/.local/state/corral/copies"

    def temporary_directory(self) -> str:
        return "/tmp"
