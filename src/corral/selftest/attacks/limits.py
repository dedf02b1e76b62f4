"""Attacks on the host's resources, all of them bounded: they stop by themselves where nothing stops them."""

from __future__ import annotations

import os

from corral.model.feature import Feature
from corral.selftest.judge import written
from corral.selftest.probe import EscapeProbe, Language

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.selftest.stage import Stage

PIDS, STORM = 16, 48
_MEMORY_MB, _CHILDREN, _EACH_MB = 64, 6, 24
_FILE_MB = 4


def _more_processes(stage: Stage, _output: str) -> str:
    count = sum(name.startswith("child-") for name in os.listdir(stage.at("ws")))
    return f"{count} processes at once, where {PIDS} are permitted" if count > PIDS else ""


def _more_memory(stage: Stage, _output: str) -> str:
    count = sum(name.startswith("full-") for name in os.listdir(stage.at("ws")))
    used = count * _EACH_MB
    return f"{used} MB at once, where {_MEMORY_MB} are permitted" if used > _MEMORY_MB else ""


def _larger_file(stage: Stage, _output: str) -> str:
    try:
        size = os.lstat(stage.at("ws/big")).st_blocks * 512
    except OSError:
        return ""
    return f"a file of {size} bytes" if size > _FILE_MB * 2**20 else ""


#: All children wait for the same moment, and those that are still alive then leave a mark.
_AT_ONCE = """
moment, held = time.monotonic() + 0.8, []
for i in range({count}):
    try: pid = os.fork()
    except OSError: break
    if pid == 0:
        try:
            {work}
            time.sleep(max(0, moment - time.monotonic()))
            open(f'{mark}{{i}}', 'w').close()
            time.sleep(1)
        finally: os._exit(0)
    held.append(pid)
time.sleep(max(0, moment - time.monotonic()) + 0.4)
for pid in held: os.kill(pid, 9)
"""

PROBES = (
    EscapeProbe(
        "process-storm",
        f"Start {STORM} processes at once, where {PIDS} are permitted.",
        Feature.LIMIT_PIDS,
        "F68",
        _AT_ONCE.format(count=STORM, work="pass", mark="child-"),
        _more_processes,
        language=Language.PYTHON,
        capabilities=(f"pids:limit:{PIDS}",),
    ),
    EscapeProbe(
        "memory-of-many",
        "Take more memory than permitted, spread over children that are each below the limit.",
        Feature.LIMIT_MEMORY,
        "F69, archestra #6862",
        _AT_ONCE.format(
            count=_CHILDREN,
            work=f"block = bytearray(os.urandom(4096)) * ({_EACH_MB} * 256)",
            mark="full-",
        ),
        _more_memory,
        language=Language.PYTHON,
        capabilities=(f"memory:limit:{_MEMORY_MB}MB",),
    ),
    EscapeProbe(
        "large-file",
        "Write a file that is larger than permitted.",
        Feature.LIMIT_FILE_SIZE,
        "F72",
        f"head -c {_FILE_MB * 4}M /dev/zero > big",
        _larger_file,
        capabilities=(f"file:limit:{_FILE_MB}MB",),
        runner_holds="a command without a sandbox has this limit as well",
    ),
    EscapeProbe(
        "endless-sleep",
        "Ignore the time limit and every polite signal.",
        Feature.LIMIT_WALL,
        "F72",
        # Who is ended after three seconds never gets to write, however slow the host is.
        "import signal\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n"
        "time.sleep(12)\nopen('evidence', 'w').write(TOKEN)\n",
        written("ws/evidence"),
        language=Language.PYTHON,
        capabilities=("time:limit:3s",),
        runner_holds="the runner keeps the time itself",
    ),
    EscapeProbe(
        "write-own-limits",
        "Raise one's own limits by writing to the control groups of the host.",
        Feature.FS_WRITE,
        "F70, nono",
        """
found = [d for d, _, files in os.walk('/sys/fs/cgroup') if 'cgroup.procs' in files][:200]
for directory in found:
    if os.access(directory + '/cgroup.procs', os.W_OK):
        open('evidence', 'w').write(TOKEN); break
""",
        written("ws/evidence"),
        language=Language.PYTHON,
    ),
)
