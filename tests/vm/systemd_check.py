"""Runs in the guest, as root and as an ordinary user: scopes of the real systemd, judged by the kernel."""

from __future__ import annotations

import errno
import os
import pwd
import signal
import subprocess
import sys
import time
import traceback

from corral import Feature, Limits, Outcome, Sandbox, load_preset
from corral.host.real import RealHost
from corral.limits import _doors, systemd
from corral.limits.systemd import ScopeRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from corral import Result
    from corral.model.enforcer import Enforcer

MIB = 1 << 20
#: Each waits for a line first, so that it can be moved before it begins.
EATER = f"input(); full = b'x' * {200 * MIB}; print('ate')"
FORKER = """
import os
input()
children, refused = [], 0
for _ in range(20):
    try:
        pid = os.fork()
    except BlockingIOError:
        refused += 1
        continue
    if pid == 0:
        os.read(0, 1)
        os._exit(0)
    children.append(pid)
print(refused)
"""
SLEEPER = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); input()"
#: A corral that dies without a word: its process goes on in the scope.
DYING_OWNER = f"""
import subprocess, sys
from corral.limits.systemd import ScopeRequest, scope_name, start_scope
sleeper = subprocess.Popen([sys.executable, '-S', '-c', {SLEEPER!r}], stdout=subprocess.DEVNULL)
name = scope_name('orphan')
start_scope(ScopeRequest(name, sleeper.pid, pids=5))
print(name, sleeper.pid)
"""


