"""Configuration: the policy of a run with all that goes with it, and where each part of it was said."""

from __future__ import annotations

import os

from corral.backends.registry import UNCONFINED
from corral.config.keys import FALLBACKS, WORKSPACES
from corral.config.setting import Origin, Source, shorten
from corral.config.values import SAME
from corral.host.real import RealHost
from corral.model.container import DEFAULT_IMAGE, Container
from corral.model.record import Record
from corral.model.rules.capability import Capability, PolicyDraft, capabilities_of
from corral.model.rules.pattern import escape, literal
from corral.model.rules.quantities import parse_duration, parse_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.audit.recorder import Recorder
    from corral.config.narrow import SettingCut
    from corral.config.setting import Setting
    from corral.config.to_policy import Compiled
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
    pattern_files: tuple[str, ...] = ()  # that the caller has named

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
    def backends(self) -> tuple[str, ...]:
        """What `auto` chooses from, in this order; empty for its own order."""
        return self.compiled.layer("backends")

    @property
    def container(self) -> Container:
        """What container engines are told besides the policy."""
        workspace = str(self._value("container.workspace"))
        ports, volumes = (
            tuple(dict.fromkeys(str(setting.value) for setting in self.compiled.all(name)))
            for name in ("container.ports", "container.volumes")
        )
        return Container(
            self.image or DEFAULT_IMAGE,
            "" if workspace == SAME else workspace,
            ports,
            volumes,
            self.compiled.layer("container.entrypoint"),
            user=str(self._value("container.user")),
            name=str(self._value("container.name")),
            start_seconds=self._start_seconds(),
            pull=str(self._value("container.pull")),
            network=str(self._value("container.network")),
            root=str(self._value("container.root")),
            keep=bool(self._value("container.keep")),
        )

    def _start_seconds(self) -> float | None:
        said = self.compiled.last("container.start_timeout")
        return None if said is None else parse_duration(str(said.value))

    @property
    def fallback(self) -> str:
        """What to do if no backend can enforce the policy: `refuse`, or run `unconfined`."""
        return FALLBACKS[0] if self.fallback_withheld else str(self._value("fallback"))

    @property
    def fallback_withheld(self) -> str:
        """Why the user's own `fallback` does not count for this run; empty if it does, or was not said.

        TRUST: a command may have written a project's file. What such a file asks for must not be the reason
        why nothing can enforce it, and nothing confines the next command.
        """
        if self._value("fallback") == FALLBACKS[0]:
            return ""
        narrowing = [file for file in self.files if file.source is Source.PROJECT and not file.is_trusted]
        if narrowing:
            return f"{shorten(narrowing[0].path)} is an input of the policy, and is not trusted"
        asked = [setting for setting in self.compiled.confinement() if setting is not None]
        flag = next((each.origin.name for each in asked if each.origin.source is Source.FLAG), "")
        return f"{flag} asks for a sandbox" if flag else ""

    @property
    def is_tried(self) -> bool:
        """Whether commands work on a layer over the workspace."""
        return self._value("workspace") == WORKSPACES[1]

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
    def check_mode(self) -> str:
        """How strictly the text of commands is checked before they run."""
        return str(self._value("check.mode"))

    @property
    def check_rules(self) -> tuple[str, ...]:
        """Files with the user's own rules for that."""
        paths = (literal(str(setting.value)) for setting in self.compiled.all("check.rules"))
        return tuple(os.path.expanduser(path.replace("${workspace}", self.workspace, 1)) for path in paths)

    @property
    def is_audited(self) -> bool:
        """Whether runs are recorded."""
        return bool(self._value("audit.enabled"))

    @property
    def audit_key(self) -> str:
        """The file with the key of the log; empty for none."""
        return os.path.expanduser(literal(str(self._value("audit.key"))))

    def recorder(self) -> Recorder | None:
        """What records the runs of a sandbox; None: nothing does. Raises PolicyError."""
        if not self.is_audited:
            return None
        from corral.config.audit import make_recorder

        rotate = parse_size(str(self._value("audit.rotate")))
        return make_recorder(rotate, str(self._value("audit.on_failure")), self.audit_key, self.agent)

    @property
    def asks_unconfined(self) -> bool:
        """Whether an agent may ask its user to run a command without a sandbox.

        TRUST: only the user's own file says so, whatever a trusted project's file has.
        """
        said = self.compiled.all("ask_unconfined")
        return bool(said) and all(each.value and each.origin.source is Source.USER for each in said)

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

                make_cache_directory(literal(capability.target))
        # TRUST: a user file that was named may lie in the workspace; no command may change it.
        own = [*(file.path for file in self.files if file.source is Source.USER), *self.pattern_files]
        own += (*self.check_rules, *filter(None, [self.audit_key]))
        host = RealHost(own_files=own)
        return Sandbox(
            self.policy,
            backend=self.backend,
            backends=self.backends,
            workspace=self.workspace,
            waive=self.waived,
            container=self.container,
            fallback=self.fallback,
            host=host,
            audit=self.recorder() if for_run else None,
        )

    def _caches(self) -> Iterator[Capability]:
        """What kept caches stand for: a writable directory, and variables that lead there."""
        if not self.persists_caches or self.backend == UNCONFINED:
            return
        from corral.config.caches import cache_directory, cache_variables

        directory = cache_directory(self.workspace)
        yield Capability("filesystem", "write", escape(directory))
        said = {name for name, _ in self.compiled.policy.env.fixed}
        for name, value in cache_variables(directory):
            if name not in said:
                yield Capability("env", "set", f"{name}={value}")

    def _value(self, name: str) -> object:
        return self.compiled.value(name)
