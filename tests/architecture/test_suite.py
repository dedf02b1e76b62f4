"""The suite watches itself: a skip can be forbidden, and a test that proves nothing breaks the build."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.starts_sandboxes
TESTS = Path(__file__).resolve().parents[1]
CONFIGURATION = str(TESTS.parent / "pyproject.toml")
WITHOUT = ("-p", "no:cacheprovider", "-p", "no:xdist")
#: Whatever else there is: these need nothing that has to be started first.
SOME = ("-k", "native or landlock or leaky")
_PATH = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
PROOF = "conformance/test_fs_read.py::test_a_file_outside_cannot_be_read"

_VOID = """
import pytest
from corral.model.feature import Feature
from support.confinement import Stage, attempt, shell

pytestmark = pytest.mark.proves(Feature.FS_READ)

@pytest.fixture
def stage(tmp_path):
    for name in ("work", "outside", "home", "temporary"):
        (tmp_path / name).mkdir()
    return Stage(*(tmp_path / name for name in ("work", "outside", "home", "temporary", "quarantine")))

def test_that_proves_nothing(backend, stage):
    mark = stage.work / "mark"
    attempt(backend, stage, shell("touch mark"), effect=lambda _: mark.exists(), reset=mark.unlink)

def test_that_never_runs(backend, stage):
    raise RuntimeError("the sandbox never ran the script")
"""


def _suite(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", CONFIGURATION, *WITHOUT, *SOME, *arguments],
        cwd=TESTS,
        env={**os.environ, "PYTEST_ADDOPTS": "", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout


def _counts(report: str) -> list[str]:
    """The last line, without what was not chosen."""
    counted = report.strip().splitlines()[-1].partition(" in ")[0].strip("= ").split(", ")
    return [count for count in counted if "deselected" not in count]


def test_a_backend_that_is_missing_is_skipped_with_the_reason() -> None:
    report = _suite(PROOF, CORRAL_LAUNCHER="/no/launcher")

    assert (
        "native is not available: the launcher was not built: there is no launcher at /no/launcher" in report
    )
    assert _counts(report) == ["4 skipped", "1 xfailed"]  # each once more in a session


def test_a_backend_that_is_required_must_not_be_missing() -> None:
    report = _suite(PROOF, "--require", "native", CORRAL_LAUNCHER="/no/launcher")

    assert _counts(report) == ["2 skipped", "1 xfailed", "2 errors"]


def test_the_launcher_can_be_chosen() -> None:
    report = _suite(PROOF, "--launcher", "/no/launcher", "--require", "native,landlock")

    assert _counts(report) == ["1 xfailed", "4 errors"]


def test_a_proof_that_proves_nothing_breaks_the_build(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Only an assertion about the host excuses the leaky backend."""
    path = tmp_path_factory.mktemp("void") / "test_void.py"  # names no backend: -k looks there
    path.write_text(_VOID)
    report = _suite("-p", "conftest", str(path), PYTHONPATH=_PATH)

    assert "FAILED" in report
    assert "::test_that_proves_nothing[leaky] - [XPASS(strict)] it enforces nothing" in report
    assert "::test_that_never_runs[leaky] - RuntimeError" in report.partition("short test summary")[2]
