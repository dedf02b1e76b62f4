"""The same isolation by other means: command lines for bubblewrap and firejail."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from corral.linux.decode import decode
from corral.linux.spec import MountFlag, MountKind, Spec
from corral.pipeline.planner import Explanation

_PLAIN = "--unshare-all --die-with-parent --new-session --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp"
PLAIN_LINE = ["bwrap", *_PLAIN.split(), "--", "/bin/true"]
PLAIN_SHOWN = "`bwrap --unshare-all --ro-bind / / ...`"


def bubblewrap(explanation: Explanation) -> Callable[[], object]:
    """Every mount of corral's own launch, the same namespaces and the same system-call filter."""
    spec = spec_of(explanation)
    arguments = bubblewrap_line(spec)

    def run() -> object:
        filter_file = os.memfd_create("filter")
        try:
            os.write(filter_file, spec.seccomp)
            os.lseek(filter_file, 0, os.SEEK_SET)
            line = [*arguments, "--seccomp", str(filter_file), "--", *spec.argv]
            return subprocess.run(line, env={}, pass_fds=[filter_file], capture_output=True, check=True)
        finally:
            os.close(filter_file)

    return run


def plain_bubblewrap() -> Callable[[], object]:
    """As people call it: every namespace, the whole host read-only, and none of corral's rules."""
    return lambda: subprocess.run(PLAIN_LINE, capture_output=True, check=True)


def spec_of(explanation: Explanation) -> Spec:
    """What corral's launcher would be told."""
    assert explanation.launch.spec is not None
    return decode(explanation.launch.spec)


def bubblewrap_line(spec: Spec) -> list[str]:
    """The arguments of bwrap up to the filter and the command."""
    arguments = ["bwrap", "--unshare-all", "--new-session", "--die-with-parent", "--cap-drop", "ALL"]
    arguments += ["--proc", "/proc", "--dev", "/dev", "--hostname", spec.hostname]
    for mount in spec.mounts:
        if mount.target.startswith("/dev") and mount.target != "/dev/shm":
            continue  # --dev makes these
        if mount.kind in {MountKind.BIND, MountKind.COPY}:
            flag = "--ro-bind" if MountFlag.READ_ONLY in mount.flags else "--bind"
            arguments += [flag, mount.source, mount.target]
        elif mount.kind in {MountKind.TMPFS, MountKind.AREA}:
            arguments += ["--tmpfs", mount.target]
        elif mount.kind is MountKind.SYMLINK:
            arguments += ["--symlink", mount.source, mount.target]
    return [*arguments, "--chdir", spec.cwd]


def firejail(project: Path) -> Callable[[], object]:
    """As near as firejail comes: a private home and /dev, no network, its own filter."""
    options = "--quiet --noprofile --private --private-dev --private-tmp --net=none --ipc-namespace"
    confinement = "--caps.drop=all --nonewprivs --seccomp --noroot"
    line = ["firejail", *options.split(), *confinement.split(), "--", "/bin/true"]
    if os.geteuid() == 0:
        line.remove("--noroot")

    def run() -> object:
        return subprocess.run(line, cwd=project, capture_output=True, check=True)

    return run
