"""TrialRecord: what is known of a trial, kept beside its layers in the state directory."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time

from corral.host.real import state_directory
from corral.model.errors import PolicyError, SetupError
from corral.model.plan import TrialLayers
from corral.model.printable import printable
from corral.model.record import Record
from corral.model.rules.quantities import parse_count, parse_size
from corral.untrusted_files.removal import remove_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_TICK_SECONDS = 0.0005
_REALTIME_COARSE = 5  # clock_gettime(2); Python has no name for it
_RECORD, _LOCK, _UPPER, _WORK, _FROZEN = "record.json", "lock", "upper", "work", "frozen"


#: A layer in memory has whole pages.
LEAST_BYTES = 4096
MOST_FILES = 2**31
_MOST_LOWERS = 60  # the launcher takes 64, with what is above and below them
_BYTES = 2 * 1024**3  # if only its files are counted


class LayerSize(Record):
    """How much a layer in memory may hold."""

    size_bytes: int
    files: int


def layer_size(size: str | int | None, files: str | int | None) -> LayerSize | None:
    """What a caller has asked for; None: the layer is on disk, and has no size. Raises PolicyError."""
    if size is None and files is None:
        return None
    try:
        size_bytes = _BYTES if size is None else parse_size(size) if isinstance(size, str) else size
        if size_bytes < LEAST_BYTES:
            raise ValueError(f"a layer has {LEAST_BYTES} bytes at least")
        count = size_bytes // LEAST_BYTES if files is None else parse_count(str(files))
        if count > MOST_FILES:
            raise ValueError(f"{files} files are more than a layer can count")
    except ValueError as problem:
        raise PolicyError(
            "trial-size",
            "this is no size for a trial",
            why=str(problem),
            fix="write it as --trial-size 500M and --trial-files 10000",
        ) from None
    return LayerSize(size_bytes // LEAST_BYTES * LEAST_BYTES, count)


class TrialRecord(Record):
    root: str  # what the layers lie over
    workspace: str
    device: int  # of the root
    inode: int
    began_ns: int  # by the clock that file systems go by
    identity: str = ""  # both are given by `make_trial`
    directory: str = ""  # of its own, in the state directory
    command: str = ""
    protect: tuple[str, ...] = ()  # names that the policy protects
    protected: tuple[str, ...] = ()  # paths that the plan held, relative to the root
    direct: tuple[str, ...] = ()  # what the command could write without a layer
    lowers: tuple[str, ...] = ()  # frozen layers, of the trials that this one was forked from
    repositories: tuple[str, ...] = ()  # git directories that were looked at, relative to the root
    size_bytes: int = 0  # of layers in memory, all together; 0: they are on disk, without a size
    files: int = 0  # that may be in them
    used_bytes: int = 0  # by commands that have ended
    used_files: int = 0

    @property
    def layers(self) -> tuple[str, ...]:
        """From the top down."""
        return (os.path.join(self.directory, _UPPER), *self.lowers)

    @property
    def mounted(self) -> TrialLayers:
        """What the launcher is told."""
        layers = TrialLayers(self.root, self.layers[0], os.path.join(self.directory, _WORK), self.lowers)
        if not self.size_bytes:
            return layers
        left = self.size_bytes - self.used_bytes, self.files - self.used_files
        return layers.replace(directory=self.directory, size_bytes=left[0], files=left[1])

    @property
    def is_full(self) -> bool:
        """Whether it has a size, and commands before have used it up."""
        left = self.mounted
        return bool(self.size_bytes) and (left.size_bytes < LEAST_BYTES or left.files <= 0)

    @property
    def age_seconds(self) -> float:
        return max(0.0, time.time() - self.began_ns / 1e9)


def trials_directory() -> str:
    """Where trials are kept. Raises SetupError where there is no place for them."""
    state = state_directory()
    if not state:
        raise SetupError(
            "trial-place",
            "there is no place for the layer of a trial",
            why="the caller has no home directory, and XDG_STATE_HOME is not set",
            fix="set XDG_STATE_HOME to a directory of your own, outside of the workspace",
        )
    return os.path.join(state, "trials")


def now_ns() -> int:
    """No file has been changed later than this, by the clocks that file systems go by."""
    return time.time_ns()


def wait_beyond(moment_ns: int) -> None:
    """Until whatever is changed from now on has a later time: stamps go by ticks of the kernel."""
    while time.clock_gettime_ns(_REALTIME_COARSE) <= moment_ns:
        time.sleep(_TICK_SECONDS)


def make_trial(wanted: TrialRecord) -> TrialRecord:
    """Make the directories of a new trial: as `wanted`, with an id of its own. Raises CorralError."""
    place = trials_directory()
    _check_place(wanted.root, place)
    _check_mounts(wanted.root)
    identity = os.urandom(4).hex()
    record = wanted.replace(identity=identity, directory=os.path.join(place, identity))
    try:
        os.makedirs(place, mode=0o700, exist_ok=True)
        os.mkdir(record.directory, 0o700)
        _make_layers(record)
        write_record(record)
    except OSError as problem:
        with contextlib.suppress(OSError):
            remove_tree(place, identity)
        raise _no_layer(place, problem) from None
    return record


def _make_layers(record: TrialRecord) -> None:
    upper = record.layers[0]
    os.mkdir(upper, 0o700)
    os.mkdir(record.mounted.work, 0o700)
    os.setxattr(
        upper, "user.overlay.test", b""
    )  # whoever cannot keep attributes cannot tell what was removed
    os.removexattr(upper, "user.overlay.test")
    status = os.stat(record.root)
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):
            os.chown(upper, status.st_uid, status.st_gid)
    os.chmod(upper, status.st_mode & 0o7777)  # it is what the command sees at the root


def has_written(record: TrialRecord) -> bool:
    """Whether something is in its own layer."""
    with os.scandir(record.layers[0]) as entries:
        return next(entries, None) is not None


def check_room(record: TrialRecord) -> None:
    """Raise SetupError where a trial with a size has used it up."""
    if len(record.lowers) > _MOST_LOWERS:
        raise SetupError(
            "trial-full",
            f"trial {record.identity} has too many layers",
            why=f"each command that writes adds one to a trial in memory, and there are {len(record.lowers)}",
            fix="run the commands in one session on the trial",
        )
    if not record.is_full:
        return
    raise SetupError(
        "trial-full",
        f"trial {record.identity} has no room left",
        why=f"commands before have used {record.used_bytes} of {record.size_bytes} bytes and "
        f"{record.used_files} of {record.files} files",
        fix=f"apply or discard it (`corral apply {record.identity}`), and begin another one with more",
    )


def freeze_layer(record: TrialRecord) -> TrialRecord:
    """What a trial has written becomes a layer that nobody writes any more; its own is empty again."""
    frozen = os.path.join(os.path.dirname(record.directory), _FROZEN)
    os.makedirs(frozen, mode=0o700, exist_ok=True)
    place = os.path.join(frozen, f"{record.identity}-{os.urandom(4).hex()}")
    with _hold_layers(frozen):
        os.rename(record.layers[0], place)
        try:
            remove_tree(record.directory, _WORK)
            after = record.replace(lowers=(place, *record.lowers))
            _make_layers(after)
            write_record(after)
        except OSError:
            with contextlib.suppress(OSError):
                remove_tree(record.directory, _UPPER)
            os.rename(place, record.layers[0])
            raise
    return after


@contextlib.contextmanager
def _hold_layers(frozen: str) -> Iterator[None]:
    """Nobody removes a layer that is frozen and in no record yet."""
    handle = os.open(frozen, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def put_back(record: TrialRecord, lowers: tuple[str, ...], used: tuple[int, int]) -> TrialRecord:
    """Forget what was written since some layers were frozen."""
    remove_tree(record.directory, _UPPER)
    remove_tree(record.directory, _WORK)
    after = record.replace(lowers=lowers, used_bytes=used[0], used_files=used[1])
    _make_layers(after)
    write_record(after)
    return after


def remove_unused_layers(place: str) -> None:
    """Remove frozen layers that no trial lies over."""
    frozen = os.path.join(place, _FROZEN)
    if not os.path.isdir(frozen):
        return
    with _hold_layers(frozen):
        records = [read_record(os.path.join(place, name)) for name in os.listdir(place)]
        used = {lower for record in records if record is not None for lower in record.lowers}
        for name in os.listdir(frozen):
            if os.path.join(frozen, name) not in used:
                remove_tree(frozen, name)


def write_record(record: TrialRecord) -> None:
    """Replace what is known of a trial."""
    path = os.path.join(record.directory, _RECORD)
    fields = {name: getattr(record, name) for name in TrialRecord._fields if name != "directory"}
    with open(f"{path}.new", "w", encoding="ascii") as file:
        json.dump({"v": 1, **fields}, file)
    os.rename(f"{path}.new", path)


def read_record(directory: str) -> TrialRecord | None:
    """The record in a directory; None where there is none that can be read."""
    try:
        with open(os.path.join(directory, _RECORD), encoding="ascii") as file:
            found = json.load(file)
        if found.pop("v") != 1:
            return None
        fields = {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
        values: dict[str, Any] = {**fields, "directory": directory}
        return TrialRecord(**values)
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextlib.contextmanager
def hold_trial(record: TrialRecord) -> Iterator[None]:
    """Have a trial for oneself: nobody else runs in it, applies or discards it. Raises PolicyError."""
    handle = os.open(os.path.join(record.directory, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PolicyError(
                "trial-busy",
                f"trial {record.identity} is in use",
                why="a command runs in it, or it is being applied, undone or discarded",
                fix="wait until that has ended",
            ) from None
        yield
    finally:
        os.close(handle)


def is_busy(record: TrialRecord) -> bool:
    """Whether somebody has it for himself right now."""
    try:
        with hold_trial(record):
            return False
    except PolicyError:
        return True
    except OSError:
        return False


@contextlib.contextmanager
def reading_trial(record: TrialRecord) -> Iterator[None]:
    """What cannot be read is an error in corral's words."""
    try:
        yield
    except OSError as problem:
        place = f"{printable(os.fsdecode(problem.filename))}: " if problem.filename else ""
        raise SetupError(
            "trial-unreadable",
            f"trial {record.identity} cannot be compared with its workspace",
            why=f"{place}{problem.strerror or problem}",
            fix=f"fix that in {record.root}, or `corral discard {record.identity}`",
            ran=True,
        ) from None


def _check_place(root: str, place: str) -> None:
    if not f"{os.path.realpath(place)}/".startswith(f"{root.rstrip('/')}/"):
        return
    raise PolicyError(
        "trial-place",
        "the layer of a trial would be in the workspace that it covers",
        why=f"{place} is in {root}",
        fix="work in a narrower directory, or point XDG_STATE_HOME to a place outside",
    )


def _check_mounts(root: str) -> None:
    """An overlay shows one file system: what is mounted further down would be missing."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            point = line.split(" ", 5)[4]
            for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
                point = point.replace(code, character)
            if point.startswith(f"{root.rstrip('/')}/"):
                raise PolicyError(
                    "trial-mount",
                    "this workspace cannot be tried: something is mounted in it",
                    why=f"{point} is a separate file system, which a layer over {root} does not show",
                    fix="work in a directory without mounts, or use `corral run`",
                )


def _no_layer(place: str, problem: OSError) -> SetupError:
    return SetupError(
        "trial-place",
        "the layer of a trial cannot be made",
        why=f"{place}: {problem.strerror or problem}",
        fix="point XDG_STATE_HOME to a directory of your own on ext4, xfs or btrfs, outside of the workspace",
    )
