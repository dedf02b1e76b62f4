"""Which command springs which trap: the table, by trying everything. A second or two for each trap.

PYTHONPATH=tests python -m support.git_table [PART OF A NAME ...]
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from support.git_commands import SITTINGS
from support.git_stage import Stage, make_template
from support.git_traps import TRAPS
from support.git_watch import sit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.git_trap import Trap


def springs(place: Path, template: Path, trap: Trap) -> list[str]:
    """All commands that spring a trap, each with what is found first."""
    stage = Stage(place, template, [trap], os.geteuid())
    said = stage.plant([trap])
    if not said.startswith("planted"):
        return [said.strip()]
    stage.keep()
    found: dict[str, str] = {}
    for sitting in SITTINGS:
        stage.go_back()
        stage.edit()
        for finding in sit(stage, sitting):
            found.setdefault(finding.command, finding.kind)
    return [f"{command} ({kind})" for command, kind in found.items()]


def main(parts: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="corral-traps-") as top:
        template = Path(top, "template")
        template.mkdir()
        make_template(template)
        for number, trap in enumerate(TRAPS):
            if not parts or any(part in trap.name for part in parts):
                place = Path(top, str(number))
                place.mkdir()
                print(f"{trap.name}: {'; '.join(springs(place, template, trap)) or '-'}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