def _start(script: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-S", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _file(directory: str, name: str) -> str:
    with open(f"{directory}/{name}") as file:
        return file.read().strip()


def _wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def _policy_when_out_of_memory(name: str) -> str:
    """What systemd itself does then; unless told, it ends the whole scope."""
    user = ["--user"] if os.getuid() else []
    command = ["systemctl", *user, "show", "--value", "--property=OOMPolicy", name]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def check_all_three_controllers_are_there() -> None:
    assert systemd.controllers() == {"memory", "cpu", "pids"}, systemd.controllers()
    assert systemd.is_reachable()[0]


def check_the_kernel_has_what_was_asked_for_and_the_scope_ends_by_itself() -> None:
    process = _start("input()")
    name = systemd.scope_name("values")
    directory = systemd.start_scope(ScopeRequest(name, process.pid, 64 * MIB, 0.29, 7))
    files = {
        file: _file(directory, file) for file in ("memory.max", "memory.swap.max", "cpu.max", "pids.max")
    }
    assert files == {
        "memory.max": str(64 * MIB),
        "memory.swap.max": "0",
        "cpu.max": "29000 100000",
        "pids.max": "7",
    }, files
    assert _file(f"/proc/{process.pid}", "cgroup") == "0::" + directory.removeprefix("/sys/fs/cgroup")
    assert _policy_when_out_of_memory(name) == "continue"
    process.communicate("\n")
    _wait_until(lambda: not os.path.exists(directory), "the scope is still there")


def check_small_and_large_numbers() -> None:
    for cpus, quota in ((0.001, "1000 1000000"), (0.0001, "1000 1000000"), (64.0, "6400000 100000")):
        process = subprocess.Popen(["sleep", "infinity"])
        request = ScopeRequest(systemd.scope_name(f"cpus-{cpus}"), process.pid, 1 << 70, cpus, 1 << 40)
        directory = systemd.start_scope(request)
        assert _file(directory, "cpu.max") == quota, _file(directory, "cpu.max")
        with open(f"{directory}/cpu.max", "w") as file:
            file.write("max")  # or it would take a minute to die
        process.kill()
        process.wait()


def check_memory_is_held() -> None:
    control = _start(EATER)
    assert control.communicate("\n")[0] == "ate\n"

    process = _start(EATER)
    directory = systemd.start_scope(
        ScopeRequest(systemd.scope_name("memory"), process.pid, memory_bytes=64 * MIB)
    )
    output, _ = process.communicate("\n")
    assert (process.returncode, output) == (-signal.SIGKILL, ""), (process.returncode, output)
    _wait_until(lambda: not os.path.exists(directory), "the scope is still there")


def check_processes_are_held() -> None:
    control = _start(FORKER)
    assert control.communicate("\n")[0] == "0\n"

    process = _start(FORKER)
    systemd.start_scope(ScopeRequest(systemd.scope_name("pids"), process.pid, pids=5))
    assert process.communicate("\n")[0] == "16\n"


def check_a_name_is_given_once() -> None:
    process = _start("input()")
    request = ScopeRequest(systemd.scope_name("twice"), process.pid, pids=5)
    systemd.start_scope(request)
    try:
        systemd.start_scope(request)
    except OSError as problem:
        assert request.name in str(problem), problem
    else:
        raise AssertionError("it was started twice")
    process.communicate("\n")


def check_a_process_that_is_gone_is_an_error() -> None:
    process = _start("")
    process.wait()
    try:
        systemd.start_scope(ScopeRequest(systemd.scope_name("gone"), process.pid, pids=5))
    except OSError as problem:
        assert problem.errno != errno.ETIMEDOUT, problem
    else:
        raise AssertionError("it was started without a process")


def check_a_scope_is_stopped_though_its_process_is_deaf() -> None:
    process = _start(SLEEPER)
    assert process.stdout is not None and process.stdout.readline() == "deaf\n"
    name = systemd.scope_name("stop")
    directory = systemd.start_scope(ScopeRequest(name, process.pid, pids=5))
    systemd.stop_scope(name)
    assert process.wait(timeout=20) == -signal.SIGKILL
    _wait_until(lambda: not os.path.exists(directory), "the scope is still there")
    systemd.stop_scope(name)  # once more: there is none


def check_a_manager_in_another_pid_namespace_is_refused() -> None:
    script = "from corral.limits.systemd import is_reachable; print(is_reachable())"
    mapped = [] if os.getuid() == 0 else ["--user", "--map-current-user"]
    done = subprocess.run(
        ["unshare", *mapped, "--pid", "--fork", "--mount-proc", sys.executable, "-S", "-c", script],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("(False, ") and "another PID namespace" in done.stdout, done


def check_leftovers_are_removed_and_nothing_else() -> None:
    process = _start("input()")
    own = systemd.scope_name("own")
    directory = systemd.start_scope(ScopeRequest(own, process.pid, pids=5))
    owner = subprocess.Popen(
        [sys.executable, "-c", DYING_OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert owner.stdout is not None
    name, sleeper = owner.stdout.read().decode().split()
    owner.wait()
    assert systemd.leftovers() == (name,), systemd.leftovers()
    assert systemd.remove_leftovers() == (name,)
    _wait_until(lambda: not os.path.exists(f"/proc/{sleeper}"), "the leftover process is still there")
    assert systemd.leftovers() == ()
    assert os.path.exists(directory) and process.poll() is None
    process.communicate("\n")


class SystemdHost(RealHost):
    """This host, as if nobody could make a control group but systemd."""

    def enforcers(self) -> tuple[Enforcer, ...]:
        return (self._systemd(),)

    def limits_key(self) -> str:
        return "systemd alone"


def _workspace() -> str:
    place = f"/tmp/work-{os.getuid()}"
    os.makedirs(place, exist_ok=True)
    return place


def _run(script: str, **limits: float) -> Result:
    policy = load_preset("moderate").replace(limits=Limits(**limits))
    sandbox = Sandbox(policy, backend="native", workspace=_workspace(), host=SystemdHost())
    return sandbox.run([sys.executable, "-S", "-c", script])


def check_a_run_has_its_limits_from_systemd() -> None:
    assert SystemdHost().enforcers()[0].holds == {
        *(Feature.LIMIT_MEMORY, Feature.LIMIT_CPU, Feature.LIMIT_CPU_TIME, Feature.LIMIT_PIDS)
    }, SystemdHost().enforcers()
    fine = _run("print(open('/proc/self/cgroup').read())", memory_bytes=64 * MIB, pids=5, cpus=0.5)
    assert (fine.outcome, fine.stdout) == (Outcome.EXITED, "0::/\n\n"), fine
    assert fine.enforcement.enforced[Feature.LIMIT_MEMORY] == "systemd scope", fine.enforcement
    assert fine.usage.is_whole_tree and MIB < fine.usage.peak_memory_bytes < 64 * MIB, fine.usage

    assert _run(f"full = b'x' * {200 * MIB}", memory_bytes=64 * MIB).outcome is Outcome.OUT_OF_MEMORY
    forks = "import os, time\nfor _ in range(9):\n    if os.fork() == 0: time.sleep(60)"
    refused = _run(forks, pids=4)
    assert refused.outcome is Outcome.PIDS_LIMIT, refused
    assert _run("while True: pass", cpu_seconds=0.5).outcome is Outcome.CPU_LIMIT
    assert systemd.leftovers() == ()


def _checks() -> Iterator[tuple[str, Callable[[], None]]]:
    for name, value in list(globals().items()):
        if name.startswith("check_"):
            yield name, value


#: What depends on how the manager is reached: both its calls and its signals.
ON_EVERY_DOOR = {
    "check_the_kernel_has_what_was_asked_for_and_the_scope_ends_by_itself",
    "check_a_scope_is_stopped_though_its_process_is_deaf",
    "check_a_manager_in_another_pid_namespace_is_refused",
}


def main() -> int:
    user = pwd.getpwuid(os.getuid()).pw_name
    doors = {door.has_daemon: door for door in _doors._doors()}
    failed = 0
    print(f"\n{user}: {systemd.is_reachable()[1]}, from {_file('/proc/self', 'cgroup')}")
    for has_daemon in (False, True):
        door = doors[has_daemon]
        _doors._doors = lambda door=door: iter([door])
        for name, check in _checks():
            if has_daemon and name not in ON_EVERY_DOOR:
                continue
            words = f"{user}, {door.name}: {name.removeprefix('check_').replace('_', ' ')}"
            try:
                check()
            except Exception:
                failed += 1
                print(f"not ok {words}\n{traceback.format_exc()}", flush=True)
            else:
                print(f"ok {words}", flush=True)
    print(f"verdict {user}: {'failed' if failed else 'ok'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
