"""The ways to a service manager: its own socket, or a message bus that it is on."""

from __future__ import annotations

import errno
import os
import time

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.limits._bus import BusConnection

SERVICE = "org.freedesktop.systemd1"
PATH = "/org/freedesktop/systemd1"
MANAGER = "org.freedesktop.systemd1.Manager"
_RUN = "/run"
_SECONDS = 5.0  # for all that is done with one connection


class _Door(Record):
    """One way to the manager."""

    name: str
    address: str
    has_daemon: bool


def connect() -> BusConnection:
    """Connect to the first door behind which the manager answers. Raises OSError with all that went wrong."""
    from corral.limits._bus import BusConnection

    deadline = time.monotonic() + _SECONDS
    problems = []
    for door in _doors():
        try:
            connection = BusConnection(door.address, has_daemon=door.has_daemon, deadline=deadline)
        except OSError as problem:
            problems.append(f"{door.name}: {problem.strerror or problem}")
            continue
        try:
            read_property(connection, "Version")
            _check_peer(connection)
        except OSError as problem:
            connection.close()
            problems.append(f"{door.name}: {problem.strerror or problem}")
            if isinstance(problem, TimeoutError):
                raise TimeoutError(errno.ETIMEDOUT, "; ".join(problems)) from problem
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise OSError(errno.ENOTCONN, "; ".join(problems) or "systemd has no socket here")


def _doors() -> Iterator[_Door]:
    # The manager's own socket first, as systemctl does: it is there without a message bus, as after ssh.
    uid = os.geteuid()
    if uid == 0:
        private, bus, session = f"{_RUN}/systemd/private", f"{_RUN}/dbus/system_bus_socket", ""
    else:
        directory = os.environ.get("XDG_RUNTIME_DIR", "")
        directory = directory if directory.startswith("/") else f"{_RUN}/user/{uid}"
        private, bus = f"{directory}/systemd/private", f"{directory}/bus"
        session = os.environ.get("DBUS_SESSION_BUS_ADDRESS", "")
    if os.path.exists(private):
        yield _Door(private, _address(private), False)
    # TRUST: other kinds of addresses start programs or lead to other machines.
    if session and all(part.startswith("unix:") for part in session.split(";")):
        yield _Door(session, session, True)
    if os.path.exists(bus) and session != _address(bus):
        yield _Door(bus, _address(bus), True)


def sockets() -> tuple[str, ...]:
    """Where a manager could be asked now."""
    return tuple(door.name for door in _doors())


def _address(path: str) -> str:
    from corral.limits._bus import escape

    return f"unix:path={escape(path)}"


def _check_peer(connection: BusConnection) -> None:
    # TRUST: a process id means another process in another PID namespace, and that one would be moved.
    pid, uid = connection.peer()
    if pid <= 0:
        raise PermissionError(errno.EPERM, "the manager is in another PID namespace")
    if uid not in {0, os.geteuid()}:
        raise PermissionError(errno.EPERM, f"the socket belongs to another user ({uid})")


def read_property(connection: BusConnection, name: str) -> str:
    """Read a text that the manager tells of itself."""
    call = connection.new_call(SERVICE, PATH, "org.freedesktop.DBus.Properties", "Get")
    answer = connection.call(call.append("s", MANAGER).append("s", name))
    answer.enter("v", "s")
    return answer.read("s")
