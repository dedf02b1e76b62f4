"""The honest work at the end of the tour: a small project is written, tested and committed inside."""

from __future__ import annotations

import os
import shutil
import subprocess

from corral.backends.registry import UNCONFINED
from corral.model.errors import CorralError
from corral.sandbox import Sandbox
from corral.selftest.stage import IN_PLACE, Stage, StagedHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from corral.model.feature import Feature

_WRITE = """
mkdir -p sums tests
printf 'def add(a, b):\\n    return a + b\\n' > sums/__init__.py
printf 'import unittest\\nfrom sums import add\\n\\n
class AddTest(unittest.TestCase):\\n    def test_add(self):\\n
        self.assertEqual(add(2, 3), 5)\\n' > tests/test_sums.py
"""
_TEST = "python3 -B -m unittest -q tests.test_sums"
_COMMIT = "git add -A && git commit -q -m 'Add sums' && git log --oneline | cut -c9-"


def run_chore(backend: str, enforces: frozenset[Feature], say: Callable[[str], None]) -> bool:
    """Do it, and look at the host whether it is done."""
    with Stage() as stage:
        has_git = make_repository(stage)
        sandbox = _sandbox(stage, backend, enforces)
        steps = [("write a small project", _WRITE), ("run its tests", _TEST)]
        if has_git:
            steps.append(("commit it with git", _COMMIT))
        for title, script in steps:
            problem = _do(sandbox, script)
            say(f"✘ {title}: {problem}"[:80] if problem else f"✔ {title}")
            if problem:
                return False
        return _is_on_host(stage, say, has_git=has_git)


def _sandbox(stage: Stage, backend: str, enforces: frozenset[Feature]) -> Sandbox:
    host, workspace = StagedHost(stage), stage.at("ws")
    planned = Sandbox(backend=UNCONFINED, workspace=workspace, host=host).explain("true").plan
    return Sandbox(
        backend=backend, workspace=workspace, waive=planned.requires - enforces, host=host, container=IN_PLACE
    )


def make_repository(stage: Stage) -> bool:
    """A git repository as the workspace, if there is a git."""
    stage.write("home/.gitconfig", "[user]\n\tname = Corral Demo\n\temail = demo@example.invalid\n")
    if not shutil.which("git"):
        return False
    quiet = ["git", "init", "-q", "-b", "main", stage.at("ws")]
    return subprocess.run(quiet, env={**os.environ, "HOME": stage.at("home")}, check=False).returncode == 0


def _do(sandbox: Sandbox, script: str) -> str:
    try:
        result = sandbox.run(script)
    except CorralError as problem:
        return problem.what
    return "" if result.ok else result.stderr_tail() or result.describe()


def _is_on_host(stage: Stage, say: Callable[[str], None], *, has_git: bool) -> bool:
    written = os.path.isfile(stage.at("ws/tests/test_sums.py"))
    committed = not has_git or bool(stage.read("ws/.git/refs/heads/main").strip())
    found = "the files and the commit" if has_git else "the files"
    done = written and committed
    say(f"✔ {found} are really on the host" if done else f"✘ {found} are not on the host")
    return done
