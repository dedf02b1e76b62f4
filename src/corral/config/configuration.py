"""Configuration: the policy of a run with all that goes with it, and where each part of it was said."""

from __future__ import annotations

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
    said: tuple[Setting, ...] = ()  # by trusted files, for this agent and for all others

    @property
    def policy(self) -> Policy:
        """What commands may do, kept caches included."""
        draft = PolicyDraft(self.compiled.policy)
        for capability in self._caches():
            draft.add(capability, optional=True)  # the directory is made for the first run
        return draft.build()

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
        caches = {str(capability) for capability in self._caches()}
        for capability in capabilities_of(self.policy):
            default = self.origin_of("mounts.persist_caches") if str(capability) in caches else _DEFAULT
            yield capability, self.compiled.origins.get(str(capability), default)

    def sandbox(self, *, for_run: bool = True) -> Sandbox:
        """A sandbox for the workspace, as configured; the directory of the caches is made `for_run` only."""
        from corral.sandbox import Sandbox

        for capability in self._caches() if for_run else ():
            if capability.kind == "filesystem":
                from corral.config.caches import make_cache_directory

                make_cache_directory(capability.target)
        # TRUST: a user file that was named may lie in the workspace; no command may change it.
        own = [file.path for file in self.files if file.source is Source.USER]
        host = RealHost(own_files=own)
        return Sandbox(
            self.policy, backend=self.backend, workspace=self.workspace, waive=self.waived, host=host
        )

    def _caches(self) -> Iterator[Capability]:
        """What kept caches stand for: a writable directory, and variables that lead there."""
        if not self.persists_caches or self.backend == UNCONFINED:
            return
        from corral.config.caches import cache_directory, cache_variables

        directory = cache_directory(self.workspace)
        yield Capability("filesystem", "write", directory)
        said = {name for name, _ in self.compiled.policy.env.fixed}
        for name, value in cache_variables(directory):
            if name not in said:
                yield Capability("env", "set", f"{name}={value}")

    def _value(self, name: str) -> object:
        return self.compiled.value(name)
