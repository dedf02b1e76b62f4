"""The real host: the one door through which corral looks at the machine it runs on."""

from __future__ import annotations

import contextlib
import errno
import os
import stat as stat_bits
import sys
from functools import lru_cache

from corral.model.errors import SetupError
from corral.model.probe import Entries, LaunchTrial, ModuleRunner, Stat, ToolRun
from corral.untrusted_files.stamps import stamp_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from corral.limits.group import Group
    from corral.limits.scope import Scope
    from corral.model.enforcer import Enforcer
    from corral.model.launch import Launch
    from corral.model.plan import FileStamp

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LAUNCHER = os.path.join(_PACKAGE, "bin", "corral-launch")
_BUILD_REPORT = os.path.join(_PACKAGE, "bin", "BUILD_FAILED")
#: In a control directory: a file for each run, see `live_runs`.
RUNS = "runs"
#: Files that configure corral, in the user's directory or in a project's.
CONFIG_NAMES = ("corral.toml", "corral.json")
HIDDEN = "hidden"  # in the state directory: what tells of other runs, or opens a door to them
_HIDDEN = (HIDDEN, "sessions", "audit", "trials", "quarantine", "stored", "copies")
_ABSENT = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.EISDIR}
)


class RealHost:
    """Asks the operating system. Nothing is remembered between questions except what cannot change."""

    platform = sys.platform

    def __init__(self, launcher: str | None = None, *, own_files: Iterable[str] = ()) -> None:
        self.machine = os.uname().machine
        self.uid = os.geteuid()
        self.gid = os.getegid()
        self.home = _home(self.uid)
        self._launcher = launcher or os.environ.get("CORRAL_LAUNCHER") or _LAUNCHER
        self._abi: int | None = None
        self._enforcers: tuple[Enforcer, ...] | None = None
        self._own_files = tuple(own_files)  # configuration that lies elsewhere than usual
        self._files: tuple[str, ...] | None = None
        self._distrusted: tuple[str, ...] = ()

    def environment(self) -> Mapping[str, str]:
        return os.environ

    def cwd(self) -> str:
        return os.getcwd()

    def lstat(self, path: str) -> Stat | None:
        try:
            status = os.lstat(path)
        except ValueError:
            return None
        except PermissionError:
            return Stat(False, False, 0, 0, is_unknown=True)
        except OSError as problem:
            _check_absent(path, problem)
            return None
        return _stat(*_numbers(status, self.uid))

    def numbers(self, path: str) -> tuple[int, ...] | None:
        """The numbers that `lstat` answers by; None where it has something else to say."""
        try:
            return _numbers(os.lstat(path), self.uid)
        except FileNotFoundError:
            return ()
        except (OSError, ValueError):
            return None

    def is_answer(self, numbers: tuple[int, ...] | None, answer: Stat | None) -> bool:
        """Whether `lstat` answers so, for a path with these numbers."""
        if not numbers:
            return numbers is not None and answer is None
        mode, device, inode, names, is_owner = numbers
        return _stat(mode, device, inode, names, bool(is_owner)) == answer

    def readlink(self, path: str) -> str:
        try:
            return os.readlink(path)
        except OSError as problem:  # it was a link a moment ago
            raise SetupError(
                "path-changed",
                "the sandbox could not be planned",
                why=f"{path}: {problem.strerror}",
                fix="run the command again; something replaces this path while commands start",
            ) from problem

    def links(self, path: str) -> tuple[str, ...]:
        return _names(path, os.DirEntry.is_symlink)

    def subdirectories(self, path: str) -> tuple[str, ...]:
        return _names(path, _is_directory)

    def entries(self, path: str) -> Entries | None:
        directories, links, others = [], [], []
        try:
            with os.scandir(path) as found:
                for entry in found:
                    if entry.is_dir(follow_symlinks=False):
                        directories.append(entry.name)
                    elif entry.is_symlink():
                        links.append(entry.name)
                    else:
                        others.append(entry.name)
        except PermissionError:
            return None
        except OSError as problem:
            _check_absent(path, problem)
            return Entries()
        return Entries(tuple(directories), tuple(links), tuple(others))

    def read_text(self, path: str, limit_bytes: int) -> str:
        # Only a file is opened: to open a FIFO or a device that a link leads to is to act on it.
        # O_NONBLOCK: a FIFO that takes its place meanwhile must not hold us up.
        try:
            if not stat_bits.S_ISREG(os.stat(path).st_mode):
                return ""
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as problem:
            _check_absent(path, problem)
            return ""
        try:
            if not stat_bits.S_ISREG(os.fstat(descriptor).st_mode):
                return ""
            return os.read(descriptor, limit_bytes).decode("utf-8", "surrogateescape")
        except OSError as problem:
            _check_absent(path, problem)
            return ""
        finally:
            os.close(descriptor)

    def stamp(self, path: str) -> FileStamp:
        return stamp_of(path)

    def launcher(self) -> tuple[str, str]:
        if os.access(self._launcher, os.X_OK):
            return self._launcher, ""
        report = self.read_text(_BUILD_REPORT, 2000).strip()
        return "", report.splitlines()[0] if report else f"there is no launcher at {self._launcher}"

    def landlock_abi(self) -> int:
        if self._abi is None:
            self._abi = _landlock_abi()
        return self._abi

    def enforcers(self) -> tuple[Enforcer, ...]:
        if self._enforcers is None:
            from corral.limits.discover import cgroup_enforcer

            groups = cgroup_enforcer(self._try_group)
            more = (self._systemd(),) if not groups.holds and _has_systemd() else ()
            self._enforcers = (groups, *more)
        return self._enforcers

    def _systemd(self) -> Enforcer:
        from corral.limits.discover import trial_request
        from corral.limits.scope import systemd_enforcer
        from corral.model.enforcer import SYSTEMD

        return systemd_enforcer(self._try_scope, lambda holds: trial_request(SYSTEMD, holds))

    def limits_key(self) -> str:
        """What the enforcers depend on, without trying them."""
        from corral.limits.hierarchy import find_hierarchy

        hierarchy = find_hierarchy()
        if hierarchy is not None:
            return hierarchy.key()
        if not _has_systemd():
            return "-"
        from corral.limits.systemd import manager_key

        return f"- {manager_key()}"

    def processors(self) -> tuple[int, int]:
        installed = os.cpu_count() or 1
        if sys.platform == "linux":
            return len(os.sched_getaffinity(0)), installed
        return installed, installed

    def _try_group(self, group: Group) -> str:
        """Let the launcher's child enter a group; returns what went wrong."""
        from corral.linux.encode import append_groups, encode
        from corral.linux.spec import Spec

        records = group.records(0)
        spec = encode(Spec(argv=("/corral-trial",), cwd="/"))
        trial = self.try_launch(append_groups(spec, records.groups, records.kill, records.cpu_time))
        return "" if trial.phase == "exec" else f"{trial.detail} (errno {trial.errno})"

    def _try_scope(self, scope: Scope) -> str:
        """Let systemd make a scope around the launcher; returns what went wrong."""
        from corral.linux.encode import encode
        from corral.linux.spec import Spec
        from corral.runtime.launcher.spawn import try_spec

        launcher, _ = self.launcher()
        spec = encode(Spec(argv=("/corral-trial",), cwd="/"))
        try:
            trial = try_spec(launcher, spec, scope.place)
        finally:
            scope.remove()
        return "" if trial.phase == "exec" else f"{trial.detail} (errno {trial.errno})"

    def try_launch(self, spec: bytes) -> LaunchTrial:
        from corral.runtime.launcher.spawn import try_spec

        launcher, reason = self.launcher()
        if not launcher:
            return LaunchTrial(False, "spawn", 0, reason)
        return try_spec(launcher, spec)

    def which(self, name: str) -> str:
        from corral.host.programs import find_program

        return find_program(name, self._distrusted)

    def distrust(self, paths: Iterable[str]) -> None:
        """Take no program from these directories: commands may write there."""
        self._distrusted = tuple(paths)

    def run_tool(self, argv: tuple[str, ...], *, seconds: float = 10.0) -> ToolRun:
        from corral.host.tool import leaving_no_pause, run_tool  # only probes come here

        with leaving_no_pause(argv[0]):
            return run_tool(argv, seconds, {**os.environ, "PATH": self.tool_path()})

    def tool_path(self) -> str:
        from corral.host.programs import trusted_path

        return trusted_path(self._distrusted)

    def try_outer(self, launch: Launch) -> LaunchTrial:
        from corral.host.tool import leaving_no_pause
        from corral.runtime.launcher.outer import try_outer

        with leaving_no_pause(launch.argv[0]):
            return try_outer(launch)

    def corral_files(self) -> tuple[str, ...]:
        # TRUST: what runs on the host at the next start, or says what may, must not be writable from inside.
        if self._files is None:
            files = {_PACKAGE, os.path.dirname(self._launcher), *self._own_files}
            kept = (state_directory(), os.path.dirname(stored_directory()), *config_places())
            files |= {directory for directory in (*kept, *control_directories()) if directory}
            if sys.prefix != sys.base_prefix:
                files.add(sys.prefix)
            # As they are called and as they really are: a link on the way is held as well.
            self._files = tuple(sorted({*files, *map(os.path.realpath, files)}))
        return self._files

    def control_directories(self) -> tuple[str, ...]:
        # TRUST: whoever reads there may give commands to every named session, wherever variables lead here.
        # Nor is what other runs have left any command's. What is missing counts: kept plans must see it come.
        above = filter(None, (state_directory(), os.path.dirname(stored_directory())))
        kept = (os.path.join(os.path.realpath(state), name) for state in above for name in _HIDDEN)
        return tuple(dict.fromkeys((*map(os.path.realpath, control_directories()), *kept)))

    def module_runner(self) -> ModuleRunner:
        from corral.host.modules import find_module_runner

        return find_module_runner()

    def copies_directory(self) -> str:
        kept = _runtime_directory() or state_directory()  # in memory, if possible: hundreds come and go
        if not kept:
            return ""
        above = place = os.path.realpath(os.path.join(kept, "copies"))
        while not os.path.lexists(above):
            above = os.path.dirname(above)
        return place if os.access(above, os.W_OK | os.X_OK) else ""

    def temporary_directory(self) -> str:
        return os.path.realpath(os.environ.get("TMPDIR") or "/tmp")


