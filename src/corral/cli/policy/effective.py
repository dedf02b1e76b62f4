"""`corral policy show --effective`: what holds for a run here, each value with where it came from."""

from __future__ import annotations

from corral.config.find import find_foreign_files
from corral.config.setting import Source, shorten
from corral.model.errors import UnenforceableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from corral.config.configuration import Configuration, FileState
    from corral.config.setting import Origin
    from corral.model.rules.capability import Capability

#: More than this many lines of one preset file that say the same kind of thing are counted, not listed.
_FEW = 3
#: What most configurations do not speak of.
_CONTAINER = ("user", "name", "start_timeout", "pull", "network", "root", "keep")
_ONLY_IF_SAID = frozenset(
    {
        "fallback",
        "workspace",
        "check.mode",
        "audit.enabled",
        "container.workspace",
        *(f"container.{name}" for name in _CONTAINER),
    }
)


def render_effective(configuration: Configuration, *, verbose: bool) -> Iterator[str]:
    """Files, settings, policy and cuts, as lines for a person."""
    yield f"workspace  {shorten(configuration.workspace)}"
    if configuration.agent:
        yield f"agent      {configuration.agent}"
    yield "files"
    for file in configuration.files:
        yield f"  {shorten(file.path)}  ({_trust(file)})"
    for path in find_foreign_files(configuration.workspace):
        yield f"  {shorten(path)}  (does not count: it belongs to somebody else)"
    if not configuration.files:
        yield "  none"
    yield "settings"
    yield from _aligned([(name, value, str(origin)) for name, value, origin in _settings(configuration)])
    yield "policy"
    yield from _clauses(configuration, verbose=verbose)
    yield from _verdict(configuration)
    if configuration.cuts:
        yield "cut, because a project's file can only narrow"
        for cut in configuration.cuts:
            yield f"  {cut.render()}"


def _verdict(configuration: Configuration) -> Iterator[str]:
    """What a run would do here; no more backends are asked than it would ask."""
    try:
        found = configuration.sandbox(for_run=False).explain(("true",))
    except UnenforceableError as problem:
        yield "`corral run` would refuse:"
        yield from (f"  {reason}" for reason in problem.reasons)
        if configuration.fallback_withheld:
            yield f"  fallback does not count: {configuration.fallback_withheld}"
        return
    if found.refusal is None:
        yield f"`corral run` would take {found.probe.backend}"
        return
    yield f"`corral run` would NOT CONFINE the command (fallback, {configuration.origin_of('fallback')}):"
    yield from (f"  {reason}" for reason in found.refusal.reasons)


def effective_json(configuration: Configuration) -> dict[str, Any]:
    """The same, for programs."""
    return {
        "v": 1,
        "workspace": configuration.workspace,
        **summary_json(configuration),
        "settings": {
            name: {"value": value, "origin": origin.to_json()}
            for name, value, origin in _settings(configuration)
        },
        "policy": [
            {"capability": str(capability), "origin": origin.to_json()}
            for capability, origin in configuration.clauses()
        ],
        "policy_hash": configuration.policy.digest(),
    }


def summary_json(configuration: Configuration) -> dict[str, Any]:
    """Which files had a say, and what of them was cut."""
    return {
        "agent": configuration.agent or None,
        "files": [
            {"path": file.path, "source": file.source.value, "trusted": file.is_trusted}
            for file in configuration.files
        ],
        "cuts": [cut.to_json() for cut in configuration.cuts],
    }


def _trust(file: FileState) -> str:
    if file.source is Source.USER:
        return "your own"
    return "of the project, trusted" if file.is_trusted else "of the project: it can only narrow"


def _settings(configuration: Configuration) -> Iterator[tuple[str, object, Origin]]:
    """What is no policy: who enforces it, and how."""
    plain = {
        "enabled": configuration.enabled,
        "profile": configuration.policy.name,
        "backend": configuration.backend,
        "backends": ", ".join(configuration.backends),
        "fallback": configuration.fallback,
        "image": configuration.image,
        "container.workspace": configuration.compiled.value("container.workspace"),
        "container.ports": ", ".join(configuration.container.ports),
        "container.volumes": ", ".join(configuration.container.volumes),
        "container.entrypoint": " ".join(configuration.container.entrypoint),
        **{f"container.{name}": configuration.compiled.value(f"container.{name}") for name in _CONTAINER},
        "mounts.persist_caches": configuration.persists_caches,
        "keep_alive": configuration.keep_alive,
        "workspace": configuration.compiled.value("workspace"),
        "check.mode": configuration.check_mode,
        "ask_unconfined": configuration.asks_unconfined,
        "audit.enabled": configuration.is_audited,
    }
    for name, value in plain.items():
        if value != "" and (name not in _ONLY_IF_SAID or configuration.compiled.last(name) is not None):
            yield name, value, configuration.origin_of(name)
    for name in ("waive", "bypass_tools", "check.rules"):
        for setting in configuration.compiled.all(name):
            yield name, setting.value, setting.origin


def _clauses(configuration: Configuration, *, verbose: bool) -> Iterator[str]:
    groups: dict[tuple[str, str], list[tuple[Capability, Origin]]] = {}
    rows: list[tuple[str, object, str]] = []
    for capability, origin in configuration.clauses():
        of_preset = origin.source is Source.PRESET and not verbose
        head = (f"{capability.kind}:{capability.verb}", origin.name) if of_preset else (str(capability), "")
        groups.setdefault(head, []).append((capability, origin))
    for (title, file), members in groups.items():
        if len(members) > _FEW:
            rows.append((f"{title} ({len(members)} of them; -v lists them)", "", file))
        else:
            rows += [(str(capability), "", str(origin)) for capability, origin in members]
    yield from _aligned(rows)


def _aligned(rows: list[tuple[str, object, str]]) -> Iterator[str]:
    shown = [(f"{name} = {_plain(value)}" if value != "" else name, origin) for name, value, origin in rows]
    width = min(max((len(text) for text, _ in shown), default=0), 60)
    for text, origin in shown:
        yield f"  {text:<{width}}  {origin}".rstrip()


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
