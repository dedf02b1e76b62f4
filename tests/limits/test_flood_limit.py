"""output:limit and files:limit: a flood of output ends, and no process opens more files than permitted."""

from __future__ import annotations

from corral.model.result import Outcome
from support.arena import python, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from support.arena import Arena
    from support.gates import Gate

_FLOOD = "exec 9>gate; yes & yes >&2 & wait"
# Each file that is open at the same time is one that the host can count.
_OPEN = """
import os, resource, sys
try: resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
except (OSError, ValueError): pass
held = []
try:
    for number in range(200): held.append(open(f'open-{number}', 'w'))
except OSError:
    sys.exit(1)
"""


def test_a_flood_of_output_ends_the_run(arena: Arena, gate: Gate) -> None:
    result = arena.run(shell(_FLOOD), "output:limit:64KiB")

    assert result.outcome is Outcome.OUTPUT_LIMIT
    assert result.truncated
    assert len(result.stdout_bytes) + len(result.stderr_bytes) <= 64 * 1024
    assert gate.is_left()


def test_without_a_limit_all_of_it_comes(arena: Arena) -> None:
    result = arena.run(shell("head -c 4m /dev/zero"))

    assert result.ok
    assert result.stdout_size == 4 << 20


def test_no_process_opens_more_files_than_permitted(arena: Arena, work: Path) -> None:
    result = arena.run(python(_OPEN), "files:limit:32")

    assert result.exit_code == 1
    assert 0 < len(list(work.glob("open-*"))) < 32


def test_without_a_limit_it_opens_more(arena: Arena, work: Path) -> None:
    result = arena.run(python(_OPEN))

    assert result.ok, result.stderr
    assert len(list(work.glob("open-*"))) == 200
