"""`corral doctor`: each backend works here, or the reason why not and how to fix that."""

from __future__ import annotations

import json
import sys
import textwrap

from corral import __version__
from corral.backends._holes import known_holes
from corral.backends._surroundings import find_container
from corral.backends.engine.messages import advise_storage
from corral.backends.registry import AUTO_NAME, BUILTIN, MODULES, UNCONFINED, get_backend, names_for
from corral.cli.matrix import LEGEND, hold_of, render_matrix
from corral.host.real import RealHost
from corral.model.container import DEFAULT_IMAGE
from corral.model.enforcer import TITLES
from corral.model.feature import Feature
from corral.model.printable import printable
from corral.model.probe import Probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from corral.model.backend import Host
    from corral.model.enforcer import Enforcer

#: What the default profile asks of a backend, in a workspace of any kind; of limits, a host may lack any.
_EVERYDAY = frozenset(Feature) - {
    *(Feature.FS_DENY, Feature.FS_TRIAL, Feature.PROC_IDENTITY, Feature.PROC_SINGLE),
    *(Feature.NET_PORTS, Feature.NET_DOMAINS, Feature.NET_EXCEPT),
    *(feature for feature in Feature if feature.value.startswith("limit.")),
}
_NESTED = (
    "This is already inside corral, and the sandbox around confines every command here: run them by "
    "themselves. What follows is what that sandbox leaves, and not what the host can do."
)
_MARKS = {True: "works", False: "does not work"}
_SYSTEMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
#: Every question to a program has a time limit of its own; this is for one that none of them holds.
_PROBE_SECONDS = 90.0
#: Those that confine no command: the one confines nothing, the other runs modules.
_NO_COMMANDS = frozenset({UNCONFINED, MODULES})
_PLAIN_WIDTH, _MOST_WIDTH = 80, 120


def examine(*, as_json: bool, verbose: bool = False, probe_seconds: float = _PROBE_SECONDS) -> int:
    """Print the verdict, or all findings. Status 0 if some backend confines here, 3 if none does."""
    host = RealHost()
    probes = [_ask(name, host, probe_seconds) for name in BUILTIN]
    usable = any(probe.available for probe in probes if probe.backend not in _NO_COMMANDS)
    facts = _facts(host)
    if as_json:
        found = {"v": 1, **facts, "usable": usable, "backends": [_as_json(probe) for probe in probes]}
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
    else:
        render = _render if verbose else _render_verdict
        lines = render(facts, probes, _width(), usable=usable)
        sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))
    return 0 if usable else 3


def _ask(name: str, host: Host, seconds: float) -> Probe:
    """What a backend says, or that it says nothing: a daemon that hangs must not hang this."""
    import threading

    answers: list[Probe] = []
    asking = threading.Thread(target=lambda: answers.append(get_backend(name).probe(host)), daemon=True)
    with _Progress(f"asking {name} ..."):
        asking.start()
        asking.join(seconds)
    if answers:
        return answers[0]
    if asking.is_alive():
        reason, fix = f"no answer within {seconds:g} seconds", "see whether its daemon or machine hangs"
    else:
        reason, fix = "its probe failed, which is a bug", "please report this; the error is above"
    return Probe(name, False, reason=reason, fix=fix)


class _Progress:
    """What is going on, on a terminal only, and gone afterwards."""

    def __init__(self, text: str) -> None:
        self._text = text if sys.stderr.isatty() else ""

    def __enter__(self) -> None:
        if self._text:
            sys.stderr.write(self._text)
            sys.stderr.flush()

    def __exit__(self, *_: object) -> None:
        if self._text:
            sys.stderr.write(f"\r{' ' * len(self._text)}\r")
            sys.stderr.flush()


def _width() -> int:
    import shutil

    if not sys.stdout.isatty():
        return _PLAIN_WIDTH
    return max(40, min(_MOST_WIDTH, shutil.get_terminal_size((_PLAIN_WIDTH, 24)).columns))


def _facts(host: RealHost) -> dict[str, Any]:
    import os

    launcher, reason = host.launcher()
    return {
        "corral": __version__,
        "platform": host.platform,
        "kernel": os.uname().release,
        "machine": host.machine,
        "user": host.uid,
        "landlock_abi": host.landlock_abi(),
        "limits": [_enforcer_json(enforcer) for enforcer in host.enforcers()],
        "launcher": launcher or f"missing: {reason}",
        "container": find_container(host) or None,
        "nested": bool(host.environment().get("CORRAL_SANDBOX")),
        "auto": list(names_for(AUTO_NAME, host.platform)),
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
        "features": {feature.value: hold_of(probe, feature).value for feature in Feature},
        "known_holes": [
            {
                "reference": hole.reference,
                "tool": hole.tool,
                "what": hole.what,
                "fixed": list(hole.fixed),
                "affects": hole.affects,
                "why": hole.why,
            }
            for hole in known_holes(probe)
        ],
        # Not all details: some backends note variables, and this is what people paste into reports.
        "program": probe.detail("program") or None,
        "runtime": probe.detail("runtime") or None,
    }


