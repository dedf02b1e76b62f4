"""The gateway and the guard with kqueue: their own tests once more, in a Python without epoll and inotify."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.mac_stage import TESTS

#: Their servers, clients and counts of descriptors are the tests' own, so /proc/self/fd is left to them.
_RUN = """
import asyncio, sys, sysconfig
import pytest
from support.mac_python import become_mac

sysconfig.get_config_vars()
become_mac("/proc/self/fd")
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-sandbox", *sys.argv[1:]]))
"""
_NOT_LOOKED_BY_INOTIFY = "not nobody_can_tell and not kernel_could_not_tell"


@pytest.mark.skipif(sys.platform != "linux", reason="a Mac has the real kqueue, and runs these tests itself")
@pytest.mark.parametrize(
    "files",
    [
        ("network/test_gateway_relay.py", "network/test_gateway_proxied.py", "network/test_proxy_front.py"),
        ("unit/protected_names/test_guard_over_names.py", "unit/protected_names/test_guard_that_looks.py"),
    ],
    ids=["gateway", "guard"],
)
def test_what_holds_with_epoll_and_inotify_holds_with_kqueue(files: tuple[str, ...], tmp_path: Path) -> None:
    # A place of its own: where all have theirs, pytest also removes what others have left.
    options = ("--basetemp", str(tmp_path / "own"), "-k", _NOT_LOOKED_BY_INOTIFY)
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *options, *(str(TESTS / file) for file in files)],
        cwd=TESTS.parent,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(TESTS), "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-3000:]
    assert "passed" in done.stdout
