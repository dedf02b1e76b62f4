"""Transient scopes: systemd makes a control group with limits for one process of ours.

An ordinary user's shell lives in a control group that he may not change, so corral cannot make groups
beneath it. His service manager can: it gets a subtree of its own from the system. Root asks the system's
manager. Whatever systemd answers, the kernel has the last word: a scope counts only when the process is
in it and the files of the group say what was asked for. Control groups of version 2 only.
"""

from __future__ import annotations

import errno
import os

from corral.limits._doors import MANAGER, PATH, SERVICE, connect, read_property, sockets
from corral.limits.files import read
from corral.limits.group import LABEL, is_leftover, label
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.limits._bus import BusConnection, Message

_STOP_US = 2_000_000  # from SIGTERM to SIGKILL, if a scope must be stopped
_CONTROLLERS = frozenset({"memory", "cpu", "pids"})
_SECOND_US = 1_000_000
_LEAST_QUOTA_US = 1_000  # systemd gives no less, the kernel takes no less
_MOST_BYTES = 1 << 62
_MOST_PIDS = 1 << 22  # there are no more process ids

_PROC = "/proc"
_GROUPS = "/sys/fs/cgroup"

_NO_SUCH_UNIT = "org.freedesktop.systemd1.NoSuchUnit"
_UNKNOWN_PROPERTY = "org.freedesktop.DBus.Error.PropertyReadOnly"
_BUS = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")
_JOBS = f"type='signal',sender='{SERVICE}',path='{PATH}',interface='{MANAGER}',member='JobRemoved'"
_UNIT = "ssssssouso"


class ScopeRequest(Record):
    """A scope for one process and all that it starts; a limit that is None is not set."""

    name: str
    pid: int
    memory_bytes: int | None = None  # swap is none then
    cpus: float | None = None
    pids: int | None = None


def scope_name(run_id: str) -> str:
    """Name the scope of a run as groups are: anyone can tell whether its owner, this process, is alive."""
    return f"{label()}{run_id}.scope"


def is_reachable() -> tuple[bool, str]:
    """Whether the manager answers, and which it is, or why not. Never raises."""
    try:
        with connect() as connection:
            version = read_property(connection, "Version")
    except OSError as problem:
        return False, problem.strerror or str(problem)
    return True, f"the {'system' if os.geteuid() == 0 else 'user'} manager, systemd {version}"


def manager_key() -> str:
    """The same text as long as the same manager has the same controllers. Cheap: nobody is asked.

    A user's manager may come at any time, by a login or by `loginctl enable-linger`.
    """
    uid = os.geteuid()
    group = f"{_GROUPS}/user.slice/user-{uid}.slice/user@{uid}.service" if uid else _GROUPS
    return f"{','.join(sockets())} {read(f'{group}/cgroup.controllers').strip()}"


def controllers() -> frozenset[str]:
    """Controllers among memory, cpu and pids that the manager can hold a scope with. Never raises.

    The user's manager has those that the system has delegated to it. Empty if it cannot be reached.
    """
    try:
        with connect() as connection:
            group = read_property(connection, "ControlGroup")
    except OSError:
        return frozenset()
    return _CONTROLLERS & set(read(f"{_GROUPS}{group.rstrip('/')}/cgroup.controllers").split())


def start_scope(request: ScopeRequest) -> str:
    """Move a process into a new scope; return the directory of its control group when the limits hold.

    Raises OSError with the words of systemd if they do not. What has become of the process is unknown
    then: it must be ended, and the scope ends with it.
    """
    from corral.limits._bus import BusError

    with connect() as connection:
        _listen_for_jobs(connection)
        try:
            answer = connection.call(_start_call(connection, request, is_new=True))
        except BusError as problem:
            if problem.name != _UNKNOWN_PROPERTY:
                raise
            answer = connection.call(_start_call(connection, request, is_new=False))
        _wait_for_job(connection, answer.read("o"), f"{request.name} was not started")
    directory = _directory(request)
    for file, wanted, found in _unheld(request, directory):
        raise OSError(
            errno.EOPNOTSUPP, f"systemd does not hold {file} of {request.name} at {wanted}: it is {found!r}"
        )
    return directory


def stop_scope(name: str) -> None:
    """End every process of a scope, and wait for that. One that is gone is well. Raises OSError."""
    from corral.limits._bus import BusError

    with connect() as connection:
        _listen_for_jobs(connection)
        call = connection.new_call(SERVICE, PATH, MANAGER, "StopUnit")
        try:
            answer = connection.call(call.append("s", name).append("s", "replace"))
        except BusError as problem:
            if problem.name == _NO_SUCH_UNIT:
                return
            raise
        _wait_for_job(connection, answer.read("o"), f"{name} was not stopped")