def _has_systemd() -> bool:
    """Whether this host is run by systemd, as sd_booted(3) says it."""
    return os.path.isdir("/run/systemd/system")


def state_directory() -> str:
    """Where corral keeps what it must remember; empty if there is no home. Never granted to a command."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):  # the specification says to ignore it then
        home = _home(os.geteuid())
        if not os.path.isdir(home):  # never make a home that the machine does not have
            return ""
        state = os.path.join(home, ".local", "state")
    return os.path.join(state, "corral")


def stored_directory() -> str:
    """Where plans are stored for the entry program; empty if the password database names no home.

    TRUST: whatever the variables say: the entry program goes by the password database alone.
    """
    import pwd

    try:
        home = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return ""
    return os.path.join(home, ".local", "state", "corral", "stored") if home.startswith("/") else ""


def control_directories() -> tuple[str, ...]:
    """Where named sessions can be reached; new ones in the first. Hidden from every command.

    The user's runtime directory is used if it is his alone; else, and to find others, the state directory.
    """
    runtime, state = _runtime_directory(), state_directory()
    return (*((runtime,) if runtime else ()), *((os.path.join(state, "sessions"),) if state else ()))


def _runtime_directory() -> str:
    """Corral's place in the user's runtime directory, if that is his alone; else empty."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    with contextlib.suppress(OSError, ValueError):
        status = os.lstat(runtime)
        is_private = stat_bits.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
        if runtime.startswith("/") and is_private and status.st_uid == os.geteuid():
            return os.path.join(runtime, "corral")
    return ""


