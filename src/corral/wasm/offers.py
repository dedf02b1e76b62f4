"""What a module is offered: functions of the embedding program, and functions of other modules."""

from __future__ import annotations

import contextvars

from corral.model.errors import CallError, PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from corral.wasm.module_sandbox import ModuleSandbox

#: The module name under which functions of the embedding program are imported.
HOST = "host"
#: A module that calls one that calls another: so deep and no deeper.
MOST_DEPTH = 16
_depth: contextvars.ContextVar[int] = contextvars.ContextVar("corral_module_depth", default=0)


def capability_for(module: str, name: str) -> str:
    """The capability that an import takes."""
    return f"module:call:{HOST}.{name}" if module == HOST else f"module:call:{module}"


class Offered:
    """What there is, held to the names that the module's policy grants."""

    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]],
        modules: Mapping[str, ModuleSandbox],
        granted: frozenset[str],
    ) -> None:
        for name, function in functions.items():
            if not callable(function):
                raise PolicyError(
                    "argument",
                    f"functions[{name!r}] cannot be called",
                    why=f"it is {type(function).__name__}",
                    fix="pass a function",
                )
        if HOST in modules:
            raise PolicyError(
                "argument",
                f"no module can be called {HOST!r}",
                why="functions are offered there",
                fix="rename it",
            )
        # INVARIANT: what is not granted is not here, so that nobody can link to it.
        self.functions = {name: each for name, each in functions.items() if f"{HOST}.{name}" in granted}
        self.modules = {name: each for name, each in modules.items() if name in granted}

    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of functions, and of modules all of whose functions can be called."""
        return tuple(self.functions), tuple(self.modules)

    def carry_out(self, module: str, name: str, arguments: list[Any], seconds: float | None) -> Any:
        """Call it. Whatever it raises is the caller's to turn into a trap."""
        if module == HOST:
            return self.functions[name](*arguments)
        depth = _depth.get()
        if depth >= MOST_DEPTH:
            raise CallError(
                "module-depth",
                f"{module}.{name} was not called",
                why=f"modules call each other {MOST_DEPTH} deep already",
                fix="let them call less deeply",
            )
        token = _depth.set(depth + 1)
        try:
            return self.modules[module].call_within(name, arguments, seconds)
        finally:
            _depth.reset(token)
