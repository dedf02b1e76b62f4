"""Pydantic AI's own suite for workspace backends, whole: with corral, and with its local backend."""

from __future__ import annotations

import pytest
from pydantic_ai.workspaces import LocalWorkspaceBackend
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

import corral
from corral.integrations.pydantic_ai import CorralWorkspaceBackend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from pydantic_ai.workspaces import WorkspaceBackend, WorkspaceRef


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class TestCorral(WorkspaceBackendSuite):
    @pytest.fixture
    def made(self) -> Iterator[list[CorralWorkspaceBackend]]:
        backends: list[CorralWorkspaceBackend] = []
        yield backends
        for backend in backends:
            backend.session.close()

    @pytest.fixture
    def fresh_backend(
        self, made: list[CorralWorkspaceBackend], tmp_path: Path
    ) -> Callable[[], WorkspaceBackend]:
        def make() -> WorkspaceBackend:
            made.append(CorralWorkspaceBackend(corral.Sandbox(workspace=tmp_path)))
            return made[-1]

        return make

    @pytest.fixture
    def backend(self, fresh_backend: Callable[[], WorkspaceBackend]) -> WorkspaceBackend:
        return fresh_backend()

    @pytest.fixture
    def attach_backend(
        self, made: list[CorralWorkspaceBackend]
    ) -> Callable[[WorkspaceRef], WorkspaceBackend]:
        def attach(ref: WorkspaceRef) -> WorkspaceBackend:
            return next(
                CorralWorkspaceBackend(session=backend.session) for backend in made if backend.ref == ref
            )

        return attach

    @pytest.fixture
    def destroy_environment(self) -> Callable[[CorralWorkspaceBackend], Awaitable[None]]:
        return CorralWorkspaceBackend.close


class TestLocal(WorkspaceBackendSuite):
    """The framework's own, without a sandbox: what fails here as well is not corral's doing."""

    @pytest.fixture
    def backend(self, tmp_path: Path) -> WorkspaceBackend:
        return LocalWorkspaceBackend(tmp_path)
