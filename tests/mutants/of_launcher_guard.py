"""Mutants of the launcher's guard over protected names, and of who puts its lines into words."""

from __future__ import annotations

from branches import branch_mutants
from mutant import Answer, Edit, Mutant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_T = "tests/launcher/test_guard.py::test_"
_GUARD, _QUARANTINE, _START = (f"launcher/{name}.c" for name in ("guard", "quarantine", "start"))
_SUPERVISE = "launcher/supervise.c"
_FILE = "[plain-root-a file]"
_LIVE = f"{_T}what_is_planted_is_taken_away_while_the_command_runs{_FILE}"
_UNIT = "tests/unit/protected_names/test_launcher_guard.py"


def _one(name: str, file: str, before: str, after: str, *tests: str) -> Mutant:
    return Mutant(f"launcher-guard.{name}", "fs.protect", (Edit(file, before, after),), tests)


MUTANTS = (
    _one(
        "never-opened",
        _START,
        "    if (!err) err = guard_open(launch);",
        "    if (!err) err = 0;",
        _LIVE,
    ),
    _one(
        "no-look",
        _SUPERVISE,
        "        if (signal == SIGIO) guard_stir();\n",
        "        if (signal == SIGIO) continue;\n",
        _LIVE,
    ),
    _one(
        "no-sweep",
        _SUPERVISE,
        "    if (!w.is_refused) guard_sweep();",
        '    if (!w.is_refused) status_line("swept\\n");',
        f"{_T}the_sweep_finds_what_no_look_has_seen[root-a file]",
        f"{_T}when_corral_is_gone_the_command_is_ended_and_what_it_left_is_taken[root]",
    ),
    Mutant(
        "launcher-guard.sweeps-where-nothing-ran",
        "fs.protect",
        (Edit(_SUPERVISE, "    if (!w.is_refused) guard_sweep();", "    guard_sweep();"),),
        (f"{_T}where_nothing_ran_nothing_is_taken[root]",),
        Answer.REFUSED,
        "nothing ran; what the host made at that moment would be taken",
    ),
    _one(
        "any-directory-will-do",
        _GUARD,
        "(uint64_t)status.st_dev != planned->device || (uint64_t)status.st_ino != planned->inode",
        "!planned->path",
        f"{_T}what_is_not_as_planned_stops_the_launch[root-another directory]",
    ),
    _one(
        "links-are-followed",
        _GUARD,
        "O_RDONLY | O_DIRECTORY | O_CLOEXEC, K_RESOLVE_NO_SYMLINKS);",
        "O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);",
        f"{_T}what_is_not_as_planned_stops_the_launch[root-a link]",
    ),
    _one(
        "the-hosts-own-is-taken",
        _GUARD,
        "        if (find(fd, name) == (*name->link ? FOUND_RIGHT : FOUND_NOTHING)) continue;\n",
        "        if (name) continue;\n",
        f"{_T}what_is_not_as_planned_stops_the_launch[root-a name]",
    ),
    _one(
        "endless-patience",
        _GUARD,
        "    if (guard.is_ended || guard.taken < PATIENCE) return false;\n",
        "    if (guard.look_at >= 0) return false;\n",
        f"{_T}whoever_keeps_trying_is_ended[plain-root]",
    ),
    _one(
        "closed-directories",
        _GUARD,
        "    if ((mode & 0300) != 0300) (void)fchmod(fd, mode | 0300);\n",
        "",
        f"{_T}a_directory_without_rights_is_looked_into_and_stays_as_it_is[ordinary-500]",
    ),
    _one(
        "no-link-is-put-back",
        _GUARD,
        "    if (*name->link) (void)!symlinkat(name->link, fd, name->name);\n",
        "",
        f"{_T}a_link_that_was_there_is_put_back[root]",
    ),
    _one(
        "what-is-left-is-not-told",
        _GUARD,
        '            if (fd < 0 || !is_right(fd, i)) tell("unremoved", i);\n',
        '            if (fd < 0) tell("unremoved", i);\n',
        f"{_T}what_cannot_be_put_right_is_told",
    ),
    _one(
        "second-names-in-the-quarantine",
        _QUARANTINE,
        "    if (!S_ISREG(status.st_mode) || status.st_nlink == 1) return true;\n",
        "    if (status.st_nlink) return true;\n",
        f"{_T}nobody_writes_to_the_quarantine_by_another_name[root]",
    ),
    _one(
        "litter",
        _QUARANTINE,
        "        if (is_known) remove_tree(first->directory, first->name);\n",
        "        (void)remove_tree;\n",
        f"{_T}what_cannot_be_kept_is_removed_in_the_end[root]",
    ),
)


def launcher_guard_mutants() -> Iterator[Mutant]:
    yield from MUTANTS
    file = "src/corral/protected_names/launcher_guard.py"
    yield from branch_mutants("launcher_guard", file, "fs.protect", {"": (_UNIT,)}, {})
