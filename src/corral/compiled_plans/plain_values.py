"""Values of the model as plain ones, which can be written to a file and read without running anything."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from importlib import import_module

from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})
_MODEL = "corral.model."
_TUPLE, _SET, _MAPPING = "tuple", "frozenset", "mapping"


def to_plain(value: Any) -> Any:
    """The value as tuples and lists. Raises TypeError for what is none of the model's."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return _MAPPING, [(to_plain(key), to_plain(each)) for key, each in value.items()]
    if kind in {tuple, frozenset}:
        return _TUPLE if kind is tuple else _SET, [to_plain(each) for each in value]
    name = f"{kind.__module__}:{kind.__name__}"
    if not name.startswith(_MODEL) or not isinstance(value, Record | Enum):
        raise TypeError(name)
    values = (value.value,) if isinstance(value, Enum) else value._values()
    return name, [to_plain(each) for each in values]


def from_plain(value: Any) -> Any:
    """The value again. Raises ValueError for the name of anything but a record or a choice of the model."""
    if type(value) in _PLAIN:
        return value
    name, values = value
    if name == _MAPPING:
        return {from_plain(key): from_plain(each) for key, each in values}
    parts = [from_plain(each) for each in values]
    if name in {_TUPLE, _SET}:
        return tuple(parts) if name == _TUPLE else frozenset(parts)
    module, _, kind = name.partition(":")
    found = getattr(import_module(module), kind) if module.startswith(_MODEL) else None
    if not isinstance(found, type) or not issubclass(found, Record | Enum):
        raise ValueError(name)
    return found(*parts)
