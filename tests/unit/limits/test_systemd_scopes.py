"""Scopes of systemd: what is asked for on the bus, and that only the kernel's word counts."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest
from fake_manager import JOB, FakeManager, error, job_removed, started
from jeepney import new_method_return
from scopes import MIB, NAME, REQUEST

from corral.limits import systemd
from corral.limits.systemd import ScopeRequest, scope_name
from support.descriptors import count_descriptors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jeepney import Message


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
    before = count_descriptors()
    for _ in range(3):
        systemd.start_scope(REQUEST)
        systemd.stop_scope(NAME)
        systemd.is_reachable()
    manager.behaviour["StartTransientUnit"] = lambda _: [b"garbage " * 10]
    with pytest.raises(OSError):
        systemd.start_scope(REQUEST)
    manager.close()
    bus.close()

    assert count_descriptors() == before - 2  # the two listeners


def test_who_does_not_use_it_does_not_pay_for_ctypes() -> None:
    script = "import sys, corral.limits.systemd; sys.exit('ctypes' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=30).returncode == 0
