"""identity: ids of the host that are nobody's, and mounts with these mapped. As root alone."""

from __future__ import annotations

import errno
import os
import select
import signal

import pytest
from launching import PATIENCE_SECONDS, bind, confined, launch, shell, start

from corral.linux.spec import MountFlag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from corral.linux.spec import Mount, Spec

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="nobody else's command is root")

FIRST = 1879048192
WRITABLE = MountFlag(0)


def identified(script: str, *mounts: Mount) -> Spec:
    everyone = "0 0 4294967295\n"
    return confined(
        *shell(script),
        user=0,
        mounts=mounts,
        uid_map=everyone,
        gid_map=everyone,
        identity=(FIRST, 65536),
    )


def test_ids_are_mapped_and_what_is_made_is_the_commands(plain: Path, tmp_path: Path) -> None:
    """In the sandbox's own file systems too, and pipes that are opened anew; on disk it is root's."""
    script = "id -u; id -g; id -G; cat /proc/self/uid_map; stat -c %u / /tmp /mnt; : > /tmp/a; : > /mnt/a"
    script += "; echo anew > /proc/self/fd/1"

    groups = os.getgroups()
    os.setgroups([*groups, 4242])  # of the caller's, besides his own
    try:
        done = launch(plain, identified(script, bind(str(tmp_path), WRITABLE, "/mnt")))
    finally:
        os.setgroups(groups)

    assert done.lines == ["started", "exited 0"], done.output
    assert done.output.split() == [*b"0 0 0 0".split(), str(FIRST).encode(), *b"65536 0 0 0 anew".split()]
    assert (tmp_path / "a").stat().st_uid == 0


def test_what_cannot_be_mapped_is_read_but_not_written(plain: Path) -> None:
    done = launch(plain, identified("cat /mnt/kernel/ostype", bind("/proc/sys", target="/mnt")))
    assert done.output == b"Linux\n"

    done = launch(plain, identified("echo ran", bind("/proc/sys", WRITABLE, "/mnt")))

    why = "/proc/sys: ids of this file system, or of one that is mounted in it, cannot be mapped"
    assert done.lines == [f"failed identity {errno.EINVAL} {why}"]
    assert done.output == b""


def test_everything_ends_with_the_supervisor(plain: Path) -> None:
    """A change of ids takes the death signal away that was there before."""
    running = start(plain, identified("echo up; exec sleep 60"))
    running.wait_for_output(b"up")

    running.kill(signal.SIGKILL)
    os.waitpid(running.pid, 0)

    # Whoever lives holds the other end.
    assert select.select([running.output_fd], [], [], PATIENCE_SECONDS)[0]
    assert os.read(running.output_fd, 1) == b""
    for fd in (running.status_fd, running.output_fd, running.lifeline_fd):
        os.close(fd)
