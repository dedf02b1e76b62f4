"""WebAssembly modules that a program loads and calls, each with capabilities of its own."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.wasm.module_sandbox import ModuleRun, ModuleSandbox
    from corral.wasm.python import PythonRun, PythonSandbox, run_python

__all__ = ["ModuleRun", "ModuleSandbox", "PythonRun", "PythonSandbox", "run_python"]
_EXPORTS = {
    "ModuleRun": "corral.wasm.module_sandbox",
    "ModuleSandbox": "corral.wasm.module_sandbox",
    "PythonRun": "corral.wasm.python",
    "PythonSandbox": "corral.wasm.python",
    "run_python": "corral.wasm.python",
}


def __getattr__(name: str) -> object:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'corral.wasm' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_EXPORTS[name]), name)
