"""The JSON Schema of a configuration file, made from the table of keys, so that editors complete the file."""

from __future__ import annotations

from corral.config.keys import KEYS, TOP_TABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from corral.config.keys import Key

#: The file beside this module; `docs/generate.py` writes it, and a test compares.
FILE_NAME = "corral.schema.json"


def build_schema() -> dict[str, Any]:
    """The whole schema, as JSON values."""
    sandbox = {"$ref": "#/$defs/sandbox"}
    only_sandbox = _table({"sandbox": sandbox})
    beside = {name: _beside(name) for name in TOP_TABLES}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "corral configuration",
        "description": "corral.toml, corral.json, or the table [tool.corral] of pyproject.toml",
        **_table(
            {
                "$schema": {"type": "string"},
                "sandbox": sandbox,
                **beside,
                "security": only_sandbox,
                "agent": {
                    "type": "object",
                    "description": "overrides for one agent, chosen with --agent NAME",
                    "additionalProperties": _table({"sandbox": sandbox, **beside}),
                },
            }
        ),
        "$defs": {"sandbox": _sandbox()},
    }


def _beside(table: str) -> dict[str, Any]:
    """A table beside `sandbox`."""
    keys = [key for key in KEYS if key.table == table]
    return _table({key.name.rpartition(".")[2]: _property(key) for key in keys})


def _sandbox() -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for key in KEYS:
        if key.is_beside:
            continue
        group, _, name = key.name.rpartition(".")
        table = properties.setdefault(group, _table({}))["properties"] if group else properties
        for spelling in (name, *key.aliases):
            table[spelling] = _property(key)
    return _table(properties)


def _property(key: Key) -> dict[str, Any]:
    return {**key.kind.schema, "description": key.meaning, "examples": [key.example]}


def _table(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}
