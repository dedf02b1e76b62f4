"""Mutants of the launcher's tables: each phase that is left out, each kind of record that is not heard.

Phases and records are read from the sources. One that is new and has no entry here is an error.
"""

from __future__ import annotations

import re

from mutant import ROOT, Answer, Edit, Mutant

from corral.linux.spec import MountFlag, MountKind, RecordType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAIN, RECORDS = "launcher/main.c", "launcher/records.c"
_TABLE = re.compile(r"const struct phase (\w+)_PHASES\[\] = \{\n(.*?)\n\};", re.DOTALL)
_ROW = re.compile(r'    \{"(\w+)", (\w+)\},\n')
_PARSE = "    const char *why = PARSERS[type](spec, &payload);\n"
_COUNT = "    spec->count[type]++;\n"
#: The second wall, where mounts are the first.
NO_LANDLOCK = Edit(
    RECORDS,
    _PARSE,
    f"    if (type >= RECORD_LANDLOCK && type <= RECORD_LANDLOCK_PORT) return NULL;\n{_PARSE}",
)
#: A listener of no filter is refused.
NO_LISTENER = Edit(RECORDS, _PARSE, f"    if (type == RECORD_LISTEN) return NULL;\n{_PARSE}")
#: The other way to end everyone, where a control group is one.
NO_TREE = Edit(
    "launcher/tree.c",
    "    if (!is_first_process()) return visit_all(send_signal, &signal);\n",
    "    if (signal) return 0;\n",
)


def phases() -> Iterator[tuple[str, str, str]]:
    """Every row of the tables in main.c: the table, the phase, and the table without that row."""
    for table in _TABLE.finditer((ROOT / MAIN).read_text()):
        for row in _ROW.finditer(table.group(0)):
            yield (
                f"{table.group(1).lower()}.{row.group(2)}",
                table.group(0),
                table.group(0).replace(row.group(0), ""),
            )


def phase_mutants(entries: dict[str, Entry]) -> Iterator[Mutant]:
    """A mutant for each row, and none for a row that is not there."""
    rows = {name: (before, after) for name, before, after in phases()}
    _must_be_alike("phases of the launcher", set(rows), {name.partition("+")[0] for name in entries})
    for name, entry in entries.items():
        first, *more = name.split("+")
        edits = _without_rows([first, *more], rows)
        yield entry.mutant(f"phase.{name}", (*edits, *entry.edits))


def _without_rows(names: list[str], rows: dict[str, tuple[str, str]]) -> list[Edit]:
    """Rows of different tables, each its own edit."""
    return [Edit(MAIN, *rows[name]) for name in names]


def record_mutants(entries: dict[str, Entry]) -> Iterator[Mutant]:
    """A mutant for each type of record: it is read and forgotten."""
    _must_be_alike("records of the spec", {kind.name for kind in RecordType}, set(entries))
    for name, entry in entries.items():
        edit = Edit(RECORDS, _PARSE, f"    if (type == RECORD_{name}) return NULL;\n{_PARSE}")
        yield entry.mutant(f"record.{name.lower()}", (edit, *entry.edits))


def mount_mutants(entries: dict[str, Entry]) -> Iterator[Mutant]:
    """A mutant for each kind of mount, which is not made."""
    _must_be_alike("kinds of mounts", {kind.name for kind in MountKind}, set(entries))
    for name, entry in entries.items():
        test = f"type == RECORD_MOUNT && spec->mounts[spec->count[type]].kind == MOUNT_{name}"
        yield entry.mutant(
            f"mount.{name.lower()}",
            (Edit(RECORDS, _COUNT, f"    if ({test}) return NULL;\n{_COUNT}"), *entry.edits),
        )


def flag_mutants(entries: dict[str, Entry]) -> Iterator[Mutant]:
    """A mutant for each flag of mounts, which is not heeded."""
    _must_be_alike("flags of mounts", {flag.name for flag in MountFlag}, set(entries))
    before = "    m->flags = cursor_u32(c);\n"
    for name, entry in entries.items():
        after = f"    m->flags = cursor_u32(c) & ~(uint32_t)MOUNT_{name};\n"
        yield entry.mutant(f"mount-flag.{name.lower()}", (Edit(RECORDS, before, after), *entry.edits))


def namespace_mutants(entries: dict[str, Entry]) -> Iterator[Mutant]:
    """A mutant for each namespace, which is not made."""
    known = re.search(r"KNOWN_NAMESPACES = (.*?);", (ROOT / RECORDS).read_text(), re.DOTALL)
    assert known is not None
    _must_be_alike("namespaces", set(re.findall(r"K_CLONE_(\w+)", known.group(1))), set(entries))
    before = "    spec->namespaces = cursor_u32(c);\n"
    for name, entry in entries.items():
        after = f"    spec->namespaces = cursor_u32(c) & ~(uint32_t)K_CLONE_{name};\n"
        yield entry.mutant(f"namespace.{name.lower()}", (Edit(RECORDS, before, after), *entry.edits))


def _must_be_alike(what: str, there: set[str], listed: set[str]) -> None:
    if there != listed:
        raise ValueError(f"{what}: without a mutant {sorted(there - listed)}, gone {sorted(listed - there)}")


class Entry:
    """What a generated mutant breaks and who notices."""

    def __init__(
        self,
        breaks: str,
        *tests: str,
        answer: Answer = Answer.CAUGHT,
        why: str = "",
        edits: tuple[Edit, ...] = (),
    ) -> None:
        self.breaks, self.tests, self.answer, self.why, self.edits = breaks, tests, answer, why, edits

    def mutant(self, name: str, edits: tuple[Edit, ...]) -> Mutant:
        return Mutant(name, self.breaks, edits, self.tests, self.answer, self.why)


def refused(breaks: str, why: str, *tests: str, edits: tuple[Edit, ...] = ()) -> Entry:
    return Entry(breaks, *tests, answer=Answer.REFUSED, why=why, edits=edits)


def survives(breaks: str, why: str, *tests: str) -> Entry:
    return Entry(breaks, *tests, answer=Answer.SURVIVES, why=why)
