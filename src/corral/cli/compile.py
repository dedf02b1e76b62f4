"""`corral compile`: write a plan that corral-launch can use without Python, or show one."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys

from corral.cli.options import defaults
from corral.cli.request import build_request
from corral.cli.run import print_json, report_error
from corral.compiled_plans.compiler import compile_sandbox
from corral.config.find import working_directory
from corral.config.traced import note_configuration
from corral.host.real import control_directories
from corral.linux.compiled import MalformedPlan, SeenNothing, SeenSilence, SeenStamp, decode_plan
from corral.model.errors import CorralError, PolicyError
from corral.model.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from corral.compiled_plans.traced_host import Trace
    from corral.linux.compiled import CompiledPlan
    from corral.sandbox import Sandbox

_MOST_BYTES = 16 * 1024 * 1024
_PLACES = {"write": "may write", "read": "may read", "private": "private", "denied": "denied"}


def compile_request(options: Mapping[str, Any], output: str, *, counts: bool, as_json: bool) -> int:
    """Compile what the options say and write it; returns the exit status."""
    asked = {**defaults(), **options}
    _make_control_directories()

    def make(trace: Trace) -> Sandbox:
        if not asked["no_config"]:
            place = os.path.realpath(os.path.join(working_directory(), asked["cwd"] or ""))
            note_configuration(trace, place, asked["config"])
        for path in asked["deny_from"]:
            trace.note_content(os.path.abspath(path))
        sandbox = build_request(asked).sandbox
        if sandbox.recorder is not None:
            raise PolicyError(
                "audit-compile",
                "a plan cannot be compiled while runs are recorded",
                why="corral-launch runs it without Python, and leaves no record",
                fix="use `corral run`, or set audit.enabled = false for this",
            )
        return sandbox

    try:
        compiled = compile_sandbox(make, counts=counts)
        target = compiled.write(output)
    except CorralError as error:
        return report_error(error, as_json=as_json, about_command=False)
    command = shlex.join((compiled.launcher, "--plan", target, "--"))
    told = json.loads(compiled.plan.note)
    waived = told["waived"]
    if as_json:
        print_json({"v": 1, "file": target, "launcher": compiled.launcher, "plan": told})
        return 0
    sys.stdout.write(printable(f"{command} COMMAND") + "\n")
    if waived:
        sys.stderr.write(f"corral: not enforced, because it was waived: {', '.join(waived)}\n")
    if told["unheld"]:
        sys.stderr.write(
            f"corral: defaults that the launcher alone cannot hold: {', '.join(told['unheld'])}\n"
        )
    for note in told["notes"]:
        sys.stderr.write(f"corral: {printable(note)}\n")
    return 0


def _make_control_directories() -> None:
    """Every plan hides them. One that had seen none would be out of date with the first named session."""
    for path in control_directories():
        with contextlib.suppress(OSError):  # then the plan says that there is none
            os.makedirs(path, mode=0o700, exist_ok=True)


def show_plan(path: str, *, as_json: bool) -> int:
    """Print what a plan holds, in words; returns the exit status."""
    try:
        plan = _load(path)
    except CorralError as error:
        return report_error(error, as_json=as_json, about_command=False)
    if as_json:
        print_json({"v": 1, "file": os.path.abspath(path), "plan": json.loads(plan.note)})
        return 0
    sys.stdout.write("\n".join(map(printable, _render(plan))) + "\n")
    return 0


def _load(path: str) -> CompiledPlan:
    try:
        with open(path, "rb") as file:
            return decode_plan(file.read(_MOST_BYTES))
    except (OSError, MalformedPlan) as problem:
        raise PolicyError(
            "not-a-plan",
            f"{path} cannot be shown",
            why=getattr(problem, "strerror", None) or str(problem),
            fix="name a file that `corral compile` has written",
        ) from problem


def _render(plan: CompiledPlan) -> Iterator[str]:
    note = json.loads(plan.note)
    host = plan.host
    yield f"profile    {note['profile']}"
    yield f"workspace  {note['workspace']}"
    yield f"backend    {note['backend']}"
    yield f"for        user {host.uid}, group {host.gid}, Linux {host.kernel}, boot {host.boot}"
    for key, title in _PLACES.items():
        yield from _section(title, note[key])
    yield from _section("network", [note["network"]])
    if plan.output_bytes is not None:
        yield from _section("output", [f"{plan.output_bytes} bytes"])
    yield from _section("variables passed on", plan.environment.passed)
    yield from _section("variables set", [f"{name}={value}" for name, value in plan.environment.fixed])
    yield "enforced"
    yield from (f"  {feature:<16} {how}" for feature, how in sorted(note["enforced"].items()))
    yield from _section("WAIVED", note["waived"])
    yield from _section("NOT HELD, a default", note.get("unheld"))
    yield from _render_dependence(plan)


def _render_dependence(plan: CompiledPlan) -> Iterator[str]:
    """Which files make the plan out of date. Other paths are only looked at, and are many."""
    read = [seen.path for seen in plan.seen if isinstance(seen, SeenStamp)]
    absent = [seen.path for seen in plan.seen if isinstance(seen, SeenNothing) and seen.follows]
    silent = [seen.path for seen in plan.seen if isinstance(seen, SeenSilence)]
    yield from _section("out of date when one of these changes", read)
    yield from _section("or is created", absent)
    yield from _section("or configures corral", silent)
    yield f"or one of {len(plan.seen) - len(read) - len(absent) - len(silent)} paths changes"


def _section(title: str, entries: Any) -> Iterator[str]:
    if entries:
        yield title
        yield from (f"  {entry}" for entry in entries)
