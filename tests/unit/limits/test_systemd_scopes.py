"""Scopes of systemd: what is asked for on the bus, and that only the kernel's word counts."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from fake_manager import JOB, FakeManager, error, job_removed, started
from jeepney import new_method_return

from corral.limits import _bus, _doors, systemd
from corral.limits.systemd import ScopeRequest, scope_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from jeepney import Message

MIB = 1 << 20
NAME = "corral-1-2-run.scope"
REQUEST = ScopeRequest(NAME, 4242, memory_bytes=64 * MIB, cpus=0.29, pids=12)
FILES = {
    "memory.max": f"{64 * MIB}\n",
    "memory.swap.max": "0\n",
    "cpu.max": "29000 100000\n",
    "pids.max": "12\n",
}


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with /run, /proc and /sys/fs/cgroup in it; short, as names of sockets must be."""
    with tempfile.TemporaryDirectory() as name:
        for variable in ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setattr(_doors, "_RUN", f"{name}/run")
        monkeypatch.setattr(systemd, "_PROC", f"{name}/proc")
        monkeypatch.setattr(systemd, "_GROUPS", f"{name}/groups")
        yield Path(name)


def _runtime(place: Path) -> Path:
    return place / "run" if os.geteuid() == 0 else place / f"run/user/{os.geteuid()}"


def _bus_socket(place: Path) -> Path:
    return _runtime(place) / ("dbus/system_bus_socket" if os.geteuid() == 0 else "bus")


@pytest.fixture
def manager(place: Path) -> Iterator[FakeManager]:
    """The manager behind its own socket."""
    fake = FakeManager(_runtime(place) / "systemd/private")
    yield fake
    fake.close()


@pytest.fixture
def bus(place: Path) -> Iterator[FakeManager]:
    """The manager behind a message bus."""
    _bus_socket(place).parent.mkdir(parents=True, exist_ok=True)
    fake = FakeManager(_bus_socket(place))
    yield fake
    fake.close()


@pytest.fixture
def scope(place: Path) -> Path:
    """What the kernel shows when the scope is there and everything holds."""
    directory = place / "groups/user.slice/manager/app.slice" / NAME
    directory.mkdir(parents=True)
    for name, text in FILES.items():
        (directory / name).write_text(text)
    (place / "proc/4242").mkdir(parents=True)
    (place / "proc/4242/cgroup").write_text(f"0::/user.slice/manager/app.slice/{NAME}\n")
    return directory


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_doors, "_SECONDS", 0.3)


def _use(method: str) -> None:
    """Do something that calls this method of the manager."""
    if method == "StopUnit":
        systemd.stop_scope(NAME)
    elif method == "ListUnitsByPatterns":
        systemd.leftovers()
    else:
        systemd.start_scope(REQUEST)


def test_every_limit_is_asked_for_with_its_type(manager: FakeManager, scope: Path) -> None:
    assert systemd.start_scope(REQUEST) == str(scope)

    ((name, mode, properties, others),) = manager.bodies("StartTransientUnit")

    assert (name, mode, others) == (NAME, "fail", [])
    assert dict(properties) == {
        "PIDs": ("au", [4242]),
        "Description": ("s", "corral: limits of process 4242"),
        "CollectMode": ("s", "inactive-or-failed"),
        "TimeoutStopUSec": ("t", 2_000_000),
        "OOMPolicy": ("s", "continue"),
        "MemoryMax": ("t", 64 * MIB),
        "MemorySwapMax": ("t", 0),
        "CPUQuotaPerSecUSec": ("t", 290_000),
        "TasksMax": ("t", 12),
    }


def test_a_limit_that_is_not_wanted_is_not_asked_for(manager: FakeManager, scope: Path) -> None:
    systemd.start_scope(ScopeRequest(NAME, 4242, pids=12))
    ((_, _, properties, _),) = manager.bodies("StartTransientUnit")

    assert {"MemoryMax", "MemorySwapMax", "CPUQuotaPerSecUSec"} & dict(properties).keys() == set()


