"""`corral selftest`: run the escape battery on this host and print its receipt."""

from __future__ import annotations

import json
import sys

from corral.cli.demo import colour
from corral.cli.progress_line import ProgressLine
from corral.cli.run import report_error
from corral.model.errors import CorralError, PolicyError
from corral.selftest.battery import run_battery, select_probes
from corral.selftest.probe import ProbeOutcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from corral.selftest.probe import ProbeReport
    from corral.selftest.receipt import Receipt

_MARKS = {
    ProbeOutcome.HELD: "✔",
    ProbeOutcome.ESCAPED: "✘",
    ProbeOutcome.BROKEN: "✘",
    ProbeOutcome.NOT_APPLICABLE: "–",
    ProbeOutcome.NOT_CLAIMED: "–",
}


def attack(backend: str, only: Iterable[str], *, as_json: bool) -> int:
    """Run the battery; status 0 only if nothing escaped and nothing was broken."""
    try:
        with ProgressLine(f"{len(select_probes(only))} attacks are tried") as progress:

            def tell(report: ProbeReport) -> None:
                progress.say(f"attacks are tried; the last was {report.name}")
                if not as_json:
                    progress.clear()
                    _say(report)

            receipt = run_battery(backend, only, tell)
    except CorralError as error:
        return report_error(error, as_json=as_json)
    if as_json:
        sys.stdout.write(json.dumps(receipt.to_json(), indent=2) + "\n")
    else:
        sys.stdout.write(_summary(receipt))
    return 0 if receipt.ok else 1


def try_gate(name: str, *, as_json: bool) -> int:
    """Try modules; status 0 only if everything held."""
    from corral.selftest.module_gates import GATES, run_gate

    reports = []
    try:
        if name not in GATES:
            raise PolicyError(
                "unknown-gate",
                f"there is no gate {name!r}",
                why=f"there are {', '.join(GATES)}",
                fix="name one of them",
            )
        with ProgressLine(f"modules are tried: {name}") as progress:
            for report in run_gate(name):
                reports.append(report)
                if as_json:
                    continue
                progress.clear()
                detail = f" ({report.detail})" if report.detail else ""
                sys.stdout.write(colour(f"{'✔' if report.held else '✘'} {report.title}{detail}") + "\n")
                sys.stdout.flush()
    except CorralError as error:
        return report_error(error, as_json=as_json, about_command=False)
    if as_json:
        told = [{"title": each.title, "held": each.held, "detail": each.detail} for each in reports]
        sys.stdout.write(json.dumps({"v": 1, "gate": name, "checks": told}, indent=2) + "\n")
    return 0 if all(report.held for report in reports) else 1


def _say(report: ProbeReport) -> None:
    line = f"{_MARKS[report.outcome]} {report.feature.value:<15} {report.title}"
    sys.stdout.write(colour(line) + "\n")
    if report.outcome is not ProbeOutcome.HELD:
        sys.stdout.write(f"    {report.outcome.value}: {report.reason}\n")
    sys.stdout.flush()


def _summary(receipt: Receipt) -> str:
    counts = ", ".join(f"{count} {name}" for name, count in receipt.counts.items() if count)
    facts = receipt.host
    return (
        f"\n{counts}\n"
        f"receipt {receipt.digest[:16]}: {receipt.backend} on Linux {facts.kernel} ({facts.machine}), "
        f"landlock abi {facts.landlock_abi}, user {facts.uid}, corral {facts.corral_version}\n"
    )
