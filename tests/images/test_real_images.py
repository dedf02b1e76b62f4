"""The real thing: Debian's packages, mmdebstrap, and private engines that run the image as corral would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from corral.images.archive import read_archive
from corral.images.recipe import load_recipe
from support.engines import ENGINES, why_unavailable
from support.images import build_once, install_engine, why_not_buildable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Workshop
    from support.engines import Engine

pytestmark = pytest.mark.timeout(300)  # packages are fetched, from mirrors that may be slow

#: As the backends will run it: nothing can be written but /tmp, by a user that nobody has heard of.
_CONFINED = ("--read-only", "--cap-drop", "ALL", "--user", "12345:54321")
_SCRIPT = """
id -u; id -g; pwd; echo "$LANG"
touch /workspace/x /usr/x /etc/x 2>/dev/null || echo read-only
echo hello >/tmp/x && cat /tmp/x
cat /etc/machine-id; curl --version >/dev/null && echo curl
find / -xdev -type f -perm /6000 2>/dev/null; true
"""
_EXPECTED = "12345\n54321\n/workspace\nC.UTF-8\nread-only\nhello\ncurl\n"


@pytest.fixture(scope="module")
def archive() -> Path:
    if why_not_buildable():
        pytest.skip(why_not_buildable())
    return build_once("minimal")


@pytest.fixture(scope="module", params=list(ENGINES))
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    reason = why_unavailable(request.param) or why_not_buildable()
    if reason:
        pytest.skip(reason)
    started = ENGINES[request.param]([])
    yield started
    started.close()


def _host() -> tuple[list[str], list[str]]:
    """What a build must not touch: mounts, and what apt has fetched for the host."""
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if "corral-build" in line]
    lists = sorted(entry.name for entry in os.scandir("/var/lib/apt/lists"))
    return mounts, lists


@pytest.fixture
def temporary() -> Iterator[str]:
    """A directory for temporary files that other ids may pass, as mmdebstrap does for an ordinary user."""
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o711)
        yield path


def test_minimal_is_built_from_debians_packages(tmp_path: Path, temporary: str) -> None:
    """Not the one that is kept: from the mirrors to the archive, by the command that people type."""
    if why_not_buildable():
        pytest.skip(why_not_buildable())
    before, begun = _host(), time.monotonic()
    target = tmp_path / "m.tar"

    done = subprocess.run(
        [sys.executable, "-m", "corral", "image", "build", "minimal", "-o", target, "--json"],
        env={**os.environ, "TMPDIR": temporary},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    print(f"built in {time.monotonic() - begun:.0f} s")

    assert done.returncode == 0, done.stderr
    contents = read_archive(str(target))
    assert contents.faults() == ()
    assert {package.name for package in contents.packages} >= {"bash", *load_recipe("minimal").packages}
    assert contents.recipe == load_recipe("minimal").render()
    assert json.loads(done.stdout)["contents"]["size_bytes"] == contents.size_bytes < 200 * 2**20
    assert os.listdir(temporary) == []
    assert _host() == before


def test_an_engine_gets_it_and_runs_it(engine: Engine, archive: Path, workshop: Workshop) -> None:
    """What mmdebstrap would write again is copied; everything else is real."""
    workshop.script(
        "mmdebstrap", f'cat >/dev/null; while [ "$1" != -- ]; do shift; done; cat {archive} >"$3"'
    )
    install_engine(engine, workshop.programs)

    for _ in range(2):  # the second takes the place of the first
        built = workshop.run("build", "minimal")
        assert built.returncode == 0, built.stderr
    listed = json.loads(workshop.run("list", "--json").stdout)["images"]
    found = json.loads(workshop.run("inspect", "minimal", "--json").stdout)
    limits = engine._run_options(())
    line = ["run", "--rm", *limits, *_CONFINED, "--tmpfs", "/tmp", "corral/sandbox:minimal"]
    ran = engine._call([*line, "sh", "-c", _SCRIPT])

    assert [(image["names"], image["up_to_date"]) for image in listed] == [(["corral/sandbox:minimal"], True)]
    assert found["contents"]["faults"] == []
    assert found["contents"]["recipe"] == load_recipe("minimal").render()
    assert found["image"]["environment"][-1] == "LANG=C.UTF-8"
    assert (ran.returncode, ran.stdout) == (0, _EXPECTED), ran.stderr
    assert workshop.left() == []