def test_numbers_that_do_not_fit_are_brought_into_range(manager: FakeManager, scope: Path) -> None:
    (scope / "cpu.max").write_text("1000 1000000\n")
    systemd.start_scope(ScopeRequest(NAME, 4242, 1 << 70, 0.00001, 1 << 40))
    ((_, _, properties, _),) = manager.bodies("StartTransientUnit")
    asked = dict(properties)

    assert asked["MemoryMax"] == ("t", 1 << 62)
    assert asked["CPUQuotaPerSecUSec"] == ("t", 1000)
    assert asked["TasksMax"] == ("t", 1 << 22)


def test_an_older_manager_is_asked_again_without_the_word_that_it_does_not_know(
    manager: FakeManager, scope: Path
) -> None:
    def old(call: Message) -> list[Message | bytes]:
        if "OOMPolicy" in dict(call.body[2]):
            name = "org.freedesktop.DBus.Error.PropertyReadOnly"
            return [error(call, name, "Cannot set property OOMPolicy, or unknown property.")]
        return started(call)

    manager.behaviour["StartTransientUnit"] = old

    assert systemd.start_scope(REQUEST) == str(scope)
    assert len(manager.bodies("StartTransientUnit")) == 2


def test_the_end_of_the_job_may_come_before_the_answer(manager: FakeManager, scope: Path) -> None:
    manager.behaviour["StartTransientUnit"] = lambda call: [
        job_removed(call, "done"),
        new_method_return(call, "o", (JOB,)),
    ]

    assert systemd.start_scope(REQUEST) == str(scope)


@pytest.mark.parametrize("result", ["failed", "timeout", "canceled", ""])
def test_a_job_that_fails_is_an_error(manager: FakeManager, scope: Path, result: str) -> None:
    manager.behaviour["StartTransientUnit"] = lambda call: [
        new_method_return(call, "o", (JOB,)),
        job_removed(call, result),
    ]

    with pytest.raises(OSError, match=f"{NAME} was not started: the job ended with '{result}'"):
        systemd.start_scope(REQUEST)


def test_an_error_has_the_words_of_systemd(manager: FakeManager, scope: Path) -> None:
    name, text = "org.freedesktop.DBus.Error.AccessDenied", "Process 4242 is not yours."
    manager.behaviour["StartTransientUnit"] = lambda call: [error(call, name, text)]

    with pytest.raises(OSError, match=text) as caught:
        systemd.start_scope(REQUEST)
    assert caught.value.errno == errno.EACCES
    assert caught.value.name == name


def test_a_process_that_was_not_moved_is_an_error(manager: FakeManager, scope: Path, place: Path) -> None:
    (place / "proc/4242/cgroup").write_text("0::/user.slice/session-1.scope\n")

    with pytest.raises(OSError, match=f"process 4242 is not in {NAME}"):
        systemd.start_scope(REQUEST)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("memory.max", "max\n"),
        ("memory.max", f"{65 * MIB}\n"),
        ("memory.max", None),
        ("memory.swap.max", "max\n"),
        ("cpu.max", "max 100000\n"),
        ("cpu.max", "29001 100000\n"),
        ("cpu.max", None),
        ("pids.max", "13\n"),
        ("pids.max", "max\n"),
        ("pids.max", None),
    ],
)
def test_a_limit_that_the_kernel_does_not_hold_is_an_error(
    manager: FakeManager, scope: Path, file: str, text: str | None
) -> None:
    """Systemd says nothing when a controller is not delegated to it."""
    if text is None:
        (scope / file).unlink()
    else:
        (scope / file).write_text(text)

    with pytest.raises(OSError, match=f"systemd does not hold {file}"):
        systemd.start_scope(REQUEST)


def test_a_kernel_without_swap_has_no_limit_of_it(manager: FakeManager, scope: Path) -> None:
    (scope / "memory.swap.max").unlink()

    assert systemd.start_scope(REQUEST) == str(scope)


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
        _use(method)


