"""Describe a module without linking it: its imports and exports, read in a worker process."""

from __future__ import annotations

import contextlib

from corral.model.policy import Policy
from corral.wasm.manifest import load_module
from corral.wasm.module_sandbox import ModuleSandbox
from corral.wasm.offers import Offered
from corral.wasm.place import WorkerPlace

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any


class _Anything(Offered):
    """Offers whatever is imported: nothing of the module runs, so nothing of it is called."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        super().__init__({}, {}, frozenset())
        self._modules = modules

    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return (), self._modules


def describe_module(module: bytes | str | os.PathLike[str], workspace: str | None = None) -> dict[str, Any]:
    """Imports and exports with their types. Raises PolicyError for what is not a module."""
    loaded = load_module(module)
    sandbox = ModuleSandbox(loaded.binary, policy=Policy(), request=(), name=loaded.name, workspace=workspace)
    with contextlib.closing(sandbox):
        launch, task = sandbox.launch_and_task()
        place = WorkerPlace(
            launch, task, loaded.binary, name=loaded.name, offered=_Anything(("*",)), hear=lambda _: None
        )
        try:
            return place.description
        finally:
            place.close()
