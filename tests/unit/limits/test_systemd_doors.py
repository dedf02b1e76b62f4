"""Ways to systemd: its own socket, the bus, silence, garbage, and who may not be asked."""

from __future__ import annotations

import errno
import os
import signal
import threading
from pathlib import Path

import pytest
from fake_manager import JOB, FakeManager, error, started
from jeepney import new_method_return
from scopes import REQUEST, runtime, use

from corral.limits import _bus, _doors, systemd
from corral.limits.discover import trial_request
from corral.limits.scope import systemd_enforcer
from corral.model.enforcer import SYSTEMD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jeepney import Message


def test_a_manager_that_says_nothing_is_not_waited_for(
    manager: FakeManager, bus: FakeManager, short_patience: None
) -> None:
    manager.is_deaf = True

    with pytest.raises(TimeoutError, match="no answer in time"):
        systemd.start_scope(REQUEST)
    assert systemd.is_reachable()[0] is False
    assert systemd.controllers() == frozenset()
    assert bus.calls == []  # the same manager: it would not answer there either


@pytest.mark.parametrize("method", ["Get", "StartTransientUnit"])
def test_an_answer_that_never_comes_is_not_waited_for(
    manager: FakeManager, scope: Path, short_patience: None, method: str
) -> None:
    manager.behaviour[method] = lambda _: []

    with pytest.raises(TimeoutError):
        systemd.start_scope(REQUEST)


def test_a_job_that_never_ends_is_not_waited_for(
    manager: FakeManager, scope: Path, short_patience: None
) -> None:
    manager.behaviour["StartTransientUnit"] = lambda call: [new_method_return(call, "o", (JOB,))]

    with pytest.raises(TimeoutError):
        systemd.start_scope(REQUEST)