@pytest.mark.parametrize(
    ("signature", "body"), [("u", (7,)), ("s", ("text",)), (None, ()), ("as", (["a"],)), ("v", (("u", 7),))]
)
@pytest.mark.parametrize("method", ["Get", "StartTransientUnit", "StopUnit", "ListUnitsByPatterns"])
def test_an_answer_of_another_type_is_an_error(
    manager: FakeManager, scope: Path, method: str, signature: str | None, body: tuple
) -> None:
    manager.behaviour[method] = lambda call: [new_method_return(call, signature, body)]

    with pytest.raises(OSError):
        _use(method)


def test_without_a_socket_there_is_no_manager(place: Path) -> None:
    assert systemd.is_reachable() == (False, "systemd has no socket here")
    assert systemd.controllers() == frozenset()
    with pytest.raises(OSError, match="systemd has no socket here"):
        systemd.start_scope(REQUEST)


def test_a_socket_that_nobody_listens_on_is_named(manager: FakeManager, place: Path) -> None:
    manager.close()
    reachable, reason = systemd.is_reachable()

    assert not reachable
    assert reason == f"{_runtime(place)}/systemd/private: Connection refused"


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
    monkeypatch.setattr(_bus.Connection, "peer", lambda _: peer)

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


def test_a_scope_is_stopped_and_its_end_awaited(manager: FakeManager) -> None:
    systemd.stop_scope(NAME)

    assert manager.bodies("StopUnit") == [(NAME, "replace")]


def test_a_scope_that_is_gone_need_not_be_stopped(manager: FakeManager) -> None:
    name = "org.freedesktop.systemd1.NoSuchUnit"
    manager.behaviour["StopUnit"] = lambda call: [error(call, name, "Unit not loaded.")]

    systemd.stop_scope(NAME)

    assert manager.bodies("StopUnit") == [(NAME, "replace")]


def test_a_scope_that_cannot_be_stopped_is_an_error(manager: FakeManager) -> None:
    name = "org.freedesktop.DBus.Error.AccessDenied"
    manager.behaviour["StopUnit"] = lambda call: [error(call, name, "Not yours.")]

    with pytest.raises(OSError, match=r"Not yours\."):
        systemd.stop_scope(NAME)


def test_leftovers_are_the_scopes_whose_owner_is_gone(manager: FakeManager) -> None:
    own = scope_name("run")
    _, namespace, pid, started_at, _ = own.split("-")
    ended = subprocess.Popen(["true"])
    ended.wait()
    reused = f"corral-{namespace}-{pid}-1-run.scope"  # another process has got the number
    gone = f"corral-{namespace}-{ended.pid}-700-run.scope"
    elsewhere = f"corral-1-{ended.pid}-700-run.scope"  # in a PID namespace that we cannot look into
    names = [own, reused, gone, elsewhere, "corral-garden.scope", f"corral-{namespace}-x-1-run.scope"]

    def units(call: Message) -> list[Message | bytes]:
        rows = [(name, "", "loaded", "active", "running", "", "/unit", 0, "", "/job") for name in names]
        return [new_method_return(call, "a(ssssssouso)", (rows,))]

    manager.behaviour["ListUnitsByPatterns"] = units

    assert started_at.isdigit()
    assert systemd.leftovers() == tuple(sorted([reused, gone]))
    assert manager.bodies("ListUnitsByPatterns") == [([], ["corral-*.scope"])]
    assert systemd.remove_leftovers() == tuple(sorted([reused, gone]))
    assert [name for name, _ in manager.bodies("StopUnit")] == sorted([reused, gone])


def test_nothing_stays_open(manager: FakeManager, bus: FakeManager, scope: Path) -> None:
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        systemd.start_scope(REQUEST)
        systemd.stop_scope(NAME)
        systemd.is_reachable()
    manager.behaviour["StartTransientUnit"] = lambda _: [b"garbage " * 10]
    with pytest.raises(OSError):
        systemd.start_scope(REQUEST)
    manager.close()
    bus.close()

    assert len(os.listdir("/proc/self/fd")) == len(before) - 2  # the two listeners


def test_who_does_not_use_it_does_not_pay_for_ctypes() -> None:
    script = "import sys, corral.limits.systemd; sys.exit('ctypes' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=30).returncode == 0
