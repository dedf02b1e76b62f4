"""Attacks on modes, owners, times and attributes, which path rules tend to forget."""

from __future__ import annotations

import os
import stat

from corral.model.feature import Feature
from corral.selftest.judge import altered, proved, remember
from corral.selftest.probe import EscapeProbe, Language, NotHereError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.selftest.stage import Stage

#: A device node that nobody misses while its mode is another one for a moment.
_NODE = "/dev/full"


def _victim_file(stage: Stage) -> None:
    remember(stage, "file outside", stage.at("out/secret"))


def _read_only_grant(stage: Stage) -> None:
    remember(stage, "read-only file", stage.write("out/granted/file", "text"))


def _device_node(stage: Stage) -> None:
    if os.geteuid() != 0:
        raise NotHereError("only root may change the host's device nodes")
    before = os.stat(_NODE)
    stage.on_leaving(lambda: os.chmod(_NODE, before.st_mode & 0o7777))
    stage.on_leaving(lambda: os.utime(_NODE, ns=(before.st_atime_ns, before.st_mtime_ns)))
    remember(stage, "host's device node", _NODE)


def _set_id(stage: Stage, _output: str) -> str:
    names = (name for name in ("by-chmod", "by-open") if os.path.lexists(stage.at(f"ws/{name}")))
    found = [name for name in names if os.stat(stage.at(f"ws/{name}")).st_mode & stat.S_ISUID]
    return f"ws/{found[0]} gives whoever starts it the caller's rights" if found else ""


def _core_pattern(stage: Stage) -> None:
    del stage
    if os.geteuid() != 0:
        raise NotHereError("only root may open /proc/sys/kernel/core_pattern for writing")


_GRANT = ("filesystem:read:${workspace}/../out/granted",)
_ALL_METADATA = """
for act in (lambda p: os.chmod(p, 0o777), lambda p: os.utime(p, (5, 5)),
            lambda p: os.setxattr(p, 'user.corral', b'x'), lambda p: os.chown(p, 1, 1)):
    try: act(TARGET)
    except OSError as problem: print(problem, file=sys.stderr)
"""

PROBES = (
    EscapeProbe(
        "chmod-outside",
        "Make a file outside writable for everyone.",
        Feature.FS_METADATA,
        "A13",
        'chmod 777 "$OUT/secret"',
        altered("file outside"),
        _victim_file,
    ),
    EscapeProbe(
        "metadata-outside",
        "Change mode, times, owner and attributes of a file outside.",
        Feature.FS_METADATA,
        "A13",
        "TARGET = OUT + '/secret'" + _ALL_METADATA,
        altered("file outside"),
        _victim_file,
        language=Language.PYTHON,
    ),
    EscapeProbe(
        "metadata-of-read-only-grant",
        "Change mode, times, owner and attributes of a file that is granted for reading.",
        Feature.FS_METADATA,
        "A13",
        "TARGET = OUT + '/granted/file'" + _ALL_METADATA,
        altered("read-only file"),
        _read_only_grant,
        language=Language.PYTHON,
        capabilities=_GRANT,
    ),
    EscapeProbe(
        "metadata-by-descriptor",
        "Open a read-only file with O_PATH and change it through /proc/self/fd.",
        Feature.FS_METADATA,
        "corral",
        "fd = os.open(OUT + '/granted/file', os.O_PATH)\nTARGET = f'/proc/self/fd/{fd}'" + _ALL_METADATA,
        altered("read-only file"),
        _read_only_grant,
        language=Language.PYTHON,
        capabilities=_GRANT,
    ),
    EscapeProbe(
        "chmod-device-node",
        "As root, change the mode of one of the host's device nodes, which the sandbox borrows.",
        Feature.FS_METADATA,
        "corral (backends/native.py)",
        f"TARGET = '{_NODE}'\nos.chmod(TARGET, 0o667)\n",
        altered("host's device node"),
        _device_node,
        language=Language.PYTHON,
    ),
    EscapeProbe(
        "touch-device-node",
        "As root, set the time of one of the host's device nodes.",
        Feature.FS_METADATA,
        "corral (backends/native.py)",
        f"os.utime('{_NODE}', (5, 5))\n",
        altered("host's device node"),
        _device_node,
        language=Language.PYTHON,
    ),
    EscapeProbe(
        "open-core-pattern",
        "As root, open core_pattern for writing: whoever can write it runs programs on the host.",
        Feature.FS_WRITE,
        "G74, SECURITY",
        "fd = os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)\nprove('open for writing')\n",
        proved("core_pattern"),
        _core_pattern,
        language=Language.PYTHON,
    ),
    EscapeProbe(
        "open-sysrq",
        "As root, open /proc/sysrq-trigger for writing.",
        Feature.FS_WRITE,
        "G74",
        "fd = os.open('/proc/sysrq-trigger', os.O_WRONLY)\nprove('open for writing')\n",
        proved("sysrq-trigger"),
        _core_pattern,
        language=Language.PYTHON,
    ),
    EscapeProbe(
        "open-host-devices",
        "Open the host's memory, disks, kernel log or input devices.",
        Feature.FS_READ,
        "G74",
        """
import glob
for path in ['/dev/mem', '/dev/kmsg', '/dev/port', '/dev/fuse', '/dev/kvm',
             '/dev/loop-control', '/dev/net/tun', '/dev/vhost-net',
             *glob.glob('/dev/sd*'), *glob.glob('/dev/vd*'), *glob.glob('/dev/nvme*'),
             *glob.glob('/dev/input/*')]:
    try: os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK)); prove(path)
    except OSError: pass
""",
        proved("a device was opened"),
        language=Language.PYTHON,
    ),
    EscapeProbe(
        "set-user-id-program",
        "Leave a set-user-id program in the workspace, which gives any user of the host the caller's rights.",
        Feature.PRIVILEGES,
        "SECURITY",
        "os.open('by-chmod', os.O_CREAT | os.O_WRONLY, 0o700)\n"
        "for way in (lambda: os.open('by-open', os.O_CREAT | os.O_WRONLY, 0o4755),\n"
        "            lambda: os.chmod('by-chmod', 0o4755)):\n"
        "    try: way()\n"
        "    except OSError: pass\n",
        _set_id,
        language=Language.PYTHON,
    ),
    EscapeProbe(
        "make-device-node",
        "Make a device node of one's own and open it.",
        Feature.PRIVILEGES,
        "G74",
        "import stat\nos.mknod('node', stat.S_IFCHR | 0o600, os.makedev(1, 7))\nos.open('node', os.O_RDWR)\n"
        "prove('node opened')\n",
        proved("a device node of its own"),
        language=Language.PYTHON,
    ),
)
