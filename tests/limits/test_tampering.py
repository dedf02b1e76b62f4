"""A command does not loosen its own limits: not by its control group, and not by waking who was stopped."""

from __future__ import annotations

import os
import subprocess

import pytest

from corral.limits.hierarchy import find_hierarchy
from corral.limits.limiter import ResourceLimiter
from corral.model.enforcer import SUPERVISOR
from corral.model.feature import Feature
from corral.model.policy import Limits
from corral.model.result import Outcome
from support.arena import python
from support.spinning import MOST_SHARE, SHARE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from support.arena import Arena

_LIMIT = 16

# Lifts the limits of its own group, leaves it for the one above, and then starts more than it may have.
# Inside it also looks for groups by name, and tries to mount them.
_LOOSEN = """
import ctypes, glob, os, sys
sys.stdin.read()
def put(path, text):
    try:
        with open(path, 'w') as file: file.write(text)
    except OSError: pass
roots, groups = ['/sys/fs/cgroup'], []
if sys.argv[1] == 'inside':
    for kind, options in ((b'cgroup2', b''), (b'cgroup', b'pids'), (b'cgroup', b'memory')):
        place = os.path.join(os.environ['TMPDIR'], os.urandom(4).hex())
        os.mkdir(place)
        ctypes.CDLL(None).mount(b'none', place.encode(), kind, 0, options)
        roots.append(place)
try: lines = open('/proc/self/cgroup').readlines()
except PermissionError: lines = []
for line in lines:
    _, controllers, path = line.strip().split(':', 2)
    groups += [f'{root}{part}{path}' for root in roots for part in ('', '/unified', f'/{controllers}')]
if sys.argv[1] == 'inside':
    groups += [found for root in roots for found in glob.glob(f'{root}/**/corral-*', recursive=True)]
for group in groups:
    for name in ('pids.max', 'memory.max', 'memory.swap.max'): put(f'{group}/{name}', 'max')
    for name in ('memory.memsw.limit_in_bytes', 'memory.limit_in_bytes'): put(f'{group}/{name}', '-1')
    for name in ('tasks', 'cgroup.procs'): put(f'{os.path.dirname(group)}/{name}', '0')
gate, release = os.pipe()
for _ in range(40):
    try:
        if os.fork() == 0:
            os.close(release); os.read(gate, 1); os._exit(0)
    except OSError:
        sys.exit(1)
open('mark', 'w').close()
"""


def test_no_command_writes_to_its_control_group(arena: Arena, work: Path) -> None:
    if not arena.is_grouped:
        pytest.skip("there is no control group to write to")
    result = arena.run(python(_LOOSEN, "inside"), f"pids:limit:{_LIMIT}", "memory:limit:512MiB")

    assert result.outcome is Outcome.PIDS_LIMIT, (result, result.stderr)
    assert not (work / "mark").exists()


def test_who_may_write_to_it_is_not_held(work: Path) -> None:
    if find_hierarchy() is None or os.geteuid() != 0:
        pytest.skip("this user can make no group that he may write to")
    with ResourceLimiter(Limits(pids=_LIMIT)) as limiter:
        process = subprocess.Popen(python(_LOOSEN, "outside"), cwd=work, stdin=subprocess.PIPE)
        limiter.apply(process.pid)
        process.communicate()

    assert process.returncode == 0
    assert (work / "mark").exists()


# Each `arm` sees to it that somebody wakes the caller whenever he is stopped; it says whom to end afterwards.
_ANOTHER = """
def arm():
    first = os.getpid()
    child = os.fork()
    while child == 0:
        try: os.kill(first, signal.SIGCONT)
        except OSError: pass
        time.sleep(0.0005)
    return [child]
"""
_TIMER = """
def arm():
    libc = ctypes.CDLL(None, use_errno=True)
    event = (ctypes.c_int * 16)(0, 0, signal.SIGCONT, 0)
    timer, every = ctypes.c_void_p(), (ctypes.c_long * 4)(0, 500_000, 0, 500_000)
    if libc.timer_create(1, event, ctypes.byref(timer)) < 0: raise OSError(ctypes.get_errno(), 'timer')
    libc.timer_settime(timer, 0, every, None)
    return []
"""
_CHILDS_END = """
def arm():
    first, number = os.getpid(), {'x86_64': 56, 'aarch64': 220, 'riscv64': 220}[os.uname().machine]
    children = []
    for _ in range(20):
        child = ctypes.CDLL(None, use_errno=True).syscall(number, signal.SIGCONT, 0, 0, 0, 0)
        if child < 0: raise OSError(ctypes.get_errno(), 'clone')
        while child == 0:
            if open(f'/proc/{first}/stat').read().rpartition(')')[2].split()[0] == 'T': os._exit(0)
            time.sleep(0.0005)
        children.append(child)
    return children
"""
_INPUT = """
def arm():
    told, tell = os.pipe()
    fcntl.fcntl(told, fcntl.F_SETSIG, signal.SIGCONT)
    fcntl.fcntl(told, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(told, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    child = os.fork()
    while child == 0:
        os.write(tell, b'.')
        time.sleep(0.0005)
    return [child]
"""
_IMPORTS = "import ctypes, fcntl, os, signal, time\n"
_TRICKS = pytest.mark.parametrize(
    "trick", [_ANOTHER, _TIMER, _CHILDS_END, _INPUT], ids=["another process", "timer", "child's end", "input"]
)
_WAKE = """
children = arm()
os.kill(os.getpid(), signal.SIGSTOP)
open('mark', 'w').close()
for child in children: os.kill(child, signal.SIGKILL)
"""
# Its end is when it was kept from running and may run again: the launcher may come late to stop it, and then
# lets it wait for longer.
_SPIN = """
def spent():
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
try: children = arm()
except OSError: children = []
began = last = time.monotonic()
before, waited = spent(), False
while last - began < 1.2 or (waited and last - since < 0.01):
    since, last = last, time.monotonic()
    waited = waited or last - since >= 0.01
for child in children: os.kill(child, signal.SIGKILL)
for child in children: os.waitpid(child, 0x40000000)
print((spent() - before) / (last - began))
"""


@_TRICKS
def test_nobody_wakes_whom_the_launcher_stopped(arena: Arena, trick: str) -> None:
    if arena.holder(Feature.LIMIT_CPU) != SUPERVISOR:
        pytest.skip("nobody is stopped here")
    result = arena.run(python(_IMPORTS + trick + _SPIN), SHARE)

    assert result.ok, (result, result.stderr)
    assert float(result.stdout) < MOST_SHARE


@_TRICKS
def test_the_trick_wakes_who_stopped_himself(work: Path, trick: str) -> None:
    subprocess.run(python(_IMPORTS + trick + _WAKE), cwd=work, check=True, timeout=60)

    assert (work / "mark").exists()
