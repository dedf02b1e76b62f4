"""The suite watches itself: a skip can be forbidden, and a test that proves nothing breaks the build."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
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

_UNPROVED = """
import pytest

def test_that_is_skipped(request):
    request.node.user_properties.append(("claim", "native fs.read"))
    pytest.skip("for no reason")

@pytest.mark.parametrize("claim", ["landlock fs.read", "native fs.write"])
def test_that_passes(claim, request):
    request.node.user_properties.append(("claim", claim))
"""
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


def _run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with a temporary directory of its own: in the shared one it would first remove the files
    of earlier runs, which can take minutes."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTEST_XDIST_WORKER"}
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-c", CONFIGURATION),
                *(f"--basetemp={folder}/pytest", *WITHOUT, *arguments),
            ],
            cwd=TESTS,
            env={**inherited, "PYTEST_ADDOPTS": "", **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


def _suite(*arguments: str, **environment: str) -> str:
    return _run(*SOME, *arguments, **environment).stdout


def _counts(report: str) -> list[str]:
    """The last line, without what was not chosen."""
    counted = report.strip().splitlines()[-1].partition(" in ")[0].strip("= ").split(", ")
    return [count for count in counted if "deselected" not in count]


def test_a_backend_that_is_missing_is_skipped_with_the_reason() -> None:
    report = _suite(PROOF, CORRAL_LAUNCHER="/no/launcher")

    assert (
        "native is not available: the launcher was not built: there is no launcher at /no/launcher" in report
    )
    assert _counts(report) == ["5 skipped", "1 xfailed"]  # each once more in a session, one by a stored plan


def test_a_backend_that_is_required_must_not_be_missing() -> None:
    report = _suite(PROOF, "--require", "native", CORRAL_LAUNCHER="/no/launcher")

    assert _counts(report) == ["2 skipped", "1 xfailed", "3 errors"]


def test_the_launcher_can_be_chosen() -> None:
    report = _suite(PROOF, "--launcher", "/no/launcher", "--require", "native,landlock")

    assert _counts(report) == ["1 xfailed", "5 errors"]


def test_a_proof_that_proves_nothing_breaks_the_build(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Only an assertion about the host excuses the leaky backend."""
    path = tmp_path_factory.mktemp("void") / "test_void.py"  # names no backend: -k looks there
    path.write_text(_VOID)
    report = _suite("-p", "conftest", str(path), PYTHONPATH=_PATH)

    assert "FAILED" in report
    assert "::test_that_proves_nothing[leaky] - [XPASS(strict)] it enforces nothing" in report
    assert "::test_that_never_runs[leaky] - RuntimeError" in report.partition("short test summary")[2]


def test_a_claim_that_only_skipped_tests_are_about_breaks_a_whole_run(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    place = tmp_path_factory.mktemp("claims")
    (place / "test_claims.py").write_text(_UNPROVED)

    whole = _run("-p", "conftest", str(place), PYTHONPATH=_PATH)
    narrowed = _run("-p", "conftest", "-k", "skipped", str(place), PYTHONPATH=_PATH)

    assert "claimed, and no test of it passed: native fs.read\n" in whole.stdout
    assert whole.stdout.count("no test of it passed") == 1
    assert (whole.returncode, narrowed.returncode) == (1, 0)


def test_what_make_test_leaves_out_is_counted_and_there_with_all(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    place = tmp_path_factory.mktemp("thorough")
    (place / "test_marked.py").write_text(
        "import pytest\n\n@pytest.mark.thorough\ndef test_long(): pass\n\ndef test_short(): pass\n"
    )

    some = _run("-p", "conftest", str(place), PYTHONPATH=_PATH).stdout
    everything = _run("-p", "conftest", "--all", str(place), PYTHONPATH=_PATH).stdout

    assert "1 tests were left to `make test-all`" in some
    assert _counts(some) == ["1 passed"]
    assert _counts(everything) == ["2 passed"]
