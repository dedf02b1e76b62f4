"""What `make bench` measures can be measured: every piece runs, in two rounds. No number is judged here."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.user_engines import why_not

BENCH = Path(__file__).resolve().parents[2] / "bench" / "performance.py"
#: Rows that need nothing but corral, and so are there wherever the tests run.
CORE = (
    "bare process",
    "session, native",
    "session, landlock",
    "cold, native",
    "cold, landlock",
    "corral run -- true",
)
_SECONDS = 110
pytestmark = pytest.mark.thorough


def _measure(parts: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, str(BENCH), "--quick", "--parts", parts]
    return subprocess.run(line, capture_output=True, text=True, timeout=_SECONDS, check=False)


def _samples(report: str) -> dict[str, int]:
    """How often each row of the large table was measured."""
    found = re.findall(r"^\| ([^|]+?) +\| [^|]+ \|.*\| +(\d+) \|$", report, re.MULTILINE)
    return {name: int(count) for name, count in found}


def _unmeasured(report: str) -> str:
    return report.partition("\nNot measured:\n")[2]


def _missing_modules() -> list[str]:
    """Parts of corral that are not there; the table says so, and goes on."""
    import corral.sessions.session

    names = ("sessions.pool", "parallel.executor")
    package = Path(corral.__file__).parent
    missing = [f"corral.{name}" for name in names if not (package / f"{name.replace('.', '/')}.py").exists()]
    return missing + ([] if hasattr(corral.sessions.session.Session, "read_file") else ["read_file"])


@pytest.fixture(scope="module")
def measured() -> subprocess.CompletedProcess[str]:
    """All that needs no engine, measured once."""
    return _measure("processes,crowd")


def test_commands_and_many_sandboxes_are_measured(measured: subprocess.CompletedProcess[str]) -> None:
    samples = _samples(measured.stdout)

    assert measured.stderr == ""
    assert measured.returncode in {0, 1, 2}
    assert [name for name in CORE if samples.get(name, 0) == 0] == []
    assert "3 of 3 sessions were made" in measured.stdout
    assert "3 still answer at the end." in measured.stdout


def test_what_is_not_measured_has_its_reason(measured: subprocess.CompletedProcess[str]) -> None:
    reasons = [line for line in _unmeasured(measured.stdout).splitlines() if line.startswith("- ")]

    assert [name for name in _missing_modules() if not any(name in reason for reason in reasons)] == []
    assert [reason for reason in reasons if not reason.partition(": ")[2]] == []


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_kept_containers_are_measured(engine: str) -> None:
    reason = why_not(engine)
    if reason:
        pytest.skip(reason)

    done = _measure(engine)

    assert done.returncode in {0, 1, 2}, done.stderr
    assert {f"session, {engine}", f"{engine} exec", f"{engine} run"} <= set(_samples(done.stdout)), (
        done.stdout
    )


def test_as_few_rounds_are_not_recorded() -> None:
    document = BENCH.parents[1] / "docs" / "performance.md"
    before = document.read_bytes()
    line = [sys.executable, str(BENCH), "--quick", "--record"]

    done = subprocess.run(line, capture_output=True, text=True, check=False)

    assert "only a whole run is recorded" in done.stderr
    assert document.read_bytes() == before