def _render_verdict(facts: dict[str, Any], probes: list[Probe], width: int, *, usable: bool) -> Iterator[str]:
    """What most people ask; where the answer is no, what to do about it too."""
    if facts["nested"]:
        yield from textwrap.wrap(_NESTED, width)
    verdict = _verdict(probes, usable=usable)
    yield from textwrap.wrap(verdict, width, break_on_hyphens=False)
    confining = [probe for probe in probes if probe.backend != UNCONFINED]
    if not usable and not facts["nested"]:
        for probe in confining:
            if probe.backend in facts["auto"]:
                yield from _render_probe(probe, width)
    for probe in confining:
        for hole in known_holes(probe):
            if hole.affects:
                yield from _wrapped(f"HOLE in {probe.backend}: ", hole.render(), width)
    yield "`corral doctor -v` shows every backend, and how to fix the rest."


def _render(facts: dict[str, Any], probes: list[Probe], width: int, *, usable: bool) -> Iterator[str]:
    if facts["nested"]:
        yield from textwrap.wrap(_NESTED, width)
    yield from textwrap.wrap(_verdict(probes, usable=usable), width, break_on_hyphens=False)
    system = _SYSTEMS.get(facts["platform"], facts["platform"])
    yield f"corral {facts['corral']} on {system} {facts['kernel']}, {facts['machine']}, user {facts['user']}"
    yield f"  launcher        {facts['launcher']}"
    if facts["container"]:
        yield f"  surroundings    a container ({facts['container']})"
    yield f"  landlock        ABI {facts['landlock_abi']}" + " (not available)" * (not facts["landlock_abi"])
    for number, line in enumerate(_render_enforcers(facts["limits"], advises=not facts["nested"])):
        yield f"  {'limits by' if number == 0 else '':<14}  {line}"
    yield ""
    shown = [probe for probe in probes if probe.available and probe.backend != UNCONFINED]
    if shown:
        yield from render_matrix(shown, width)
        yield from textwrap.wrap(LEGEND, width)
        yield ""
    for probe in probes:
        # Inside of another sandbox it is that which forbids it, and nothing that could be set on the host.
        yield from _render_probe(probe.replace(fix="") if facts["nested"] else probe, width)
    yield ""
    yield from _wrapped(
        "auto takes the first that enforces everything: ", ", ".join(facts["auto"]) or "none", width
    )


def _render_enforcers(enforcers: list[dict[str, Any]], *, advises: bool) -> Iterator[str]:
    for enforcer in enforcers:
        title = TITLES[enforcer["enforcer"]]
        if enforcer["holds"]:
            lacks = f" ({enforcer['reason']})" if enforcer["reason"] else ""
            yield f"{title}: {', '.join(enforcer['holds'])}{lacks}"
        else:
            yield f"no {title.split(',')[0]}: {enforcer['reason']}"
            if enforcer["fix"] and advises:
                yield f"  fix: {enforcer['fix']}"


def _verdict(probes: list[Probe], *, usable: bool) -> str:
    """What happens to a plain `corral run` here."""
    if not usable:
        return "No backend works here: corral refuses to run commands."
    confining = [probe for probe in probes if probe.available and probe.backend not in _NO_COMMANDS]
    whole = [probe.backend for probe in confining if probe.enforces >= _EVERYDAY]
    if whole:
        return f"Sandboxes work here: {', '.join(whole)} {'enforce' if len(whole) > 1 else 'enforces'} all."
    probe = min(confining, key=lambda probe: len(_EVERYDAY - probe.enforces))
    lacking = ",".join(sorted(feature.value for feature in _EVERYDAY - probe.enforces))
    return f"Sandboxes work here only with `--backend {probe.backend} --waive {lacking}`."


def _render_probe(probe: Probe, width: int) -> Iterator[str]:
    title = f"{probe.backend:<11} {_MARKS[probe.available]}"
    if probe.backend == UNCONFINED:
        yield f"{title} (confines nothing; only if you ask for it by name)"
        return
    version = (
        f"{probe.version}; runs modules, only when asked for" if probe.backend == MODULES else probe.version
    )
    yield f"{title} ({version})" if probe.version else title
    if not probe.available:
        yield from _wrapped("  because: ", probe.reason, width)
        yield from _wrapped("  fix: ", probe.fix, width)
    yield from _wrapped("  slow: ", advise_storage(probe.backend, probe.detail("storage")), width)
    if ("default image", "") in probe.details:
        note = f"it has no image {DEFAULT_IMAGE} yet: run `corral image build`, or name another one"
        yield from _wrapped("  note: ", note, width)
    for feature, how in probe.approximates:
        yield from _wrapped(f"  near: {feature.value}: ", how, width)
    for hole in known_holes(probe):
        label = "  HOLE: " if hole.affects else "  note: "
        yield from _wrapped(label, hole.render(), width)


def _wrapped(label: str, text: str, width: int) -> list[str]:
    if not text:
        return []
    indent = " " * min(len(label), 11)
    return textwrap.wrap(label + text, width, subsequent_indent=indent, break_on_hyphens=False)
