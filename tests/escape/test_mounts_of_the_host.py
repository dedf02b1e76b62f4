"""What the host mounts while a command runs does not appear inside, where nobody has looked at it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
mkdir -p "$1/ws" "$1/read/mnt"; cd "$1/ws"; mkfifo mounted
"$2" -m corral run --backend "$3" --read "$1/read" -c "
    touch going; cat mounted > /dev/null
    ls -a $1/read/mnt > seen; echo evil > $1/read/mnt/file; echo alive" &
while [ ! -e going ]; do sleep 0.05; kill -0 $! || exit 1; done
mount -t tmpfs tmpfs "$1/read/mnt"; echo host > "$1/read/mnt/file"
echo > mounted
wait
cp "$1/read/mnt/file" "$1/after"
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount for everyone")
@pytest.mark.parametrize("backend", ["native", "bubblewrap"])
def test_a_file_system_that_comes_later_is_not_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    """In a mount namespace of the test's own, whose mounts are shared as on a host that systemd runs."""
    if backend == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("bwrap is not installed")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    line = ["unshare", "--mount", "--propagation", "shared", "sh", "-ec", SCRIPT, "sh"]

    done = subprocess.run(
        [*line, str(tmp_path), sys.executable, backend],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.stdout == "alive\n", done.stderr
    assert "file" not in (tmp_path / "ws/seen").read_text().split()
    assert (tmp_path / "after").read_text() == "host\n"
