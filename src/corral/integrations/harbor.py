"""Harbor: an environment whose commands and files are in a sandbox, for tasks that need no image.

    harbor run -p tasks -a AGENT --env corral.integrations.harbor:CorralHarborEnvironment

Commands have this host's programs. What a task asks for by a Dockerfile or an image is therefore refused,
unless the settings say `ignore_image`.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import Any

from corral.integrations.agent_session import SHELL, AgentSession, running, transferring
from corral.integrations.framework import missing_framework
from corral.model.policy import NetMode
from corral.policy.compose import build_policy
from corral.policy.preset import DEFAULT_PRESET

try:
    from harbor.environments.base import BaseEnvironment, ExecResult
    from harbor.environments.capabilities import EnvironmentCapabilities
    from harbor.environments.definition import has_agent_environment_definition
    from harbor.models.task.config import NetworkMode
    from harbor.models.trial.config import ResourceMode
    from harbor.models.trial.paths import EnvironmentPaths
except ImportError as problem:
    raise missing_framework("Harbor", "harbor", problem) from problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.policy import Policy

_PATHS = EnvironmentPaths()
#: Where Harbor and its tasks expect to write; the host's own, if there is one, does not show.
_PLACES = tuple(
    str(path)
    for path in (
        _PATHS.logs_dir,
        _PATHS.tests_dir,
        _PATHS.solution_dir,
        _PATHS.default_skills_dir.parent,
    )
)


class CorralHarborEnvironment(BaseEnvironment):
    """One sandbox with an empty workspace, from `start` to `stop`; then nothing of it is left."""

    def __init__(
        self,
        *arguments: Any,
        profile: str = DEFAULT_PRESET,
        capabilities: tuple[str, ...] | list[str] = (),
        backend: str = "auto",
        ignore_image: bool = False,
        **settings: Any,
    ) -> None:
        self._profile, self._added, self._backend = profile, tuple(capabilities), backend
        self._ignores_image = ignore_image
        self.session: AgentSession | None = None
        super().__init__(*arguments, **settings)

    @staticmethod
    def type() -> str:
        """What Harbor calls it."""
        return "corral"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        """What a task may ask for: no network, or hosts by name."""
        return EnvironmentCapabilities(
            disable_internet=True, network_allowlist=True, network_allowlist_hostnames=True
        )

    @property
    def _needs_image(self) -> bool:
        image = self.task_env_config.docker_image
        return bool(has_agent_environment_definition(self.environment_dir, docker_image=image))

    def _validate_definition(self) -> None:
        if self._needs_image and not self._ignores_image:
            raise ValueError(
                "the task needs a container image, and corral runs its commands with this host's programs;"
                " use Harbor's docker environment, or say ignore_image=true if the host has all it needs"
            )
        others = [path for path in self._mount_targets() if not path.startswith(f"{_PATHS.logs_dir}/")]
        if others:
            raise ValueError(f"corral mounts nothing at {others[0]}: grant the path by a capability")
        self._policy()

    def _policy(self) -> Policy:
        """What commands may do. Raises ValueError, CorralError."""
        added = [f"filesystem:private:{place}" for place in self._places()]
        memory = self._resource_limit_value("memory", auto_mode=ResourceMode.LIMIT)
        added += [f"memory:limit:{memory}m"] if memory else []
        processors = self._resource_limit_value("cpu", auto_mode=ResourceMode.LIMIT)
        added += [f"cpu:limit:{100 * processors}%"] if processors else []
        if self._network_is_allowlist:
            hosts = self.network_policy.allowed_hosts
            added += [f"network:{scheme}:{host}" for host in hosts for scheme in ("https", "http")]
        policy = build_policy(self._profile, (*self._added, *added))
        is_open = policy.net.mode is not NetMode.NONE or bool(policy.net.allow)
        if self.network_policy.network_mode is NetworkMode.NO_NETWORK and is_open:
            raise ValueError("the task is to have no network, and the capabilities permit one")
        return policy

    def _places(self) -> Iterator[str]:
        yield from _PLACES
        if self.task_env_config.workdir:
            yield self.task_env_config.workdir

    async def start(self, force_build: bool) -> None:
        """Make the sandbox. Raises CorralError, if this host cannot enforce the policy."""
        policy = self._policy()
        session = AgentSession.in_own_workspace(policy, backend=self._backend)
        self.session = session
        await transferring(session.open)
        await self.ensure_dirs(self._mount_targets(writable_only=True))
        has_files = self.environment_dir.is_dir() and any(self.environment_dir.iterdir())
        if has_files and not self._needs_image and self._enable_environment_dir_upload:
            await self.upload_dir(self.environment_dir, self._workdir())

    async def stop(self, delete: bool) -> None:
        """End the sandbox and everything in it. Nothing is kept, also without `delete`."""
        if self.session is not None:
            await transferring(self.session.close)

    def _opened(self) -> AgentSession:
        if self.session is None:
            raise RuntimeError("the environment was not started")
        return self.session

    def _workdir(self) -> str:
        return self.task_env_config.workdir or self._opened().workspace

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        """Run a shell line; standard error ends with what corral refused, if the command failed for that.

        Harbor's `root` is who may write everywhere in a container; here everybody may who runs Harbor.
        """
        if self._resolve_user(user) not in {None, "root", 0, os.geteuid()}:
            raise ValueError("corral runs commands as the user who runs Harbor: the task asks for another")
        session, merged = self._opened(), self._merge_env(env)
        line = f"cd {shlex.quote(cwd or self._workdir())} || exit\n{command}"
        done = await running(lambda: session.run((SHELL, "-c", line), env=merged, timeout=timeout_sec))
        if done.is_timed_out:
            raise RuntimeError(f"Command timed out after {timeout_sec} seconds")  # as Harbor's own say it
        return ExecResult(stdout=done.output_text, stderr=done.error_text, return_code=done.exit_code)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        """Copy a file into the sandbox, to this very path."""
        session = self._opened()

        def copy() -> None:
            session.make_directory(os.path.dirname(target_path) or ".")
            session.open().upload(source_path, target_path)

        await transferring(copy)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        """Copy what is in a directory into one of the sandbox."""
        session = self._opened()

        def copy() -> None:
            session.make_directory(target_dir)
            session.open().upload(source_dir, target_dir)

        await transferring(copy)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        """Copy a file out of the sandbox."""
        session = self._opened()
        os.makedirs(os.path.dirname(os.path.abspath(target_path)), exist_ok=True)
        await transferring(lambda: session.open().download(source_path, target_path))

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        """Copy a directory out of the sandbox, over what is there. Links are left out."""
        session = self._opened()

        def copy() -> None:
            with tempfile.TemporaryDirectory(prefix="corral-download-") as place:
                session.open().download(source_dir, f"{place}/tree")
                _merge(f"{place}/tree", os.fspath(target_dir))

        await transferring(copy)


def _merge(source: str, target: str) -> None:
    """Move the files of a tree to those of another, which no link leads out of."""
    # TRUST: an earlier download may have left links in the target, whose texts a command chose.
    for above, directories, files in os.walk(source):
        there = os.path.normpath(os.path.join(target, os.path.relpath(above, source)))
        os.makedirs(there, exist_ok=True)
        for name in [*directories, *files]:
            if os.path.islink(f"{there}/{name}"):
                os.unlink(f"{there}/{name}")
        for name in files:
            if not os.path.islink(f"{above}/{name}"):
                with contextlib.suppress(IsADirectoryError):
                    shutil.copy(f"{above}/{name}", f"{there}/{name}")
