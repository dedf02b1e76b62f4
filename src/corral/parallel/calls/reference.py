"""Reference: a function by the names under which another process finds it, as multiprocessing does."""

from __future__ import annotations

import os
import sys

from corral.model.errors import PolicyError
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

_FIX = "define it with `def` at the top of a module, and give what it needs as arguments"


class Reference(Record):
    """Where a function is found. `file` has to be visible inside; empty for what Python brings along."""

    module: str
    name: str
    file: str = ""
    main_name: str = ""  # of `python -m NAME`
    main_path: str = ""  # of `python PATH`

    def to_plain(self) -> dict[str, str]:
        """In the codec's own types."""
        return {
            "module": self.module,
            "name": self.name,
            "main_name": self.main_name,
            "main_path": self.main_path,
        }


def take_apart(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A `functools.partial` is its function with arguments in front."""
    from functools import partial

    while type(function) is partial:
        args, kwargs = (*function.args, *args), {**function.keywords, **kwargs}
        function = function.func
    return function, args, kwargs


def refer(function: Callable[..., Any]) -> Reference:
    """The names of a function. Raises PolicyError if another process could not find it by them."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not callable(function) or not isinstance(name, str):
        raise _unnamed(repr(function)[:200], "it is not a function with a name")
    if isinstance(getattr(function, "__self__", None), type(sys)):
        module = function.__self__.__name__  # type: ignore[attr-defined]  # of C, such as math.sqrt
    if not isinstance(module, str):
        raise _unnamed(name, "it belongs to no module")
    if "<lambda>" in name:
        raise _unnamed(f"a lambda of {module}", "a lambda has no name by which a worker could find it")
    if "<locals>" in name:
        raise _unnamed(f"{module}.{name}", "it is defined inside another function")
    home = sys.modules.get(module)
    if home is None or _find(home, name) != function:
        raise _unnamed(
            f"{module}.{name}",
            "under this name the module has something else: it is a method of an object, or was decorated",
        )
    if module == "__main__":
        return _of_main(name, home)
    return Reference(module, name, _file_of(home))


def _find(home: ModuleType, name: str) -> object:
    found: object = home
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _of_main(name: str, main: ModuleType) -> Reference:
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name:
        return Reference("__main__", name, _file_of(main), main_name=spec.name)
    path = getattr(main, "__file__", None)
    if not isinstance(path, str) or not os.path.isfile(path):
        raise PolicyError(
            "function-unnamed",
            f"the function {name} cannot be sent to a worker",
            why="it was typed in, or read from stdin: there is no file that the worker could read",
            fix="put it into a module and import it from there",
        )
    real = os.path.realpath(path)
    return Reference("__main__", name, real, main_path=real)


def _file_of(module: ModuleType) -> str:
    path = getattr(module, "__file__", None)
    return os.path.realpath(path) if isinstance(path, str) and os.path.exists(path) else ""


def _unnamed(what: str, why: str) -> PolicyError:
    return PolicyError("function-unnamed", f"{what} cannot be sent to a worker", why=why, fix=_FIX)
