"""Mount points that are links: bwrap below 0.12 follows one that a command has planted, out of the sandbox.

An earlier command leaves `link -> /oldroot/OUT` in the workspace. While bwrap sets up a later sandbox, the
host's root is at /oldroot; told to mount something beneath the link, it makes the mount point in OUT, on the
host.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.stories import corral, home, plant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.stories import Run

__all__ = ["corral", "home"]  # fixtures

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not installed")
ROUNDS = 25
#: Swaps a directory and a link to the outside for each other, as fast as it can, until it is told to stop.
FLIP = """
import os
os.makedirs('real/deep', exist_ok=True)
print('planted', flush=True)
while not os.path.exists('stop'):
    os.rename('real', 'sub')
    os.rename('sub', 'real')
    os.symlink('/oldroot{out}', 'sub')
    os.unlink('sub')
"""


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def test_the_trick_works_on_the_bwrap_of_this_host(home: Path, out: Path) -> None:
    """The control. A bwrap that is mended (0.12) refuses, and the rest of this file proves less."""
    version = subprocess.check_output(["bwrap", "--version"], text=True).split()[-1]
    if tuple(map(int, version.split(".")[:2])) >= (0, 12):
        pytest.skip(f"bwrap {version} does not follow such links")
    (home / "ws/link").symlink_to(f"/oldroot{out}")
    view = ["--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"]
    view += ["--symlink", "usr/lib64", "/lib64", "--bind", str(home / "ws"), str(home / "ws")]

    subprocess.run(["bwrap", *view, "--ro-bind", "/etc/hosts", f"{home}/ws/link/planted", "true"], check=True)

    assert (out / "planted").exists()


@pytest.mark.parametrize("option", ["--read", "--write", "--deny"])
@pytest.mark.parametrize("name", ["link", "link/beneath"])
def test_a_rule_beneath_a_planted_link_makes_nothing_outside(
    corral: Run, home: Path, out: Path, option: str, name: str
) -> None:
    plant(corral, f"ln -s /oldroot{out} link; ln -s {out} out")

    corral("run", "--backend", "bubblewrap", option, f"{home}/ws/{name}", "--", "true")
    corral("run", "--backend", "bubblewrap", option, f"{home}/ws/{name.replace('link', 'out')}", "--", "true")

    assert not list(out.iterdir())


@pytest.mark.thorough
def test_a_link_that_comes_and_goes_while_sandboxes_are_made_leads_nowhere(
    corral: Run, home: Path, out: Path
) -> None:
    """Denied and read-only paths lie beneath what another command swaps for a link meanwhile."""
    work = home / "ws"
    flipper = subprocess.Popen(
        [sys.executable, "-m", "corral", "run", "--", "python3", "-c", FLIP.format(out=out)],
        cwd=work,
        stdout=subprocess.PIPE,
    )
    try:
        assert flipper.stdout.readline() == b"planted\n"
        statuses = {
            corral("run", "--backend", "bubblewrap", option, f"{work}/sub/deep", "--", "true").returncode
            for _ in range(ROUNDS)
            for option in ("--read", "--deny")
        }
    finally:
        (work / "stop").touch()
        flipper.communicate(timeout=20)

    assert not list(out.iterdir())
    assert statuses  # whatever they were: a run, or a refusal
