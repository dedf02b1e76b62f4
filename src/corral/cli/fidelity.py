"""`corral policy check`: for each clause of a policy and each backend, whether and how it would be held."""

from __future__ import annotations

import json
import sys
import textwrap

from corral.backends.registry import UNCONFINED
from corral.cli.request import build_request
from corral.cli.run import report_error
from corral.model.errors import CorralError, UnenforceableError
from corral.model.feature import PROMISES
from corral.model.fidelity import Hold
from corral.model.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from corral.model.feature import Feature
    from corral.model.fidelity import BackendFidelity, Clause, Fidelity, Finding
    from corral.model.policy import Policy

_WIDTH = 100
_LEAST_CLAUSE = 24
_MARKS = {Hold.ENFORCED: "enforced", Hold.APPROXIMATED: "approx.", Hold.NOT_ENFORCEABLE: "no"}
_NOTHING_TO_HOLD = "-"
_LEGEND = (
    "enforced  a mechanism enforces it",
    "approx.   something is done, but less than is promised: it counts as not enforced",
    "no        nothing enforces it",
    "-         nothing to enforce: the clause only grants, or does not apply",
)


def check_request(options: Mapping[str, Any]) -> int:
    """Print how the policy fares on this host. Status 0 if it would be enforced, 3 if it would be refused."""
    try:
        sandbox = build_request(options, for_run=False).sandbox
        policy, found, notes = sandbox.policy, sandbox.fidelity(), sandbox.notes()
    except CorralError as error:
        return report_error(error, as_json=bool(options["json"]))
    if options["json"]:
        sys.stdout.write(json.dumps({**_as_json(policy, found), "notes": list(notes)}, indent=2) + "\n")
    else:
        lines = (
            *_render(policy, found, verbose=bool(options["verbose"])),
            *(f"note: {note}" for note in notes),
        )
        sys.stdout.write("\n".join(map(printable, lines)) + "\n")
    return 0 if found.chosen else UnenforceableError.exit_status


def summarize(found: Fidelity) -> Iterator[str]:
    """One line, wrapped where it must be, for each backend."""
    width = max(len(backend.backend) for backend in found.backends)
    for backend in found.backends:
        yield from _wrapped(f"{backend.backend:<{width}}  ", _summary(backend, found.waived))


def _summary(backend: BackendFidelity, waived: frozenset[Feature]) -> str:
    if not backend.available:
        return f"does not work here: {backend.reason}"
    if backend.backend == UNCONFINED:
        return "confines nothing; only if you ask for it by name"
    if backend.enforces_all:
        return "enforces all"
    return "lacks " + ", ".join(_lack(finding, waived) for finding in backend.lacking)


def _lack(finding: Finding, waived: frozenset[Feature]) -> str:
    approximated = ["approximated"] if finding.hold is Hold.APPROXIMATED else []
    remarks = approximated + (["waived"] if finding.feature in waived else [])
    return finding.feature.value + (f" ({', '.join(remarks)})" if remarks else "")


def _render(policy: Policy, found: Fidelity, *, verbose: bool) -> Iterator[str]:
    yield from _verdict(policy, found)
    if not verbose:
        yield "-v shows each clause on each backend."
        return
    yield ""
    yield from _tables(found)
    yield ""
    yield from summarize(found)
    yield from _details(found)
    yield ""
    yield from _LEGEND


def _tables(found: Fidelity) -> Iterator[str]:
    """A backend that does not work here has no column: there is nothing to compare.

    Those that do not fit side by side follow in another table.
    """
    needs = max(len(_names(clause)) for clause in found.clauses) + 2
    room = _WIDTH - needs - _LEAST_CLAUSE
    table: list[BackendFidelity] = []
    for backend in found.backends:
        if table and sum(map(_width, table)) + _width(backend) > room:
            yield from _table(found, table, needs)
            yield ""
            table = []
        table += [backend] if backend.available else []
    yield from _table(found, table, needs)


