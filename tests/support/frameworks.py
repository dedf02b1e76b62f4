"""Frameworks with corral's adapters, each in an environment of its own: their versions do not agree.

    PYTHONPATH=tests python -m support.frameworks [NAME...]      # or: make frameworks

An environment is in `.frameworks` and is kept. It has what `pip install 'corral[EXTRA]'` gives, and pytest.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / ".frameworks"
INSIDE = ROOT / "tests/frameworks/inside"
_TOOLS = ("pytest>=8", "pytest-asyncio>=0.24", "pytest-timeout>=2.3")
_SOURCES = ("src", "launcher", "entry", "scripts", "pyproject.toml", "hatch_build.py")


class Framework(NamedTuple):
    """One extra of corral."""

    extra: str
    beside: tuple[str, ...] = ()  # what its tests need and the extra does not have
    python: tuple[int, int] = (3, 11)

    @property
    def module(self) -> str:
        """Of the adapter, and what the names of its tests begin with."""
        return {"inspect": "inspect_ai"}.get(self.extra, self.extra.replace("-", "_"))


FRAMEWORKS = {
    framework.extra: framework
    for framework in (
        Framework("pydantic-ai"),
        Framework("deepagents", ("langchain-tests>=1.1.9",)),
        Framework("inspect"),
        Framework("openai-agents"),
        Framework("mini-swe-agent"),
        Framework("smolagents"),
        Framework("autogen"),
        Framework("google-adk"),
        Framework("harbor", python=(3, 12)),
    )
}


class Outcome(NamedTuple):
    """Of one test that ran inside: passed, failed or skipped, and why."""

    result: str
    why: str


def find_python(name: str) -> Path | None:
    """The interpreter of an environment that has the corral of these sources; None: `make frameworks`."""
    python = PLACE / name / "bin/python"
    stamp = PLACE / name / "stamp"
    is_current = stamp.exists() and stamp.read_text() == _digest()
    return python if is_current and python.exists() else None


def why_not(name: str) -> str:
    """Why there cannot be an environment for a framework here; empty if there can."""
    needed = FRAMEWORKS[name].python
    if _interpreter(needed) is None:
        return f"{name} needs Python {needed[0]}.{needed[1]}, and there is none"
    return ""


def run_inside(name: str, file: str, report: Path, *, as_user: int | None = None) -> dict[str, Outcome]:
    """Run tests in the environment of a framework; returns what became of each, by `class::name[case]`."""
    python = find_python(name)
    assert python is not None, f"{name}: run `make frameworks`"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'tests'}:{INSIDE}", "CORRAL_CONFIG": ""}
    environment.pop("CORRAL_LAUNCHER", None)
    command = [str(python)]
    if as_user is not None:
        packages = next(python.parents[1].glob("lib/python3*/site-packages"))
        environment["PYTHONPATH"] = f"{packages}:{environment['PYTHONPATH']}"
        interpreter = reachable_python(python)
        assert interpreter is not None
        programs = report.parent / "programs"
        programs.mkdir()
        (programs / "python").symlink_to(interpreter)  # what suites call it; a system may have none
        environment |= {"HOME": str(report.parent), "TMPDIR": str(report.parent)}
        environment["PATH"] = f"{programs}:{os.defpath}"
        command = ["setpriv", f"--reuid={as_user}", f"--regid={as_user}", "--clear-groups", str(interpreter)]
    pytest = ["-m", "pytest", "-c", str(INSIDE / "pytest.ini"), f"--rootdir={INSIDE}"]
    files = [f"--junitxml={report}", f"--basetemp={report.parent / 'base'}", str(INSIDE / file)]
    done = subprocess.run(
        [*command, *pytest, *files],
        cwd=report.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.exists(), done.stdout[-4000:] + done.stderr[-4000:]
    print(done.stdout[-8000:])
    return dict(_outcomes(report))


def _outcomes(report: Path) -> Iterator[tuple[str, Outcome]]:
    for case in ElementTree.parse(report).iter("testcase"):
        group = case.get("classname", "").rpartition(".")[2]
        found = next((child for child in case if child.tag in {"failure", "error", "skipped"}), None)
        result = "passed" if found is None else "skipped" if found.tag == "skipped" else "failed"
        yield (
            f"{group}::{case.get('name')}",
            Outcome(result, "" if found is None else found.get("message", "")),
        )


def reachable_python(python: Path) -> Path | None:
    """An interpreter of the same version that every user may run; None: there is none."""
    real = python.resolve()
    version = subprocess.run(
        [str(python), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    for candidate in (real, Path(f"/usr/bin/python{version}")):
        if candidate.exists() and is_reachable(candidate):
            return candidate
    return None


def is_reachable(path: Path) -> bool:
    """Whether every user can get at a path."""
    return all(each.stat().st_mode & stat.S_IXOTH for each in path.parents)


def _digest() -> str:
    """Of all that corral is made of."""
    found = hashlib.sha256()
    for name in _SOURCES:
        top = ROOT / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and "__pycache__" not in path.parts and path.parent.name != "bin":
                found.update(f"{path.relative_to(ROOT)}\0".encode())
                found.update(path.read_bytes())
    return found.hexdigest()


def _interpreter(needed: tuple[int, int]) -> str | None:
    names = [sys.executable, *(f"python3.{minor}" for minor in range(needed[1], needed[1] + 4))]
    homes = sorted(Path(os.path.expanduser("~/.pyenv/versions")).glob("*/bin/python3"))
    for name in [*names, *map(str, homes)]:
        program = shutil.which(name)
        check = f"import sys; sys.exit(sys.version_info[:2] < {needed})"
        if (
            program
            and subprocess.run([program, "-c", check], capture_output=True, check=False).returncode == 0
        ):
            return program
    return None


def prepare(names: list[str]) -> None:
    """Make or renew environments. Raises CalledProcessError."""
    digest = _digest()
    wheel = PLACE / "wheel"
    for name in names:
        place, framework = PLACE / name, FRAMEWORKS[name]
        if find_python(name) is not None or why_not(name):
            print(f"{name}: {why_not(name) or 'is there'}")
            continue
        if not (wheel / digest).exists():
            shutil.rmtree(wheel, ignore_errors=True)
            _pip(Path(sys.executable), "wheel", "--no-deps", "--wheel-dir", str(wheel / digest), str(ROOT))
        (built,) = (wheel / digest).glob("*.whl")
        python = place / "bin/python"
        if not python.exists():
            subprocess.run([str(_interpreter(framework.python)), "-m", "venv", str(place)], check=True)
        _pip(python, "install", *_TOOLS, *framework.beside, f"{built}[{framework.extra}]")
        _pip(python, "install", "--no-deps", "--force-reinstall", str(built))
        (place / "stamp").write_text(digest)
        print(f"{name}: made")


def _pip(python: Path, *arguments: str) -> None:
    quiet = ("--quiet", "--quiet", "--disable-pip-version-check")
    subprocess.run([str(python), "-m", "pip", arguments[0], *quiet, *arguments[1:]], check=True)


if __name__ == "__main__":
    prepare(sys.argv[1:] or list(FRAMEWORKS))
