"""The real thing: Debian's packages, mmdebstrap, and private engines that run the image as corral would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from corral.images.archive import read_archive
from corral.images.recipe import load_recipe
from support.engines import ENGINES, why_unavailable
from support.images import install_engine, why_not_buildable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Workshop
    from support.engines import Engine

#: Packages are fetched, from mirrors that may be slow. `make test` builds one image too, before it begins.
pytestmark = [pytest.mark.timeout(300), pytest.mark.thorough]

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


class Built(NamedTuple):
    """What the command made and said, and what there was of the host before and afterwards."""

    archive: Path
    done: subprocess.CompletedProcess[str]
    hosts: tuple[object, object]
    left: list[str]  # in the directory for temporary files


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """From the mirrors to the archive, by the command that people type, and not one that was kept."""
    if why_not_buildable():
        pytest.skip(why_not_buildable())
    archive = tmp_path_factory.mktemp("built") / "m.tar"
    line = [sys.executable, "-m", "corral", "image", "build", "minimal", "-o", archive, "--json"]
    before, begun = _host(), time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        os.chmod(temporary, 0o711)  # other ids may pass, as mmdebstrap does for an ordinary user
        variables = {**os.environ, "TMPDIR": temporary}
        done = subprocess.run(line, env=variables, capture_output=True, text=True, check=False, timeout=280)
        left = os.listdir(temporary)
    print(f"built in {time.monotonic() - begun:.0f} s")
    return Built(archive, done, (before, _host()), left)


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


def test_minimal_is_built_from_debians_packages(built: Built) -> None:
    assert built.done.returncode == 0, built.done.stderr
    contents = read_archive(str(built.archive))
    assert contents.faults() == ()
    assert {package.name for package in contents.packages} >= {"bash", *load_recipe("minimal").packages}
    assert contents.recipe == load_recipe("minimal").render()
    assert json.loads(built.done.stdout)["contents"]["size_bytes"] == contents.size_bytes < 80 * 2**20
    assert built.left == []
    assert built.hosts[0] == built.hosts[1]


def test_an_engine_gets_it_and_runs_it(engine: Engine, built: Built, workshop: Workshop) -> None:
    """What mmdebstrap would write again is copied; everything else is real."""
    assert built.done.returncode == 0, built.done.stderr
    workshop.script(
        "mmdebstrap", f'cat >/dev/null; while [ "$1" != -- ]; do shift; done; cat {built.archive} >"$3"'
    )
    install_engine(engine, workshop.programs)

    for _ in range(2):  # the second takes the place of the first
        again = workshop.run("build", "minimal")
        assert again.returncode == 0, again.stderr
    listed = json.loads(workshop.run("list", "--json").stdout)["images"]
    found = json.loads(workshop.run("inspect", "minimal", "--json").stdout)
    limits = engine._run_options(())
    line = ["run", "--rm", *limits, *_CONFINED, "--tmpfs", "/tmp", "corral/sandbox:minimal"]
    ran = engine._call([*line, "sh", "-c", _SCRIPT])

    assert [(image["names"], image["up_to_date"]) for image in listed] == [(["corral/sandbox:minimal"], True)]
    assert listed[0]["size_bytes"] == found["contents"]["size_bytes"]  # and not what the engine counts
    assert found["contents"]["faults"] == []
    assert found["contents"]["recipe"] == load_recipe("minimal").render()
    assert found["image"]["environment"][-1] == "LANG=C.UTF-8"
    assert (ran.returncode, ran.stdout) == (0, _EXPECTED), ran.stderr
    assert workshop.left() == []