def _width(backend: BackendFidelity) -> int:
    return max(10, len(backend.backend) + 2)


def _table(found: Fidelity, shown: list[BackendFidelity], needs: int) -> Iterator[str]:
    widths = [_width(backend) for backend in shown]
    room = max(_LEAST_CLAUSE, _WIDTH - needs - sum(widths))

    def row(text: str, names: str, cells: Iterable[str], indent: str = "") -> Iterator[str]:
        first, *more = textwrap.wrap(
            text, room - 2, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
        )
        columns = "".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
        yield f"{first:<{room}}{names:<{needs}}{columns}".rstrip()
        yield from more

    yield from row("clause", "needs", (backend.backend for backend in shown))
    heading = "whatever the policy says"
    for clause in found.clauses:
        if clause.always and heading:
            yield heading
            heading = ""
        marks = (_mark(clause, backend) for backend in shown)
        yield from row(clause.text, _names(clause), marks, "  " if clause.always else "")


def _names(clause: Clause) -> str:
    return ", ".join(feature.value for feature in clause.features)


def _mark(clause: Clause, backend: BackendFidelity) -> str:
    hold = backend.hold_of(clause.features)
    return _MARKS[hold] if hold is not None else _NOTHING_TO_HOLD


def _details(found: Fidelity) -> Iterator[str]:
    for backend in found.backends:
        if not backend.available:
            continue
        yield ""
        yield f"{backend.backend} ({backend.version})" if backend.version else backend.backend
        for finding in backend.findings:
            how = finding.how or f"not held: {PROMISES[finding.feature]}"
            yield from _wrapped(f"  {finding.feature.value:<16} {_MARKS[finding.hold]:<8}  ", how)


def _verdict(policy: Policy, found: Fidelity) -> Iterator[str]:
    given_up = ",".join(sorted(feature.value for feature in found.waived))
    if found.falls_back:
        yield "no: the command would run UNCONFINED, because your own configuration says so (fallback)"
        yield from _because(found)
    elif found.chosen == UNCONFINED:
        yield "no: the command would run unconfined, as you ask"
    elif found.chosen:
        waived = f" but {given_up}, which you waive" if given_up else ""
        yield f"yes: {found.chosen} enforces all of {policy.name}{waived}"
    else:
        yield f"no: nothing here enforces {policy.name}, and `corral run` would refuse"
        yield from _because(found)
        yield from _wrapped("  fix: ", found.fix)


def _because(found: Fidelity) -> Iterator[str]:
    label = "  because: "
    for reason in found.reasons:
        yield from _wrapped(label, reason)
        label = " " * len(label)


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=label, subsequent_indent=" " * len(label), break_on_hyphens=False
    )


def _as_json(policy: Policy, found: Fidelity) -> dict[str, Any]:
    return {
        "v": 1,
        "profile": policy.name,
        "policy_hash": policy.digest(),
        "clauses": [_clause_as_json(clause, found) for clause in found.clauses],
        "backends": [_backend_as_json(backend) for backend in found.backends],
        "waived": sorted(feature.value for feature in found.waived),
        "chosen": found.chosen,
        "refusal": found.refusal,
        "reasons": list(found.reasons),
        "fix": found.fix,
    }


def _clause_as_json(clause: Clause, found: Fidelity) -> dict[str, Any]:
    holds = {backend.backend: backend.hold_of(clause.features) for backend in found.backends}
    return {
        "clause": clause.text,
        "always": clause.always,
        "features": [feature.value for feature in clause.features],
        "fidelity": {name: hold.value if hold is not None else None for name, hold in holds.items()},
    }


def _backend_as_json(backend: BackendFidelity) -> dict[str, Any]:
    return {
        "backend": backend.backend,
        "available": backend.available,
        "version": backend.version,
        "reason": backend.reason,
        "fix": backend.fix,
        "enforces_all": backend.enforces_all,
        "features": {
            finding.feature.value: {"fidelity": finding.hold.value, "how": finding.how}
            for finding in backend.findings
        },
    }