def open_runs_directory() -> int:
    """Where runs can be seen, made if need be: a descriptor, or -1. ORDER: before a plan, which hides it."""
    places = control_directories()
    if not places:
        return -1
    path = os.path.join(places[0], RUNS)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        try:
            handle = os.open(path, flags)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(places[0]), mode=0o700, exist_ok=True)
            for directory in (places[0], path):  # the user's alone from their first moment
                with contextlib.suppress(FileExistsError):
                    os.mkdir(directory, mode=0o700)
            handle = os.open(path, flags)
    except OSError:
        return -1
    status = os.fstat(handle)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        os.close(handle)
        return -1
    return handle


def config_directory() -> str:
    """Where the user's own configuration is; empty if there is no home. Never granted to a command."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if not base.startswith("/"):
        home = _home(os.geteuid())
        if not os.path.isdir(home):
            return ""
        base = os.path.join(home, ".config")
    return os.path.join(base, "corral")


def config_places() -> tuple[str, ...]:
    """The user's configuration: its directory, the files in it, which may be links, and one that is named."""
    directory = config_directory()
    named = os.environ.get("CORRAL_CONFIG", "")
    files = tuple(os.path.join(directory, name) for name in CONFIG_NAMES) if directory else ()
    return (directory, *files, os.path.abspath(named) if named else "")


