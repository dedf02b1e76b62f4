"""The same for a repository that is not simply `.git` in the workspace, and for one that a command makes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from support.git_confined import plant_confined, require_native, table
from support.git_stage import LINK, LINKED, MADE, SEPARATE
from support.git_trap import FILES, STATES, sprung
from support.git_traps import in_group, springing
from support.git_traps_detours import IN_MADE_REPOSITORY
from support.git_watch import sit, sit_anew, watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from support.git_stage import Stage
    from support.git_trap import Trap

    MakeStage = Callable[..., Stage]

#: These must be there for a test to say anything; not every trap can be planted in every repository.
NEEDED = {
    FILES: {"link-file-COMMIT_EDITMSG", "link-file-logs-HEAD", "upwards-ORIG_HEAD", "nested-added"},
    STATES: {"rebase-exec", "sequencer-strategy", "object-directories"},
}
#: Of those, what a control springs where all traps of the group lie beside.
SEEN = {FILES: {"link-file-COMMIT_EDITMSG", "nested-added"}, STATES: {"object-directories"}}
CASES = [
    pytest.param(layout, group, marks=[] if (layout, group) == (LINKED, STATES) else pytest.mark.thorough)
    for layout in (LINKED, SEPARATE, LINK, MADE)
    for group in (FILES, STATES)
]
_MAKE = sprung("made", "os.rename('.made', '.git')")


def _traps(layout: str, group: str) -> tuple[Trap, ...]:
    """Without the one that would take the git directory of a linked worktree away."""
    traps = tuple(trap for trap in in_group(group) if layout != LINKED or trap.name != "link-dir-worktrees")
    return (_MAKE, *traps) if layout == MADE else traps


@pytest.fixture(scope="module")
def planted(lasting_stage: MakeStage, packages: Path) -> Callable[[str, str], Stage]:
    """A stage on which a sandboxed command has left the traps of a group."""

    @cache
    def plant(layout: str, group: str) -> Stage:
        traps = _traps(layout, group)
        made = lasting_stage(traps, layout=layout)
        # Where no repository was before, traps are removed at once, and too many end the command.
        plant_confined(made, packages, traps, NEEDED[group] if layout != MADE else {_MAKE.name})
        made.keep()
        if watch(made, "log -1 v1").status != 0:
            raise RuntimeError("there is no repository left: nothing could be sprung")
        return made

    return plant


@pytest.mark.parametrize(
    ("layout", "group", "sitting"),
    [
        pytest.param(*case.values, sitting, id=f"{'-'.join(case.values)}-{number}", marks=case.marks)
        for case in CASES
        for number, sitting in enumerate(springing(_traps(*case.values)))
    ],
)
def test_no_git_command_springs_a_trap_wherever_the_repository_is(
    planted: Callable[[str, str], Stage],
    request: pytest.FixtureRequest,
    layout: str,
    group: str,
    sitting: list[str],
) -> None:
    require_native(request)

    found = sit_anew(planted(layout, group), sitting)

    assert not found, table(found)


@pytest.mark.thorough
@pytest.mark.parametrize(("layout", "group"), [case.values for case in CASES])
def test_the_control_springs_traps_wherever_the_repository_is(
    stage: MakeStage, layout: str, group: str
) -> None:
    traps = _traps(layout, group)
    made = stage(traps, layout=layout)
    said = made.plant(traps).splitlines()

    made.keep()
    sittings = springing(traps)
    if group == FILES:  # in others one trap makes the commands of another end early
        telling = {command for trap in traps if trap.name in SEEN[group] for command in trap.commands}
        sittings = [sitting for sitting in sittings if not telling.isdisjoint(sitting)]
    found = [finding for sitting in sittings for finding in sit_anew(made, sitting)]

    assert {f"planted {name}" for name in NEEDED[group]} <= {*said}
    assert {finding.trap for finding in found} >= SEEN[group], table(found)


@pytest.mark.parametrize("trap", IN_MADE_REPOSITORY, ids=lambda trap: trap.name)
def test_no_git_command_springs_a_trap_in_a_repository_that_the_command_made(
    stage: MakeStage, packages: Path, request: pytest.FixtureRequest, trap: Trap
) -> None:
    require_native(request)
    made = stage((trap,), layout=MADE)

    plant_confined(made, packages, (trap,))

    made.edit()
    found = sit(made, trap.commands)
    assert not found, table(found)


@pytest.mark.parametrize("trap", IN_MADE_REPOSITORY, ids=lambda trap: trap.name)
def test_the_control_springs_a_trap_in_a_repository_that_the_command_made(
    stage: MakeStage, trap: Trap
) -> None:
    made = stage((trap,), layout=MADE)
    said = made.plant((trap,))

    made.edit()
    found = sit(made, trap.commands)

    assert said == f"planted {trap.name}\n"
    assert trap.name in {finding.trap for finding in found}, table(found)
