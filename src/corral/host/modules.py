"""What runs WebAssembly modules here: this Python, and the package wasmtime where it is installed."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

from corral.host.real import state_directory
from corral.model.probe import ModuleRunner

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON_VARIABLE = "CORRAL_PYTHON_WASM"
FIX = "install corral with its extra: pip install 'corral[wasm]'"


def find_module_runner() -> ModuleRunner:
    """Nothing is imported: that takes longer than most commands."""
    try:
        found = find_spec("wasmtime")
    except (ImportError, ValueError):
        found = None
    if found is None or not found.origin:
        return ModuleRunner(reason="the package wasmtime is not installed", fix=FIX)
    packages = os.path.dirname(os.path.dirname(os.path.realpath(found.origin)))
    program = os.path.join(_PACKAGE, "wasi", "child.py")
    argv = (sys.executable, "-I", "-S", program, os.path.dirname(_PACKAGE), packages)
    state = state_directory()
    return ModuleRunner(argv, os.path.join(state, "wasm") if state else "", find_python())


def find_python() -> str:
    """Where a Python for WASI is expected: what the variable says, or a place in the user's own data."""
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.abspath(os.environ.get(PYTHON_VARIABLE) or os.path.join(data, "corral", "python.wasm"))
