"""A configuration file to start from: every key with its meaning, those that were chosen without the `#`."""

from __future__ import annotations

import json

from corral.config.keys import KEYS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from corral.config.keys import Key

_HEAD_PROJECT = """\
# What commands may do in this project. It can narrow what your own configuration allows, and not widen it,
# unless you accept it as it is: `corral policy trust`. `corral policy validate` checks it,
# `corral policy show --effective` says what comes of it.
"""
_HEAD_USER = """\
# What commands may do, wherever you run them. A project's file can narrow this and not widen it.
# `corral policy validate` checks it, `corral policy show --effective` says what comes of it.
"""
_TAIL = """
# Settings of one agent, on top of those above: `corral run --agent explore -- ...`
#[agent.explore.sandbox.mounts]
#workspace_writable = false
"""


def render_toml(chosen: Mapping[str, object], *, for_user: bool) -> str:
    """The text of a corral.toml; `chosen` is by the names of the keys."""
    tables: dict[str, list[Key]] = {"sandbox": []}
    for key in KEYS:
        tables.setdefault(key.table, []).append(key)
    parts = [_HEAD_USER if for_user else _HEAD_PROJECT]
    for name, keys in tables.items():
        parts.append("\n".join(_table(name, keys, chosen)) + "\n")
    return "\n".join(parts) + _TAIL


def _table(name: str, keys: list[Key], chosen: Mapping[str, object]) -> Iterator[str]:
    yield f"[{name}]"
    for key in keys:
        short = key.name.rpartition(".")[2]
        yield f"# {key.meaning}"
        if key.name in chosen:
            yield f"{short} = {_toml(chosen[key.name])}"
        else:
            yield f"#{short} = {_toml(key.example)}"


def _toml(value: object) -> str:
    """Booleans, numbers, texts, lists and flat tables are written in TOML as in JSON, but for the colon."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(inner)}" for name, inner in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)
