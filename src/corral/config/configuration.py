"""Configuration: the policy of a run with all that goes with it, and where each part of it was said."""

from __future__ import annotations

import os

from corral.backends.registry import UNCONFINED
from corral.config.setting import Origin, Source
from corral.host import RealHost
from corral.model.capability import Capability, PolicyDraft, capabilities_of
from corral.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.config.compile import Compiled
    from corral.config.narrow import SettingCut
    from corral.config.setting import Setting
    from corral.model.policy import Policy
    from corral.sandbox import Sandbox

_DEFAULT = Origin(Source.DEFAULT)


class FileState(Record):
    """A file that was read, and whether it could allow or only forbid."""

    path: str
    source: Source
    is_trusted: bool


class Configuration(Record):
    """What `load_configuration` found. `sandbox()` makes it work."""

    files: tuple[FileState, ...]
    agent: str
    compiled: Compiled
    cuts: tuple[SettingCut, ...]  # what a project's file asked for in vain
    workspace: str

    @property
    def policy(self) -> Policy:
        """What commands may do; kept caches are added by `sandbox()`, which makes their directory."""
        return self.compiled.policy

    @property
    def enabled(self) -> bool:
        """Whether commands are confined at all."""
        return self.compiled.is_confined

    @property
    def backend(self) -> str:
        """Who enforces the policy: a name, or `auto`."""
        return self.compiled.backend if self.enabled else UNCONFINED

    @property
    def image(self) -> str:
        """The container image, for the backends that use one; empty for their own."""
        return str(self._value("image"))

    @property
    def keep_alive(self) -> bool:
        """Whether a session keeps its sandbox between commands."""
        return bool(self._value("keep_alive"))

    @property
    def persists_caches(self) -> bool:
        """Whether package caches outlive a run."""
        return bool(self._value("mounts.persist_caches"))

    @property
    def bypass_tools(self) -> tuple[Setting, ...]:
        """Programs that run unconfined, each with the place where that was said."""
        return self.compiled.all("bypass_tools")

    @property
    def waived(self) -> tuple[str, ...]:
        """Features that are given up."""
        return tuple(dict.fromkeys(str(setting.value) for setting in self.compiled.all("waive")))

    def origin_of(self, name: str) -> Origin:
        """Where the value of a key comes from."""
        setting = self.compiled.last(name)
        if name in {"enabled", "backend"}:
            enabled, backend = self.compiled.confinement()
            setting = enabled if name == "enabled" else backend
        return _DEFAULT if setting is None else setting.origin

    def clauses(self) -> Iterator[tuple[Capability, Origin]]:
        """Every capability of the policy, and where it was said."""
        for capability in capabilities_of(self.policy):
            yield capability, self.compiled.origins.get(str(capability), _DEFAULT)

    def sandbox(self) -> Sandbox:
        """A sandbox for the workspace, as configured."""
        from corral.sandbox import Sandbox

        policy = self.policy
        if self.persists_caches and self.backend != UNCONFINED:
            policy = _with_caches(policy, self.workspace)
        # TRUST: a user file that was named may lie in the workspace; no command may change it.
        own = [file.path for file in self.files if file.source is Source.USER]
        host = RealHost(own_files=own)
        return Sandbox(policy, backend=self.backend, workspace=self.workspace, waive=self.waived, host=host)

    def _value(self, name: str) -> object:
        return self.compiled.value(name)


def _with_caches(policy: Policy, workspace: str) -> Policy:
    from corral.config.caches import cache_directory, cache_variables

    directory = cache_directory(workspace)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    draft = PolicyDraft(policy)
    draft.add(Capability("filesystem", "write", directory))
    said = {name for name, _ in policy.env.fixed}
    for name, value in cache_variables(directory):
        if name not in said:
            draft.add(Capability("env", "set", f"{name}={value}"))
    return draft.build()
