"""`corral explain`: what would be allowed, by which mechanism, and the exact launch."""

from __future__ import annotations

import json
import sys

from corral.backends.registry import ENGINES, UNCONFINED
from corral.cli.elsewhere import NOTE, as_elsewhere
from corral.cli.fidelity import summarize
from corral.cli.limits import list_limits
from corral.cli.request import build_command, build_request
from corral.cli.run import report_error
from corral.linux.bpf import disassemble
from corral.linux.decode import decode
from corral.linux.spec import MountFlag, MountKind
from corral.model.container import describe_container
from corral.model.errors import CorralError
from corral.model.feature import PROMISES, RUNNER_FEATURES, RUNNER_MECHANISM
from corral.model.plan import PathKind
from corral.model.policy import FsAccess
from corral.model.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from corral.model.feature import Feature
    from corral.model.fidelity import Fidelity
    from corral.model.plan import Plan
    from corral.pipeline.planner import Explanation


_LED = frozenset({MountKind.BIND, MountKind.SYMLINK, MountKind.LINK, MountKind.COPY})


def explain_request(options: Mapping[str, Any], words: Iterable[str]) -> int:
    """Print the explanation; returns the exit status."""
    try:
        command = build_command(options, words)
        request = build_request(options, command, for_run=False)
        command = request.command or ("true",)
        elsewhere = as_elsewhere(request.sandbox, sys.platform)
        sandbox = elsewhere or request.sandbox
        explanation, fidelity = sandbox.explain(command), sandbox.fidelity(command)
    except CorralError as error:
        return report_error(error, as_json=bool(options["json"]))
    if options["json"]:
        found = {**_as_json(explanation, fidelity), "elsewhere": elsewhere is not None}
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
    else:
        first = [f"note       {NOTE}"] if elsewhere is not None else []
        lines = render(explanation, fidelity, verbose=bool(options["verbose"]))
        sys.stdout.write("\n".join(map(printable, (*first, *lines))) + "\n")
    return 0


def render(explanation: Explanation, fidelity: Fidelity, *, verbose: bool) -> Iterator[str]:
    """The explanation as lines for a person: the verdict, and all the rest where it is asked for."""
    yield _verdict(explanation)
    yield from _details(explanation, fidelity) if verbose else _summary(explanation)


def _verdict(explanation: Explanation) -> str:
    plan, backend = explanation.plan, explanation.probe.backend
    if backend == UNCONFINED:
        return "it would run unconfined: the command can do whatever you can"
    waived = ",".join(sorted(feature.value for feature in plan.waived))
    but = f", without {waived}" if waived else ""
    return f"it would run with {backend}, which enforces all of {plan.policy.name}{but}"


def _summary(explanation: Explanation) -> Iterator[str]:
    plan = explanation.plan
    if explanation.refusal is not None:
        yield from (f"  because    {reason}" for reason in explanation.refusal.reasons)
    if explanation.probe.backend != UNCONFINED:
        yield f"  may write  {'  '.join(_paths(plan, FsAccess.WRITE)) or 'nothing'}"
        yield f"  network    {'  '.join([plan.resolved.net.mode.value, *sorted(plan.resolved.net.allow)])}"
        yield f"  limits     {'  '.join(list_limits(plan.resolved.limits)) or 'none'}"
    yield from (f"  note       {note}" for note in plan.notes)
    yield "-v shows every path, variable, mechanism and mount"


def _details(explanation: Explanation, fidelity: Fidelity) -> Iterator[str]:
    plan = explanation.plan
    yield f"command    {' '.join(plan.command.argv)}"
    yield f"workspace  {plan.resolved.workspace}"
    yield f"profile    {plan.policy.name}"
    yield f"backend    {explanation.probe.backend} ({explanation.probe.version})"
    if explanation.probe.backend in ENGINES:
        yield f"image      {plan.container.image}"
        said = "; ".join(describe_container(plan.container))
        yield from ([f"container  {said}"] if said else ())
    if explanation.refusal is not None:
        yield "fallback   no backend can enforce the policy, and your own configuration says `unconfined`:"
        yield from (f"  {reason}" for reason in explanation.refusal.reasons)
    if explanation.probe.backend == UNCONFINED:
        yield from _section("environment", (name for name, _ in plan.env))
        yield from _section("limits", list_limits(plan.resolved.limits))
        return
    yield from _section("may write", _paths(plan, FsAccess.WRITE))
    yield from _section("may read", _paths(plan, FsAccess.READ))
    yield from _section("private, removed afterwards", plan.resolved.private)
    yield from _section("denied", _denied(plan))
    yield from _section("denied, and nothing of that kind here now", plan.resolved.idle)
    yield from _section("hidden in homes, here now", _hidden(plan))
    yield from _section("protected, here now", (shield.target.path for shield in plan.shields))
    copies = explanation.launch.copies
    yield from _section("changed in a copy", (mount.copy.target.path for mount in copies))
    yield from _section("protected, not here yet", (watch.label for watch in plan.watches))
    patterns = (glob.text for search in plan.searches for glob in search.globs)
    yield from _section("patterns that nothing new may match", sorted(patterns))
    yield from _section("notes", plan.notes)
    yield from _section("network", [plan.resolved.net.mode.value, *sorted(plan.resolved.net.allow)])
    yield from _section("limits", list_limits(plan.resolved.limits))
    yield from _section("not limited here, by default it would be", _unheld(plan))
    yield from _section("environment", (name for name, _ in plan.env))
    yield "enforced"
    for feature, how in _mechanisms(explanation):
        yield f"  {feature.value:<16} {how:<58} {PROMISES[feature]}"
    yield "backends"
    yield from (f"  {line}" for line in summarize(fidelity))
    yield "launch"
    yield f"  {' '.join(explanation.launch.argv)}"
    if explanation.launch.profile is not None:
        yield from (f"  {line}" for line in explanation.launch.profile.content.decode().splitlines())
    yield from _launch(explanation, verbose=False)


