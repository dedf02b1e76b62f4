"""RecordQuery: records by time, agent, outcome and feature; and their shape as OCSF events."""

from __future__ import annotations

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

#: Event -> class, activity and severity of OCSF 1.3: Process Activity, Detection Finding.
_CLASSES = {
    "planned": (1007, 99, 1),
    "started": (1007, 1, 1),
    "ended": (1007, 2, 1),
    "setup-failed": (1007, 99, 3),
    "waiver": (2004, 1, 3),
    "decision": (2004, 1, 2),
    "violation": (2004, 1, 4),
    "opened": (1007, 99, 1),
    "torn": (2004, 1, 4),
}
_NAMES = {1007: ("Process Activity", 1, "System Activity"), 2004: ("Detection Finding", 2, "Findings")}


class RecordQuery(Record):
    """What is asked for; what is empty, is not."""

    since: str = ""  # as records have their time
    until: str = ""
    events: tuple[str, ...] = ()
    agent: str = ""
    outcome: str = ""
    feature: str = ""
    run: str = ""

    def select(self, records: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The records that fulfil all of it."""
        return filter(self._fits, records)

    def _fits(self, record: dict[str, Any]) -> bool:
        time = str(record.get("time", ""))
        if (self.since and time < self.since) or (self.until and time >= self.until):
            return False
        if self.events and record.get("event") not in self.events:
            return False
        wanted = {"agent": self.agent, "outcome": self.outcome, "run": self.run}
        if any(value and record.get(name) != value for name, value in wanted.items()):
            return False
        return not self.feature or self.feature in {record.get("feature"), *record.get("features", ())}


def to_ocsf(record: dict[str, Any]) -> dict[str, Any]:
    """A record in the shape of the Open Cybersecurity Schema Framework."""
    kind, activity, severity = _CLASSES.get(str(record.get("event")), (1007, 99, 1))
    name, category, category_name = _NAMES[kind]
    event: dict[str, Any] = {
        "class_uid": kind,
        "class_name": name,
        "category_uid": category,
        "category_name": category_name,
        "activity_id": activity,
        "type_uid": kind * 100 + activity,
        "severity_id": severity,
        "time": _milliseconds(str(record.get("time", ""))),
        "metadata": {
            "version": "1.3.0",
            "product": {"name": "corral", "vendor_name": "corral"},
            "uid": str(record.get("hash", "")),
            "sequence": record.get("seq"),
            "correlation_uid": record.get("run", ""),
        },
        "actor": {"user": {"uid": str(record.get("uid", ""))}, "app_name": record.get("agent", "")},
        "message": _message(record),
        "unmapped": {key: value for key, value in record.items() if key not in {"v", "prev", "hash", "time"}},
    }
    if kind == 1007:
        event["process"] = {"name": record.get("program", "")}
        event["status_id"] = _status(record)
    else:
        title = f"{record.get('event')} of {record.get('feature', 'the log')}"
        event["finding_info"] = {"uid": str(record.get("hash", "")), "title": title}
    return event


def _status(record: dict[str, Any]) -> int:
    if record.get("event") == "setup-failed":
        return 2
    return 1 if record.get("exit_status", 0) == 0 else 2


def _message(record: dict[str, Any]) -> str:
    said = (
        str(record[key])
        for key in ("event", "program", "outcome", "feature", "subject", "code")
        if key in record
    )
    return " ".join(said)


def _milliseconds(text: str) -> int:
    from datetime import datetime

    try:
        return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)
    except ValueError:
        return 0