def _names(path: str, wanted: Callable[[os.DirEntry[str]], bool]) -> tuple[str, ...]:
    try:
        with os.scandir(path) as entries:
            return tuple(sorted(entry.name for entry in entries if wanted(entry)))
    except OSError as problem:
        _check_absent(path, problem)
        return ()


def _numbers(status: os.stat_result, uid: int) -> tuple[int, int, int, int, bool]:
    # A directory has another number of names whenever one is made in it, and nobody asks for it.
    names = 1 if stat_bits.S_ISDIR(status.st_mode) else status.st_nlink
    return status.st_mode, status.st_dev, status.st_ino, names, status.st_uid == uid != 0


@lru_cache(maxsize=32_768)
def _stat(mode: int, device: int, inode: int, names: int, is_owner: bool) -> Stat:
    """The same status is the same object: a run looks at a hundred paths, most of which are as they were."""
    kind = stat_bits.S_IFMT(mode)
    return Stat(
        kind == stat_bits.S_IFDIR,
        kind == stat_bits.S_IFLNK,
        device,
        inode,
        kind == stat_bits.S_IFSOCK,
        names,
        is_executable=kind == stat_bits.S_IFREG and mode & 0o111 != 0,
        is_closed=is_owner and mode & 0o500 != 0o500,
    )


def _check_absent(path: str, problem: OSError) -> None:
    """Return if something is not there or not ours to see. Anything else would blind the planner: refused."""
    if problem.errno not in _ABSENT:
        raise SetupError(
            "unreadable",
            f"{path} cannot be looked at",
            why=problem.strerror or str(problem),
            fix="run the command again when the machine has recovered; no rule is left out in the meantime",
        ) from problem


def _is_directory(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)


def _home(uid: int) -> str:
    home = os.environ.get("HOME", "")
    if not home.startswith("/"):
        import pwd  # only where the environment does not say

        try:
            home = pwd.getpwuid(uid).pw_dir
        except KeyError:
            home = "/"
    return os.path.realpath(home)


def _landlock_abi() -> int:
    """landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION); one number on every machine."""
    if sys.platform != "linux":
        return 0
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    return max(0, int(libc.syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint32(1))))
