"""langchain-tests' suite for sandboxes, whole: with corral, and with deepagents' own local shell."""

from __future__ import annotations

import pytest
from deepagents.backends import LocalShellBackend
from langchain_tests.integration_tests import SandboxIntegrationTests

import corral
from corral.integrations.deepagents import CorralSandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class TestCorral(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CorralSandbox]:
        with CorralSandbox(corral.Sandbox(workspace=tmp_path_factory.mktemp("workspace"))) as backend:
            yield backend


class TestLocal(SandboxIntegrationTests):
    """The framework's own, without a sandbox: what fails here as well is not corral's doing."""

    _root = ""

    @pytest.fixture(scope="class")
    def sandbox(self, tmp_path_factory: pytest.TempPathFactory) -> LocalShellBackend:
        type(self)._root = str(tmp_path_factory.mktemp("local"))
        return LocalShellBackend(root_dir=self._root, virtual_mode=False, inherit_env=True)

    @property
    def sandbox_root_dir(self) -> str:
        return self._root
