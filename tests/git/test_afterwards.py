"""After a run in a sandbox no git command of the user's runs a program chosen inside, or writes outside.

The command leaves every trap of `support/git_traps.py`. The user then types what is in
`support/git_commands.py` (`make test`: what is known to spring a trap), and each command is watched.
Three legs again:

    control   unconfined, the traps spring, and the watcher sees it
    alive     the traps were planted inside, and there is a repository for the commands to work in
    effect    judged on the host, by what git runs and writes
"""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

from support.git_commands import SITTINGS
from support.git_confined import plant_confined, require_native, table
from support.git_trap import ALONE, DIRECTORIES, FILES, GONE, GROUPS, MORE, STATES, UNBORN
from support.git_traps import TRAPS, in_group, springing
from support.git_watch import sit, sit_anew, watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from support.git_stage import Stage
    from support.git_trap import Trap
    from support.git_watch import Finding

    MakeStage = Callable[..., Stage]

OWN, ORDINARY = "own", "ordinary"
#: With this one the table was made. Others refuse more; what they do besides is worth a look.
GIT = "git version 2.39."
#: Of each group some that every git springs, even where all traps lie in one repository and hide each other.
WELL_KNOWN = {
    FILES: (
        "config-append",
        "nested-added",
        "link-file-COMMIT_EDITMSG",
        "link-up-FETCH_HEAD",
        "index-outside",
    ),
    DIRECTORIES: ("commondir", "link-dir-logs", "link-new-index"),
    STATES: ("config-replace", "module-monitor"),
    MORE: ("link-up-COMMIT_EDITMSG",),
    UNBORN: ("upwards-HEAD",),
    GONE: ("repository-at-the-top",),
}
#: Where git finds nothing to work with, the first commands say as much as all.
WITHOUT_COMMITS = {UNBORN, GONE}
#: What takes longest is left to `make test-all`, with its control.
LONG = {DIRECTORIES, MORE, STATES}
#: Each group as one of both users in turn; the rest is left to `make test-all`.
CASES = [
    pytest.param(group, user, marks=[] if is_quick else pytest.mark.thorough)
    for number, group in enumerate(GROUPS)
    for user in (OWN, ORDINARY)
    for is_quick in [(user == OWN) == (number % 2 == 0) and group not in LONG]
]
#: In a group one trap may hide another. What is in none is tried in every run.
QUICK = [trap.name for trap in TRAPS if trap.group == ALONE]
EACH = [
    pytest.param(trap, id=trap.name, marks=[] if trap.name in QUICK else pytest.mark.thorough)
    for trap in TRAPS
    if not trap.harmless
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What people type comes in sittings: each of them is a test, on what was planted once."""
    if "case" in metafunc.fixturenames:
        every = SITTINGS if metafunc.config.getoption("--all") else springing()
        metafunc.parametrize(
            ("case", "sitting"),
            [
                pytest.param(case.values, sitting, id=f"{'-'.join(case.values)}-{number}", marks=case.marks)
                for case in CASES
                for number, sitting in enumerate(every[:2] if case.values[0] in WITHOUT_COMMITS else every)
            ],
        )


@pytest.fixture(scope="module")
def planted(lasting_stage: MakeStage, packages: Path) -> Callable[[str, str], Stage]:
    """A stage on which a sandboxed command has left the traps of a group."""

    @cache
    def plant(group: str, user: str) -> Stage:
        traps = in_group(group)
        made = lasting_stage(traps, user)
        plant_confined(made, packages, traps)
        made.keep()
        if group not in WITHOUT_COMMITS and watch(made, "log -1 v1").status != 0:
            raise RuntimeError("there is no repository left: nothing could be sprung")
        return made

    return plant


def test_no_git_command_springs_a_trap_that_a_sandboxed_command_left(
    planted: Callable[[str, str], Stage],
    request: pytest.FixtureRequest,
    case: tuple[str, str],
    sitting: list[str],
) -> None:
    require_native(request)

    found = sit_anew(planted(*case), sitting)

    assert not found, table(found)


@pytest.mark.parametrize("trap", EACH)
def test_no_git_command_springs_a_trap_that_lies_alone(
    stage: MakeStage, packages: Path, request: pytest.FixtureRequest, trap: Trap
) -> None:
    require_native(request)
    made = stage((trap,))

    plant_confined(made, packages, (trap,))

    made.edit()
    found = sit(made, trap.commands)
    assert not found, table(found)


@pytest.mark.parametrize(
    "group",
    [pytest.param(group, marks=pytest.mark.thorough if group in LONG else []) for group in GROUPS],
)
def test_the_control_springs_what_is_well_known(stage: MakeStage, group: str) -> None:
    """All traps of a group at once, unconfined."""
    traps = in_group(group)
    made = stage(traps)
    made.plant(traps)
    known = [trap for trap in traps if trap.name in WELL_KNOWN[group]]

    found = sit(made, dict.fromkeys(command for trap in known for command in trap.commands))

    assert {finding.trap for finding in found} >= {trap.name for trap in known}, table(found)


@pytest.mark.parametrize("trap", EACH)
def test_the_control_springs_a_trap_that_lies_alone(stage: MakeStage, trap: Trap) -> None:
    found = _control(stage, trap)

    if not found and not _is_known_git():
        pytest.skip("this git does not spring it")
    assert found and {finding.trap for finding in found} <= {trap.name, ""}


@pytest.mark.thorough
@pytest.mark.parametrize("trap", [trap for trap in TRAPS if trap.harmless], ids=lambda trap: trap.name)
def test_a_trap_that_is_said_to_be_harmless_is(stage: MakeStage, trap: Trap) -> None:
    assert _control(stage, trap) == []


@pytest.mark.thorough
@pytest.mark.parametrize("user", [OWN, ORDINARY])
@pytest.mark.parametrize("sitting", SITTINGS, ids=range(len(SITTINGS)))
def test_nothing_is_found_where_no_trap_is(stage: MakeStage, user: str, sitting: list[str]) -> None:
    made = stage(user=user)

    made.edit()

    assert sit(made, sitting) == []


def _control(stage: MakeStage, trap: Trap) -> list[Finding]:
    made = stage((trap,))
    said = made.plant([trap])
    assert said == f"planted {trap.name}\n", said
    made.edit()
    return sit(made, trap.commands)


def _is_known_git() -> bool:
    return subprocess.check_output(["git", "--version"], text=True).startswith(GIT)