def _section(title: str, entries: Iterable[str]) -> Iterator[str]:
    found = list(dict.fromkeys(entries))
    if not found:
        return
    yield title
    yield from _columns(found)


def _columns(entries: list[str]) -> Iterator[str]:
    """Short entries share lines; long ones have their own."""
    import textwrap

    text = "  ".join(entry.replace(" ", "\0") for entry in entries)
    for line in textwrap.wrap(text, 96, break_long_words=False, break_on_hyphens=False):
        yield "  " + line.replace("\0", " ")


def _paths(plan: Plan, access: FsAccess) -> Iterator[str]:
    for grant in plan.resolved.grants:
        if grant.access is access:
            target = grant.target
            renamed = target.requested != target.path
            yield f"{target.requested} -> {target.path}" if renamed else target.path


def _denied(plan: Plan) -> Iterator[str]:
    resolved = plan.resolved
    return (target.requested for target in resolved.denied if target.path not in resolved.hidden)


def _hidden(plan: Plan) -> Iterator[str]:
    resolved = plan.resolved
    there = (target for target in resolved.denied if target.kind is not PathKind.MISSING)
    return (target.requested for target in there if target.path in resolved.hidden)


def _unheld(plan: Plan) -> Iterator[str]:
    return (f"{feature.value} {value}" for feature, value in plan.unheld)


def _mechanisms(explanation: Explanation) -> Iterator[tuple[Feature, str]]:
    plan = explanation.plan
    for feature in sorted(plan.requires | plan.waived, key=lambda feature: feature.value):
        if feature in plan.waived:
            how = explanation.launch.enforced.get(feature)
            is_near = feature in dict(explanation.probe.approximates) and how is not None
            yield feature, f"WAIVED; approximated: {how}" if is_near else "WAIVED"
        elif feature in explanation.launch.enforced:
            yield feature, explanation.launch.enforced[feature]
        elif feature in RUNNER_FEATURES:
            yield feature, RUNNER_MECHANISM


def _launch(explanation: Explanation, *, verbose: bool) -> Iterator[str]:
    if explanation.launch.spec is None:
        return
    spec = decode(explanation.launch.spec)
    for mount in spec.mounts:
        flags = " ".join(
            str(flag.name).lower().replace("_", "-") for flag in MountFlag if flag in mount.flags
        )
        source = f" {mount.source} ->" if mount.kind in _LED else ""
        yield f"  mount {mount.kind.name.lower()}{source} {mount.target} {flags}".rstrip()
    if spec.landlock is not None:
        lock = spec.landlock
        handled = f"fs {lock.handled_fs:#x} net {lock.handled_net:#x} scoped {lock.scoped:#x}"
        yield f"  landlock {handled}, {len(lock.paths)} paths"
        for rule in lock.paths if verbose else ():
            yield f"    {rule.rights:#06x} {rule.path}"
    yield f"  seccomp {len(spec.seccomp) // 8} instructions{'' if verbose else ' (--json lists them)'}"
    if verbose:
        yield from (f"    {line}" for line in disassemble(spec.seccomp).splitlines())


def _as_json(explanation: Explanation, fidelity: Fidelity) -> dict[str, Any]:
    plan = explanation.plan
    return {
        "v": 1,
        "command": list(plan.command.argv),
        "workspace": plan.resolved.workspace,
        "cwd": plan.command.cwd,
        "profile": plan.policy.name,
        "policy_hash": plan.policy.digest(),
        "backend": explanation.probe.backend,
        "image": plan.container.image if explanation.probe.backend in ENGINES else None,
        "fallback": None if explanation.refusal is None else list(explanation.refusal.reasons),
        "read": list(_paths(plan, FsAccess.READ)),
        "write": list(_paths(plan, FsAccess.WRITE)),
        "private": list(plan.resolved.private),
        "denied": list(_denied(plan)),
        "denied_by_patterns": dict(plan.resolved.denied_by),
        "denied_idle": list(plan.resolved.idle),
        "hidden": list(_hidden(plan)),
        "patterns": sorted({glob.text for search in plan.searches for glob in search.globs}),
        "shielded": [shield.target.path for shield in plan.shields],
        "guarded": [f"{watch.directory}/{watch.name}" for watch in plan.watches],
        "notes": list(plan.notes),
        "network": plan.resolved.net.mode.value,
        "limits": list(list_limits(plan.resolved.limits)),
        "unheld": {feature.value: value for feature, value in plan.unheld},
        "environment": [name for name, _ in plan.env],
        "enforced": {
            feature.value: how for feature, how in _mechanisms(explanation) if feature not in plan.waived
        },
        "waived": sorted(feature.value for feature in plan.waived),
        "backends": {
            backend.backend: {
                "available": backend.available,
                "lacks": [finding.feature.value for finding in backend.lacking],
            }
            for backend in fidelity.backends
        },
        "launch": list(_launch(explanation, verbose=True)),
    }