def leftovers() -> tuple[str, ...]:
    """Names of scopes whose owner is gone. Raises OSError."""
    with connect() as connection:
        call = connection.new_call(SERVICE, PATH, MANAGER, "ListUnitsByPatterns")
        call.open("a", "s").close().open("a", "s").append("s", f"{LABEL}*.scope").close()
        answer = connection.call(call)
        names = []
        answer.enter("a", f"({_UNIT})")
        while answer.enter("r", _UNIT):
            names.append(answer.read("s"))
            answer.skip(_UNIT[1:])
            answer.leave()
    return tuple(sorted(name for name in names if is_leftover(name)))


def remove_leftovers() -> tuple[str, ...]:
    """Stop every scope whose owner is gone; return their names. Raises OSError."""
    names = leftovers()
    for name in names:
        stop_scope(name)
    return names


def _start_call(connection: BusConnection, request: ScopeRequest, *, is_new: bool) -> Message:
    call = connection.new_call(SERVICE, PATH, MANAGER, "StartTransientUnit")
    call.append("s", request.name).append("s", "fail").open("a", "(sv)")
    call.open("r", "sv").append("s", "PIDs").open("v", "au").open("a", "u")
    call.append("u", request.pid).close().close().close()
    for name, kind, value in _properties(request, is_new=is_new):
        call.open("r", "sv").append("s", name).open("v", kind).append(kind, value).close().close()
    return call.close().open("a", "(sa(sv))").close()


def _properties(request: ScopeRequest, *, is_new: bool) -> Iterator[tuple[str, str, str | int]]:
    """(name, signature, value) of each property of the scope, see org.freedesktop.systemd1(5)."""
    yield "Description", "s", f"corral: limits of process {request.pid}"
    yield "CollectMode", "s", "inactive-or-failed"
    yield "TimeoutStopUSec", "t", _STOP_US
    if is_new:
        # Unless told, systemd ends the whole scope when the kernel has ended one process of it for its
        # memory. Versions that do not know the word (249 is one) do nothing of the kind.
        yield "OOMPolicy", "s", "continue"
    if request.memory_bytes is not None:
        yield "MemoryMax", "t", min(request.memory_bytes, _MOST_BYTES)
        yield "MemorySwapMax", "t", 0
    if request.cpus is not None:
        yield "CPUQuotaPerSecUSec", "t", _quota(request.cpus)
    if request.pids is not None:
        yield "TasksMax", "t", min(request.pids, _MOST_PIDS)


def _quota(cpus: float) -> int:
    """Microseconds of processor time in each second."""
    return max(_LEAST_QUOTA_US, int(min(cpus, _MOST_PIDS) * _SECOND_US))


def _listen_for_jobs(connection: BusConnection) -> None:
    """Ask the message bus for the ends of jobs; the manager's own socket sends them anyway."""
    if connection.has_daemon:
        connection.call(connection.new_call(*_BUS, "AddMatch").append("s", _JOBS))


def _wait_for_job(connection: BusConnection, job: str, what: str) -> None:
    while True:
        signal = connection.next_signal(MANAGER, "JobRemoved")
        signal.skip("u")
        if signal.read("o") == job:
            break
    signal.skip("s")
    result = signal.read("s")
    if result != "done":
        raise OSError(errno.EIO, f"{what}: the job ended with {result!r}")


def _directory(request: ScopeRequest) -> str:
    """Return the group that the kernel says the process is in, if it is the scope."""
    for line in read(f"{_PROC}/{request.pid}/cgroup").splitlines():
        if line.startswith("0::/") and line.endswith(f"/{request.name}"):
            return f"{_GROUPS}{line.removeprefix('0::')}"
    raise OSError(errno.ESRCH, f"process {request.pid} is not in {request.name}, though systemd said so")


def _unheld(request: ScopeRequest, directory: str) -> Iterator[tuple[str, str, str]]:
    """(file, what it should be, what it is) of each limit that the kernel does not hold."""
    if request.memory_bytes is not None:
        found = read(f"{directory}/memory.max").strip()
        if not found.isdecimal() or int(found) > request.memory_bytes:  # the kernel rounds down to pages
            yield "memory.max", str(request.memory_bytes), found
        swap = read(f"{directory}/memory.swap.max").strip()  # not there if the kernel has no swap
        if swap not in {"", "0"}:
            yield "memory.swap.max", "0", swap
    if request.cpus is not None:
        found = read(f"{directory}/cpu.max").strip()
        quota, _, period = found.partition(" ")
        most = _quota(request.cpus) * int(period) // _SECOND_US if period.isdecimal() else 0
        if not quota.isdecimal() or int(quota) > max(most, _LEAST_QUOTA_US):
            yield "cpu.max", f"{request.cpus} processors", found
    if request.pids is not None:
        found = read(f"{directory}/pids.max").strip()
        if not found.isdecimal() or int(found) > request.pids:
            yield "pids.max", str(request.pids), found
