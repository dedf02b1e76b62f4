"""What `corral audit` prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import deque

from corral.audit.anchor import find_head, read_anchors, send, sign
from corral.audit.log import now
from corral.audit.query import RecordQuery, to_ocsf
from corral.audit.verify import log_files, read_records, verify
from corral.cli.progress_line import ProgressLine
from corral.cli.run import print_json, report_error, say
from corral.config.audit import audit_directory, read_key
from corral.config.load import load_configuration
from corral.model.errors import CorralError, PolicyError
from corral.model.printable import printable
from corral.model.rules.quantities import parse_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_SHOWN = (
    "program",
    "backend",
    "feature",
    "subject",
    "outcome",
    "exit_status",
    "code",
    "agent",
    "algorithm",
    "bytes",
)


def _reported(work: Callable[[], int], *, as_json: bool = False) -> int:
    try:
        return work()
    except CorralError as error:
        return report_error(error, as_json=as_json, about_command=False)
    except (OSError, ValueError, subprocess.CalledProcessError) as problem:
        if isinstance(problem, BrokenPipeError):
            raise
        said = (
            problem.stderr.decode("utf-8", "replace")
            if isinstance(problem, subprocess.CalledProcessError)
            else ""
        )
        say(f"the audit log: {said.strip() or problem}")
        return 1


def _files(directory: str | None) -> list[str]:
    place = directory or audit_directory()
    if not os.path.isdir(place) or not log_files(place):
        raise PolicyError(
            "audit-missing",
            "there is no audit log",
            why=f"nothing was recorded in {place}",
            fix="add `[audit]` and `enabled = true` to ~/.config/corral/corral.toml",
        )
    return log_files(place)


def show_tail(directory: str | None, count: int, *, as_json: bool) -> int:
    """The last records."""
    return _reported(
        lambda: _print(deque(read_records(_files(directory)), max(count, 0)), as_json=as_json),
        as_json=as_json,
    )


def show_query(directory: str | None, filters: Mapping[str, object], *, as_json: bool) -> int:
    """The records that fulfil the filters."""
    return _reported(
        lambda: _print(_query(filters).select(read_records(_files(directory))), as_json=as_json),
        as_json=as_json,
    )


def export_records(directory: str | None, filters: Mapping[str, object], form: str) -> int:
    """The same, for programs."""

    def work() -> int:
        for record in _query(filters).select(read_records(_files(directory))):
            sys.stdout.write(json.dumps(to_ocsf(record) if form == "ocsf" else record) + "\n")
        return 0

    return _reported(work)


def verify_log(directory: str | None, key: str | None, anchor: str | None, *, as_json: bool) -> int:
    """Whether the log is as it was written; returns 1 if not."""

    def work() -> int:
        _files(directory)
        place = key or load_configuration().audit_key
        with ProgressLine("reading the audit log"):
            found = verify(
                directory or audit_directory(),
                key=read_key(place) if place else None,
                anchors=_read_anchors(anchor) if anchor else None,
            )
        if as_json:
            print_json(found.to_json())
            return 0 if found.is_intact else 1
        for line in (*found.problems, *(f"a crash: {text}" for text in found.torn)):
            print(printable(line))
        word = "intact" if found.is_intact else "NOT INTACT"
        print(f"{word}: {found.events} records, numbers {found.first} to {found.last}; files: {found.files}")
        print(f"head {found.last} {found.head}")
        if not anchor:
            print(
                "(without --anchor corral cannot tell whether the end was cut off or the whole log rewritten)"
            )
        return 0 if found.is_intact else 1

    return _reported(work, as_json=as_json)


def anchor_log(directory: str | None, target: str, key: str | None, *, as_json: bool) -> int:
    """Keep the head elsewhere."""

    def work() -> int:
        _files(directory)
        head = find_head(directory or audit_directory())
        where = send(sign(head, key) if key else head, target)
        if as_json:
            print_json({"v": 1, "seq": head["seq"], "hash": head["hash"], "kept_in": where})
        else:
            print(f"number {head['seq']}, hash {head['hash']}, is kept in {where}")
        return 0

    return _reported(work, as_json=as_json)


def _read_anchors(path: str) -> dict[int, str]:
    if path == "-":
        return read_anchors(sys.stdin)
    with open(path, encoding="utf-8", errors="replace") as file:
        return read_anchors(file)


def _query(filters: Mapping[str, object]) -> RecordQuery:
    given = {name: value for name, value in filters.items() if value}
    for name in ("since", "until"):
        if name in given:
            given[name] = _moment(str(given[name]))
    return RecordQuery(**given)  # type: ignore[arg-type]


def _moment(text: str) -> str:
    """A time as it is written, or so long ago."""
    if text[:4].isdigit() and text[4:5] == "-":
        from datetime import UTC, datetime

        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo is not None else moment.astimezone()
        return now(moment.astimezone(UTC).timestamp())
    seconds = parse_duration(text)
    return now(time.time() - (seconds or 0))


def _print(records: Iterable[Mapping[str, object]], *, as_json: bool) -> int:
    for record in records:
        if as_json:
            sys.stdout.write(json.dumps(record) + "\n")
            continue
        details = " ".join(f"{name}={record[name]}" for name in _SHOWN if record.get(name) not in {None, ""})
        head = f"{record.get('seq', ''):>6} {record.get('time', ''):<27} {record.get('event', ''):<12}"
        print(printable(f"{head} {record.get('run', '-'):<16} {details}"))
    return 0
