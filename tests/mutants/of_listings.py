"""Mutants of what the entry program remembers of directories, and of what it takes for harmless in them."""

from __future__ import annotations

from mutant import Answer, Edit, Mutant

_L, _T = "tests/entry/test_remembered_listings.py::test_", "tests/entry/test_trees.py::test_"
_LISTINGS, _REMEMBERED, _TREES = "entry/listings.c", "entry/remembered.c", "entry/trees.c"
_HIDES = "what is remembered of directories hides nothing"
_HARMLESS = "fs.protect: what is left without Python is harmless"
_NOTHING = f"{_L}each_is_seen_for_itself"
_LINK = f"{_NOTHING}[a link that git would write to]"
_ELSEWHERE = f"{_T}what_it_takes_elsewhere_is_harmless"

_CHANGED = "(uint64_t)status.st_ctim.tv_sec * SECOND_NS + (uint64_t)status.st_ctim.tv_nsec}"


def _one(name: str, breaks: str, edit: Edit, *tests: str, why: str = "") -> Mutant:
    return Mutant(f"listings.{name}", breaks, (edit,), tests, Answer.SURVIVES if why else Answer.CAUGHT, why)


MUTANTS = (
    _one(
        "by-inode-alone",
        _HIDES,
        Edit(
            _LISTINGS,
            "    return (hash ^ stamp->changed_ns ^ stamp->device) * 0xff51afd7ed558ccdu >> 20;\n",
            "    return (hash ^ stamp->device) * 0xff51afd7ed558ccdu >> 20;\n",
        ),
        why="only slower: which place of the table is looked at first; the whole stamp is compared",
    ),
    _one(
        "without-time-of-change",
        _HIDES,
        Edit(
            _LISTINGS,
            "    *stamp = (struct stamp){(uint64_t)status.st_dev, (uint64_t)status.st_ino,\n"
            f"                            {_CHANGED};\n",
            "    *stamp = (struct stamp){(uint64_t)status.st_dev, (uint64_t)status.st_ino, 1};\n",
        ),
        _LINK,
    ),
    _one(
        "by-time-that-can-be-set",
        _HIDES,
        Edit(
            _LISTINGS,
            f"{_CHANGED};",
            f"{_CHANGED};".replace("ctim", "mtim"),
        ),
        _LINK,
    ),
    _one(
        "young-times",
        _HIDES,
        Edit(
            _LISTINGS,
            "stamp->changed_ns % SECOND_NS && stamp->changed_ns + TICK_NS < listings->began_ns;",
            "stamp->changed_ns % SECOND_NS && listings->began_ns;",
        ),
        why="a directory that changes twice within a tick of the kernel's clock: no test drives that clock",
    ),
    _one(
        "of-any-kind",
        _HIDES,
        Edit(_LISTINGS, "known->kind == kind && memcmp(", "kind < KINDS && memcmp("),
        why="one inode is looked at as one kind, by its place; who moves it changes its time of change",
    ),
    _one(
        "never-written-down",
        "many repositories cost no Python",
        Edit(_TREES, "if (is_clean && place >= 0) listings_save(&listings, place, name);", ""),
        f"{_L}what_has_not_changed_is_not_listed_again",
    ),
    _one(
        "of-other-rules",
        _HIDES,
        Edit(_REMEMBERED, "memcmp(header.rules, RULES, sizeof RULES) != 0 || size", "size"),
        f"{_L}what_other_rules_have_judged_is_judged_again",
    ),
    _one(
        "odd-names",
        _HARMLESS,
        Edit(_TREES, "if (is_odd(name) || is_trap_for_git", "if (is_trap_for_git"),
        why="the file systems of the tests know `.GIT` from `.git`: only where they are one does it matter",
    ),
    _one(
        "traps",
        _HARMLESS,
        Edit(_TREES, "if (is_odd(name) || is_trap_for_git(name, type))", "if (is_odd(name))"),
        _ELSEWHERE,
    ),
    _one(
        "bare-repositories",
        _HARMLESS,
        Edit(_TREES, " || is_bare(found.marks)) return false;", " || (is_bare, false)) return false;"),
        _ELSEWHERE,
    ),
    _one(
        "pointers",
        _HARMLESS,
        Edit(_TREES, "type == DT_DIR ? PASSED : REFUSED;", "PASSED;"),
        _ELSEWHERE,
    ),
    _one(
        "new-repositories",
        _HARMLESS,
        Edit(_TREES, "return !has_git && !(worktree", "return !(worktree"),
        f"{_NOTHING}[a repository]",
    ),
    _one(
        "names-of-remotes",
        _HARMLESS,
        Edit(
            _TREES, "if (found.marks & HAS_REMOTE || !has_git) return false;", "if (!has_git) return false;"
        ),
        _ELSEWHERE,
    ),
    _one(
        "repository-around",
        _HARMLESS,
        Edit(
            _TREES,
            "lstat(path, &status) == 0 || errno != ENOENT) return false;",
            "lstat(path, &status) == 1) return false;",
        ),
        "tests/entry/test_walls.py::test_the_index_of_a_repository_around_is_heeded",
    ),
)
