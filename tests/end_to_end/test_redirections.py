"""Redirections: files of the caller's as stdin and stdout, where the policy does not grant writing them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import CompletedProcess

LINE = (sys.executable, "-m", "corral", "run")


def run(project: Path, *arguments: str, **streams: object) -> CompletedProcess[bytes]:
    streams.setdefault("stdin", subprocess.DEVNULL)
    streams.setdefault("stdout", subprocess.PIPE)
    streams.setdefault("stderr", subprocess.PIPE)
    # Variables of the tests' own are none that corral knows.
    streams["env"] = {n: v for n, v in os.environ.items() if not n.startswith("CORRAL_TEST_")}
    return subprocess.run((*LINE, *arguments), cwd=project, timeout=60, check=False, **streams)  # type: ignore[call-overload, no-any-return]


def test_a_file_beneath_a_private_area_stays_as_it_is(project: Path) -> None:
    """As by `corral run < cache/file`: the area hides it, though all around it may be written."""
    (project / "cache").mkdir()
    given = project / "cache/file"
    given.write_text("mine")

    with given.open("rb") as stdin:
        private = f"filesystem:private:{project}/cache"
        done = run(project, "--cap", private, "-c", "cat; echo evil > /proc/self/fd/0", stdin=stdin)

    assert done.stdout == b"mine", done.stderr
    assert given.read_text() == "mine"


@pytest.mark.parametrize("option", ["--output-limit=1GB", "-t"])
def test_a_full_disk_is_told(project: Path, option: str) -> None:
    with open("/dev/full", "wb") as full:
        done = run(project, option, "--", "echo", "important", stdout=full)

    assert done.returncode == 125
    assert b"the command ran: what it printed could not be written" in done.stderr
    assert b"No space left on device" in done.stderr
