"""WebAssembly modules that a program loads and calls, each with capabilities of its own."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.wasm.module_sandbox import ModuleSandbox

__all__ = ["ModuleSandbox"]


def __getattr__(name: str) -> object:
    if name == "ModuleSandbox":
        from corral.wasm.module_sandbox import ModuleSandbox

        return ModuleSandbox
    raise AttributeError(f"module 'corral.wasm' has no attribute {name!r}")
