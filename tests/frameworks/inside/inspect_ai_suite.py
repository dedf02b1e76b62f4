"""Inspect's own checks of sandbox providers, whole: with corral, and with its provider `local` beside it."""

from __future__ import annotations

from typing import Any

import pytest
from inspect_ai.util import ExecResult
from inspect_ai.util._sandbox.registry import registry_find_sandboxenv
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from inspect_ai.util import SandboxEnvironment


def _without_users(run: Any) -> Any:
    async def exec_without_users(cmd: list[str], *rest: Any, **options: Any) -> ExecResult[str]:
        if cmd[0] in {"adduser", "userdel"}:
            return ExecResult(True, 0, "", "")
        return await run(cmd, *rest, **options)

    return exec_without_users


@pytest.fixture(params=["corral", "local"])
async def sandbox_env(request: pytest.FixtureRequest) -> AsyncIterator[SandboxEnvironment]:
    provider = registry_find_sandboxenv(request.param)  # by its entry point
    environments = await provider.sample_init("checks", None, {})
    environment = environments["default"]
    if request.param == "local":  # as root it would change the users of the host
        environment.exec = _without_users(environment.exec)
    yield environment
    await provider.sample_cleanup("checks", None, environments, False)
