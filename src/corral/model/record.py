"""Record: an immutable value with named fields, cheap to define and to import.

It is a frozen, slotted dataclass in all that a caller can see (type checkers read it as one).
The standard library's own costs 17 ms to import and 0.8 ms for each class; `corral run -- true`,
interpreter included, has to cost less than fifty, and the model alone has some thirty classes.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, ClassVar, Self, dataclass_transform
else:

    def dataclass_transform(**_):
        return lambda cls: cls


class _RecordType(type):
    """Moves the defaults of annotated fields aside, so that the fields can be slots."""

    _names: frozenset[str]
    _setters: tuple[Callable[[Any, Any], None], ...]
    _getters: tuple[Callable[[Any], Any], ...]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> _RecordType:
        fields = tuple(
            field
            for field, annotation in namespace.get("__annotations__", {}).items()
            if not str(annotation).startswith("ClassVar")
        )
        defaults = {field: namespace.pop(field) for field in fields if field in namespace}
        cls = super().__new__(
            mcs, name, bases, {**namespace, "__slots__": fields, "_fields": fields, "_defaults": defaults}
        )
        # The slots' own setters go around `__setattr__`, which refuses.
        cls._setters = tuple(getattr(cls, field).__set__ for field in fields)
        cls._names = frozenset(fields)
        cls._getters = tuple(getattr(cls, field).__get__ for field in fields)
        return cls


@dataclass_transform(frozen_default=True, eq_default=True)
class Record(metaclass=_RecordType):
    """Base of every value in the model. Subclasses are final: a record of a record has no use."""

    _fields: ClassVar[tuple[str, ...]]
    _names: ClassVar[frozenset[str]]
    _defaults: ClassVar[Mapping[str, Any]]
    _setters: ClassVar[tuple[Callable[[Any, Any], None], ...]]
    _getters: ClassVar[tuple[Callable[[Any], Any], ...]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        cls = type(self)
        if kwargs or len(args) != len(cls._fields):
            args = _complete(cls, args, kwargs)
        for set_field, value in zip(cls._setters, args, strict=True):
            set_field(self, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def _values(self) -> tuple[Any, ...]:
        return tuple([read(self) for read in type(self)._getters])

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        assert isinstance(other, Record)
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        pairs = zip(type(self)._fields, self._values(), strict=True)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in pairs)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._values()

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        current = dict(zip(type(self)._fields, self._values(), strict=True))
        return type(self)(**{**current, **changes})


def _complete(cls: type[Record], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """All values in the order of the fields, the defaults filled in."""
    if len(args) > len(cls._fields):
        raise TypeError(f"{cls.__name__} takes {len(cls._fields)} values, not {len(args)}")
    given = dict(zip(cls._fields, args, strict=False))
    if not kwargs.keys() <= cls._names or not kwargs.keys().isdisjoint(given):
        wrong = next(field for field in kwargs if field not in cls._names or field in given)
        raise TypeError(f"{cls.__name__} got an unexpected or repeated field {wrong!r}")
    values = {**cls._defaults, **given, **kwargs}
    try:
        return tuple([values[field] for field in cls._fields])
    except KeyError as missing:
        raise TypeError(f"{cls.__name__} needs a value for {missing}") from None
