"""`corral doctor`: each backend works here, or the reason why not and what would mend it."""

from __future__ import annotations

import json
import sys

from corral import __version__
from corral.backends.registry import BUILTIN, UNCONFINED, get_backend
from corral.host import RealHost
from corral.model.enforcer import TITLES
from corral.model.feature import Feature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from corral.model.enforcer import Enforcer
    from corral.model.probe import Probe

#: What the default profile asks of a backend, in a workspace of any kind.
_EVERYDAY = frozenset(Feature) - {
    *(Feature.FS_DENY, Feature.NET_PORTS, Feature.NET_DOMAINS),
    *(feature for feature in Feature if feature.value.startswith("limit.")),
}
_MARKS = {True: "works", False: "does not work"}


def examine(*, as_json: bool) -> int:
    """Print the findings. Status 0 if some backend confines here, 3 if none does."""
    host = RealHost()
    probes = [get_backend(name).probe(host) for name in BUILTIN]
    usable = any(probe.available for probe in probes if probe.backend != UNCONFINED)
    facts = _facts(host)
    if as_json:
        found = {"v": 1, **facts, "usable": usable, "backends": [_as_json(probe) for probe in probes]}
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
    else:
        sys.stdout.write(_render(facts, probes, usable=usable))
    return 0 if usable else 3


def _facts(host: RealHost) -> dict[str, Any]:
    import os

    launcher, reason = host.launcher()
    return {
        "corral": __version__,
        "kernel": os.uname().release,
        "machine": host.machine,
        "user": host.uid,
        "landlock_abi": host.landlock_abi(),
        "limits": [_enforcer_json(enforcer) for enforcer in host.enforcers()],
        "launcher": launcher or f"missing: {reason}",
    }


def _enforcer_json(enforcer: Enforcer) -> dict[str, Any]:
    return {
        "enforcer": enforcer.name,
        "holds": sorted(feature.value for feature in enforcer.holds),
        "reason": enforcer.reason,
        "fix": enforcer.fix,
    }


def _as_json(probe: Probe) -> dict[str, Any]:
    return {
        "backend": probe.backend,
        "available": probe.available,
        "version": probe.version,
        "reason": probe.reason,
        "fix": probe.fix,
        "enforces": sorted(feature.value for feature in probe.enforces),
        "approximates": {feature.value: how for feature, how in probe.approximates},
    }


def _render(facts: dict[str, Any], probes: list[Probe], *, usable: bool) -> str:
    limits = list(_render_enforcers(facts["limits"]))
    lines = [
        f"corral {facts['corral']} on Linux {facts['kernel']}, {facts['machine']}, user {facts['user']}",
        f"  launcher        {facts['launcher']}",
        f"  landlock        ABI {facts['landlock_abi']}" + (" (not available)" * (not facts["landlock_abi"])),
        *(f"  {'limits by' if number == 0 else '':<14}  {line}" for number, line in enumerate(limits)),
        "",
    ]
    for probe in probes:
        lines += _render_probe(probe)
    return "\n".join([*lines, "", _verdict(probes, usable=usable), ""])


def _render_enforcers(enforcers: list[dict[str, Any]]) -> Iterator[str]:
    for enforcer in enforcers:
        title = TITLES[enforcer["enforcer"]]
        if enforcer["holds"]:
            lacks = f" ({enforcer['reason']})" if enforcer["reason"] else ""
            yield f"{title}: {', '.join(enforcer['holds'])}{lacks}"
        else:
            yield f"no {title.split(',')[0]}: {enforcer['reason']}"
            if enforcer["fix"]:
                yield f"  fix: {enforcer['fix']}"


def _verdict(probes: list[Probe], *, usable: bool) -> str:
    """What happens to a plain `corral run` here."""
    if not usable:
        return "Nothing can confine commands here."
    confining = [probe for probe in probes if probe.available and probe.backend != UNCONFINED]
    needed = _EVERYDAY
    if any(needed <= probe.enforces for probe in confining):
        return "Commands can be confined here."
    probe = min(confining, key=lambda probe: len(needed - probe.enforces))
    lacking = ",".join(sorted(feature.value for feature in needed - probe.enforces))
    return f"Commands can be confined here only with `--backend {probe.backend} --waive {lacking}`."


def _render_probe(probe: Probe) -> list[str]:
    title = f"{probe.backend:<10} {_MARKS[probe.available]}"
    if not probe.available:
        return [title, f"  because: {probe.reason}", *([f"  fix: {probe.fix}"] if probe.fix else [])]
    if probe.backend == UNCONFINED:
        return [f"{title} (confines nothing; only when asked for by name)"]
    nearly = sorted(feature.value for feature, _ in probe.approximates)
    missing = sorted(feature.value for feature in Feature if feature not in probe.enforces)
    return [
        f"{title} ({probe.version})",
        *_wrapped("  approximated: ", nearly),
        *_wrapped("  not enforced: ", [name for name in missing if name not in nearly]),
    ]


def _wrapped(label: str, names: list[str]) -> list[str]:
    import textwrap

    if not names:
        return []
    return textwrap.wrap(label + ", ".join(names), 90, subsequent_indent=" " * len(label))
