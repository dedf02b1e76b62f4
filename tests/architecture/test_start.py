"""What a start costs, said structurally: modules that take long to import are not imported."""

from __future__ import annotations

import subprocess
import sys

import pytest
from sources import SOURCE

#: Each costs milliseconds; `corral run -- true` may take fifty in all, the interpreter included.
SLOW = {
    "argparse",
    "asyncio",
    "click",
    "dataclasses",
    "inspect",
    "json",
    "pathlib",
    "re",
    "subprocess",
    "tomllib",
    "typing",
}

_SCRIPT = """
import sys
sys.path.insert(0, {source!r})
before = set(sys.modules)
import {module}
print(' '.join(sorted(set(sys.modules) - before)))
"""


def _imports_of(module: str) -> set[str]:
    script = _SCRIPT.format(source=str(SOURCE), module=module)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True, timeout=30
    )
    return set(done.stdout.split())


#: What a plain `corral run` imports on its way.
ON_THE_WAY = [
    *("corral.cli.main", "corral.cli.options", "corral.cli.run", "corral.sandbox"),
    *("corral.backends.native", "corral.protected_names.guard", "corral.cli.hook.respond"),
]


@pytest.mark.parametrize("module", ON_THE_WAY)
def test_importing_it_pulls_in_nothing_slow(module: str) -> None:
    assert _imports_of(module) & SLOW == set()


@pytest.mark.parametrize("module", [*ON_THE_WAY, "corral.cli.request", "corral.pipeline.planned_run"])
def test_who_has_nothing_checked_or_recorded_does_not_pay_for_it(module: str) -> None:
    unused = ("corral.audit", "corral.learning", "corral.shell_check", "tree_sitter")
    loaded = {name for name in _imports_of(module) if name.startswith(unused)}

    # The names of the modes are among the keys of a configuration.
    assert loaded <= {"corral.shell_check", "corral.shell_check.mode"}


def test_importing_corral_alone_imports_nothing_else() -> None:
    assert {name for name in _imports_of("corral") if name.startswith("corral")} == {"corral"}
