"""Result: what happened, and what protected the host meanwhile."""

from __future__ import annotations

from enum import StrEnum

from corral.model.errors import CommandFailed
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Self

    from corral.model.event import Event
    from corral.model.feature import Feature
    from corral.model.network.traffic import Traffic
    from corral.model.policy import Policy
    from corral.model.violation import Violation


class Outcome(StrEnum):
    EXITED = "exited"  # by itself; see exit_code
    SIGNALLED = "signalled"
    TIMED_OUT = "timed-out"
    OUT_OF_MEMORY = "out-of-memory"
    OUTPUT_LIMIT = "output-limit"
    PIDS_LIMIT = "pids-limit"
    CPU_LIMIT = "cpu-limit"  # its processor time was used up
    DISK_LIMIT = "disk-limit"  # it failed, and its private areas were full
    BLOCKED = "blocked"  # ended by the sandbox, for what it did


class Enforcement(Record):
    """What protected this run."""

    backend: str
    enforced: Mapping[Feature, str]
    waived: frozenset[Feature]
    unheld: tuple[tuple[Feature, str], ...] = ()  # defaults that nobody could hold here, and how much
    fallback: str = ""  # why nothing could, where the command ran unconfined because `fallback` permits that


class GroupUsage(Record):
    """What the kernel has counted for a group so far. None: this kernel does not count it."""

    memory_bytes: int | None = None
    peak_memory_bytes: int | None = None
    pids: int | None = None
    peak_pids: int | None = None
    user_seconds: float | None = None
    system_seconds: float | None = None


class Usage(Record):
    """What the run used. None: nothing on this host counts it."""

    wall_seconds: float = 0.0
    user_seconds: float = 0.0
    system_seconds: float = 0.0
    peak_memory_bytes: int | None = None
    is_whole_tree: bool = False  # the memory is that of all processes together, not of the largest one
    peak_pids: int | None = None  # processes and threads at the same time
    processes: int | None = None  # processes and threads that were started in all
    read_bytes: int = 0  # from storage, and to it
    written_bytes: int = 0

    @property
    def cpu_seconds(self) -> float:
        """Processor time of the whole tree."""
        return self.user_seconds + self.system_seconds

    def to_json(self) -> dict[str, Any]:
        """All fields, in JSON's own types."""
        return {name: getattr(self, name) for name in self._fields}


class UsageSample(Record):
    """What a run has used so far."""

    wall_seconds: float
    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    pids: int | None = None

    def to_json(self) -> dict[str, Any]:
        """All fields, in JSON's own types."""
        return {name: getattr(self, name) for name in self._fields}


class Result(Record):
    outcome: Outcome
    exit_code: int | None  # only when the command ended by itself
    signal: int | None
    stdout_bytes: bytes
    stderr_bytes: bytes
    truncated: bool  # these lack something that was printed, or the output limit cut it off
    duration_seconds: float
    usage: Usage
    violations: tuple[Violation, ...]
    enforcement: Enforcement
    policy: Policy
    run_id: str
    stdout_size: int | None = None  # bytes that were printed; None: the command had the caller's own
    stderr_size: int | None = None
    network: Traffic | None = None  # what passed the gateway; None: there was none
    notes: tuple[str, ...] = ()  # what there is to say besides: what a session that was made anew has lost
    handoff: tuple[str, ...] = ()  # files of the workspace that it changed, and that the host runs later
    events: tuple[Event, ...] = ()  # all that corral decided or saw, in order; violations are among them

    @property
    def ok(self) -> bool:
        """The command exited with status 0."""
        return self.outcome is Outcome.EXITED and self.exit_code == 0

    @property
    def stdout(self) -> str:
        """Standard output as text; bytes that are not UTF-8 are replaced."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """Standard error as text; bytes that are not UTF-8 are replaced."""
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def exit_status(self) -> int:
        """The status that a shell would show: the command's own, 124 timed out, 128+n signals."""
        if self.outcome is Outcome.TIMED_OUT:
            return 124
        if self.exit_code is not None:
            return self.exit_code
        return 128 + (self.signal or 9)

    def check(self) -> Self:
        """Return the result itself, or raise CommandFailed if it is not `ok`."""
        if not self.ok:
            raise CommandFailed(self)
        return self

    def describe(self) -> str:
        """How it ended, in two or three words."""
        if self.outcome is Outcome.EXITED:
            return f"exit status {self.exit_code}"
        if self.outcome is Outcome.SIGNALLED:
            return f"signal {self.signal}"
        return str(self.outcome.value)

    def explain(self) -> str:
        """What happened, what was stopped and what would permit it: a text to hand to a model.

        Whatever the command chose is made harmless for a line; it is the command's word all the same.
        """
        from corral.model.printable import printable

        lines = [f"The command ended with {self.describe()}."]
        if self.events:
            lines.append("What corral refused, removed or observed:")
            lines += [f"- {event.evidence.value}: {event.describe()}" for event in self.events]
        if any(event.hint for event in self.events):
            lines.append(
                "Only the user can permit more. If the task needs it, say which of these and why; do not try"
                " to get around it."
            )
        if self.handoff:
            names = ", ".join(map(printable, self.handoff))
            lines.append(f"The host runs these files later, and this run changed them: {names}.")
        lines += [f"Note: {printable(note)}" for note in self.notes]
        return "\n".join(lines)

    def stderr_tail(self) -> str:
        """The last line of standard error that says something."""
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        return lines[-1][:300] if lines else ""

    def to_json(self) -> dict[str, Any]:
        """The whole record in JSON's own types. Output that is not UTF-8 has its bytes replaced."""
        return {
            "v": 1,
            "run_id": self.run_id,
            "outcome": self.outcome.value,
            "ok": self.ok,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "exit_status": self.exit_status,
            "stdout": self.stdout,
            "stderr": self.stderr,
            "truncated": self.truncated,
            "stdout_size": self.stdout_size,
            "stderr_size": self.stderr_size,
            "duration_seconds": round(self.duration_seconds, 6),
            "usage": self.usage.to_json(),
            "violations": [
                {
                    "feature": violation.feature.value,
                    "subject": violation.subject,
                    "evidence": violation.evidence.value,
                    "detail": violation.detail,
                    "hint": violation.hint,
                }
                for violation in self.violations
            ],
            "handoff": list(self.handoff),
            "events": [event.to_json() for event in self.events],
            **({"notes": list(self.notes)} if self.notes else {}),
            **({} if self.network is None else {"network": self.network.to_json()}),
            "enforcement": {
                "backend": self.enforcement.backend,
                "enforced": {
                    feature.value: how
                    for feature, how in sorted(
                        self.enforcement.enforced.items(), key=lambda item: item[0].value
                    )
                },
                "waived": sorted(feature.value for feature in self.enforcement.waived),
                "unheld": {feature.value: value for feature, value in self.enforcement.unheld},
                "fallback": self.enforcement.fallback or None,
            },
            "policy": {"name": self.policy.name, "hash": self.policy.digest()},
        }