def test_a_signal_in_between_changes_nothing(manager: FakeManager, scope: Path) -> None:
    handled = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def slow(call: Message) -> list[Message | bytes]:
        signal.pthread_kill(main, signal.SIGUSR1)
        assert handled.wait(10)
        return started(call)

    before = signal.signal(signal.SIGUSR1, lambda *_: handled.set())
    try:
        manager.behaviour["StartTransientUnit"] = slow

        assert systemd.start_scope(REQUEST) == str(scope)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_wait_that_a_signal_cuts_short_is_taken_up_again(
    manager: FakeManager, scope: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = _bus._load()
    wait, told = library.sd_bus_wait, threading.Event()

    def interrupted(*arguments: object) -> int:
        if told.is_set():
            return int(wait(*arguments))
        told.set()
        return -errno.EINTR

    def slow(call: Message) -> list[Message | bytes]:
        assert told.wait(10)
        return [new_method_return(call, "v", (("s", "255"),))]

    manager.behaviour["Get"] = slow
    monkeypatch.setattr(library, "sd_bus_wait", interrupted)
    monkeypatch.setattr(_bus, "_load", lambda: library)

    assert systemd.start_scope(REQUEST) == str(scope)
    assert told.is_set()


@pytest.mark.parametrize(
    "garbage",
    [b"garbage " * 100, b"\0" * 1000, b"l\1\0\1" + b"\xff" * 100, b"REJECTED EXTERNAL\r\n", b"\r\n\r\n"],
    ids=["words", "zeros", "header", "rejected", "lines"],
)
def test_garbage_instead_of_a_handshake_is_an_error(
    manager: FakeManager, short_patience: None, garbage: bytes
) -> None:
    manager.greeting = garbage

    with pytest.raises(OSError):
        systemd.start_scope(REQUEST)
    assert systemd.is_reachable()[0] is False


@pytest.mark.parametrize(
    "garbage", [b"garbage " * 100, b"\0" * 1000, b"l\2\0\1" + b"\xff" * 100], ids=["words", "zeros", "header"]
)
@pytest.mark.parametrize("method", ["Get", "StartTransientUnit", "StopUnit", "ListUnitsByPatterns"])
def test_garbage_instead_of_an_answer_is_an_error(
    manager: FakeManager, short_patience: None, method: str, garbage: bytes
) -> None:
    manager.behaviour[method] = lambda _: [garbage]

    with pytest.raises(OSError):
        use(method)


@pytest.mark.parametrize(
    ("signature", "body"), [("u", (7,)), ("s", ("text",)), (None, ()), ("as", (["a"],)), ("v", (("u", 7),))]
)
@pytest.mark.parametrize("method", ["Get", "StartTransientUnit", "StopUnit", "ListUnitsByPatterns"])
def test_an_answer_of_another_type_is_an_error(
    manager: FakeManager, scope: Path, method: str, signature: str | None, body: tuple
) -> None:
    manager.behaviour[method] = lambda call: [new_method_return(call, signature, body)]

    with pytest.raises(OSError):
        use(method)


def test_without_a_socket_there_is_no_manager(place: Path) -> None:
    assert systemd.is_reachable() == (False, "systemd has no socket here")
    assert systemd.controllers() == frozenset()
    with pytest.raises(OSError, match="systemd has no socket here"):
        systemd.start_scope(REQUEST)


def test_a_socket_that_nobody_listens_on_is_named(manager: FakeManager, place: Path) -> None:
    manager.close()
    reachable, reason = systemd.is_reachable()

    assert not reachable
    assert reason == f"{runtime(place)}/systemd/private: Connection refused"


def test_without_the_library_there_is_no_manager(
    manager: FakeManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_bus, "_LIBRARY", "libabsent.so.0")
    reachable, reason = systemd.is_reachable()

    assert not reachable
    assert "libabsent.so.0: cannot open shared object file" in reason


def test_a_library_that_is_too_old_is_named(manager: FakeManager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_bus._FUNCTIONS, "sd_bus_of_tomorrow", "p")
    reachable, reason = systemd.is_reachable()

    assert not reachable
    assert "libsystemd.so.0 is too old" in reason


def test_a_manager_that_answers_is_named(manager: FakeManager) -> None:
    which = "system" if os.geteuid() == 0 else "user"

    assert systemd.is_reachable() == (True, f"the {which} manager, systemd 255 (fake)")


def test_the_controllers_are_those_of_the_managers_own_group(manager: FakeManager, place: Path) -> None:
    (place / "groups/user.slice/manager").mkdir(parents=True)
    (place / "groups/cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (place / "groups/user.slice/manager/cgroup.controllers").write_text("io memory pids\n")

    assert systemd.controllers() == {"memory", "pids"}


def test_on_a_message_bus_the_ends_of_jobs_are_asked_for(bus: FakeManager, scope: Path) -> None:
    assert systemd.start_scope(REQUEST) == str(scope)

    ((rule,),) = bus.bodies("AddMatch")

    assert [name for name, _ in bus.calls] == ["Hello", "Get", "AddMatch", "StartTransientUnit"]
    assert "member='JobRemoved'" in rule and "sender='org.freedesktop.systemd1'" in rule


def test_the_managers_own_socket_comes_first(manager: FakeManager, bus: FakeManager, scope: Path) -> None:
    systemd.start_scope(REQUEST)

    assert [name for name, _ in manager.calls] == ["Get", "StartTransientUnit"]
    assert bus.calls == []


def test_the_message_bus_is_there_when_the_socket_is_not(
    manager: FakeManager, bus: FakeManager, scope: Path
) -> None:
    manager.close()

    assert systemd.start_scope(REQUEST) == str(scope)
    assert bus.bodies("StartTransientUnit")


def test_a_bus_without_systemd_is_no_manager(bus: FakeManager) -> None:
    text = "The name org.freedesktop.systemd1 was not provided by any .service files"
    bus.behaviour["Get"] = lambda call: [error(call, "org.freedesktop.DBus.Error.ServiceUnknown", text)]
    reachable, reason = systemd.is_reachable()

    assert not reachable
    assert text in reason


@pytest.mark.parametrize(
    ("peer", "reason"),
    [((0, 0), "the manager is in another PID namespace"), ((1, 54321), "belongs to another user")],
)
def test_a_foreign_manager_is_not_asked_for_anything(
    manager: FakeManager, monkeypatch: pytest.MonkeyPatch, peer: tuple[int, int], reason: str
) -> None:
    """A process id of ours would be some other process there."""
    monkeypatch.setattr(_bus.BusConnection, "peer", lambda _: peer)

    with pytest.raises(OSError, match=reason):
        systemd.start_scope(REQUEST)
    assert manager.bodies("StartTransientUnit") == []


def test_the_one_who_made_the_socket_is_known(manager: FakeManager, place: Path) -> None:
    with _doors.connect() as connection:
        assert connection.peer() == (os.getpid(), os.geteuid())


@pytest.mark.parametrize(
    ("session", "used"),
    [
        ("unix:path=/a/bus", True),
        ("unix:abstract=/a,guid=1;unix:path=/b", True),
        ("unixexec:path=/bin/sh", False),
        ("unix:path=/a;unixexec:path=/bin/sh", False),
        ("tcp:host=example.com,port=1", False),
        ("", False),
    ],
)
def test_an_address_may_only_name_a_socket_of_this_machine(
    place: Path, monkeypatch: pytest.MonkeyPatch, session: str, used: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", session)

    assert [door.address for door in _doors._doors()] == ([session] if used else [])


def test_a_users_manager_is_looked_for_where_his_session_says(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for directory in ("elsewhere;=%", "run/user/1000"):
        (place / directory / "systemd").mkdir(parents=True)
        (place / directory / "systemd/private").touch()
        (place / directory / "bus").touch()

    assert [(door.name, door.has_daemon) for door in _doors._doors()] == [
        (f"{place}/run/user/1000/systemd/private", False),
        (f"{place}/run/user/1000/bus", True),
    ]

    monkeypatch.setenv("XDG_RUNTIME_DIR", f"{place}/elsewhere;=%")

    assert [door.address for door in _doors._doors()] == [
        f"unix:path={_bus.escape(str(place))}/elsewhere%3b%3d%25/systemd/private",
        f"unix:path={_bus.escape(str(place))}/elsewhere%3b%3d%25/bus",
    ]


def test_what_was_remembered_of_the_host_ends_when_a_manager_comes(place: Path) -> None:
    """By a login, or by `loginctl enable-linger`: corral uses it without being told."""
    before = systemd.manager_key()
    private = runtime(place) / "systemd/private"
    private.parent.mkdir(parents=True, exist_ok=True)
    private.touch()

    assert systemd.manager_key() != before


def test_who_cannot_ask_systemd_is_told_how_he_could(place: Path) -> None:
    found = systemd_enforcer(lambda _: "", lambda holds: trial_request(SYSTEMD, holds))

    assert found.holds == frozenset()
    is_told = "loginctl enable-linger" in found.fix
    assert is_told == (os.geteuid() != 0)  # the system's own manager is there, or it is not


@pytest.mark.parametrize("given", [frozenset(), frozenset({"memory", "pids"})], ids=["nothing", "no cpu"])
def test_a_manager_that_was_given_too_little_comes_with_a_fix(
    monkeypatch: pytest.MonkeyPatch, given: frozenset[str]
) -> None:
    monkeypatch.setattr(systemd, "is_reachable", lambda: (True, ""))
    monkeypatch.setattr(systemd, "controllers", lambda: given)
    found = systemd_enforcer(lambda _: "", lambda holds: trial_request(SYSTEMD, holds))

    assert bool(found.holds) == bool(given)
    assert "Delegate=cpu memory pids" in found.fix
    assert "\n" not in found.fix
