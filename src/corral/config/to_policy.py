"""Compile settings into a policy: a preset, then every setting in its order, each with its origin."""

from __future__ import annotations

from corral.backends.registry import AUTO_NAME, UNCONFINED
from corral.config.keys import BY_NAME
from corral.config.setting import Origin, Setting, Source
from corral.model.network.endpoint import has_port
from corral.model.policy import FsAccess, NetMode, Policy
from corral.model.record import Record
from corral.model.rules.capability import Capability, PolicyDraft, is_narrowing, parse_capability
from corral.policy.preset import DEFAULT_PRESET, preset_backend, preset_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_WORKSPACE = "${workspace}"
_MODES = frozenset(mode.value for mode in NetMode)


class Compiled(Record):
    """A policy, the settings that were left when it was made, and who said each capability last."""

    policy: Policy
    settings: tuple[Setting, ...]
    origins: Mapping[str, Origin]  # by the text of a capability

    def last(self, name: str) -> Setting | None:
        """The setting of a key that counts."""
        return next((setting for setting in reversed(self.settings) if setting.key.name == name), None)

    def confinement(self) -> tuple[Setting | None, Setting | None]:
        """The settings of `enabled` and `backend` that count.

        Whoever speaks later about one of them has the last word on both: a layer that asks for a backend, or
        for a sandbox, gets one, even if an earlier layer had switched it off.
        """
        enabled: Setting | None = None
        backend: Setting | None = None
        for setting in self.settings:
            if setting.key.name == "enabled":
                enabled = setting
                if setting.value and backend is not None and backend.value == UNCONFINED:
                    backend = backend if _same_layer(setting, backend) else None
            elif setting.key.name == "backend":
                backend = setting
                if setting.value != UNCONFINED and enabled is not None and not enabled.value:
                    enabled = enabled if _same_layer(setting, enabled) else None
        return enabled, backend

    @property
    def is_confined(self) -> bool:
        """Whether there is a sandbox at all."""
        enabled, _ = self.confinement()
        return (enabled is None or bool(enabled.value)) and self.backend != UNCONFINED

    @property
    def backend(self) -> str:
        """The backend that was chosen, whether or not there is a sandbox."""
        _, backend = self.confinement()
        return AUTO_NAME if backend is None else str(backend.value)

    def value(self, name: str) -> object:
        """The value of a key that is no policy."""
        setting = self.last(name)
        return BY_NAME[name].default if setting is None else setting.value

    def layer(self, name: str) -> tuple[str, ...]:
        """The values of a list that does not add up: the last layer that says something has said it all."""
        found = self.all(name)
        return tuple(dict.fromkeys(each.value for each in found if _same_layer(each, found[-1])))

    def all(self, name: str) -> tuple[Setting, ...]:
        """Every setting of a key whose values add up."""
        return tuple(setting for setting in self.settings if setting.key.name == name)


def compile_settings(settings: Sequence[Setting]) -> Compiled:
    """The policy that the settings make, the later ones on top of the earlier ones."""
    lasting, gone = _split_by_profile(settings)
    kept = tuple(with_backends(lasting))
    profile = next((setting for setting in reversed(kept) if setting.key.name == "profile"), None)
    name = profile.value if profile is not None else DEFAULT_PRESET
    origins: dict[str, Origin] = {}
    draft = PolicyDraft(Policy(name=name))
    for line in preset_lines(name):
        draft.add(line.capability, optional=True)
        origins[str(line.capability)] = Origin(Source.PRESET, line.file, line.number, 1)
    # What earlier layers took away stays: a limit as far as it is the tighter one, a path that may be read as
    # one that may only be read.
    at = kept.index(profile) if profile is not None else 0
    for setting in kept[:at]:
        if setting.key.name == "mounts.workspace_writable":
            draft.set_access(_WORKSPACE, FsAccess.READ)
        for capability in capabilities_of_setting(setting):
            if draft.tighten(capability):
                origins[str(capability)] = setting.origin
    for capability in (each for setting in gone for each in capabilities_of_setting(setting)):
        if (capability.kind, capability.verb) == ("filesystem", "read"):
            draft.hold_read_only(capability.target)
    return _apply(draft, kept[at:], origins, kept)


def add_settings(base: Compiled, settings: Sequence[Setting]) -> Compiled:
    """Settings on top of a policy that is there already; none of them names a profile."""
    kept = tuple(with_backends(settings))
    return _apply(PolicyDraft(base.policy), kept, dict(base.origins), (*base.settings, *kept))


def capabilities_of_setting(setting: Setting) -> tuple[Capability, ...]:
    """What a setting asks for, in the words of a policy; empty for what is no policy."""
    name, value = setting.key.name, setting.value
    if name == "capabilities":
        return (parse_capability(value),)
    if name == "environment.set":
        return (Capability("env", "set", "=".join(value)),)
    if name == "mounts.workspace_writable":
        return (Capability("filesystem", "write" if value else "read", _WORKSPACE),)
    if name == "allow_domains":
        return _endpoints(value)
    if setting.key.capability:
        return (parse_capability(f"{setting.key.capability}:{value}"),)
    return ()


def is_lasting(setting: Setting) -> bool:
    """Whether it outlives a later layer's profile: a limit, a denial, or what neither gives nor takes."""
    name, value = setting.key.name, setting.value
    if name == "capabilities":
        return is_narrowing(parse_capability(value))
    if name in {"profile", "enabled", "backend"}:
        return value is True or (name == "backend" and value != UNCONFINED)
    takes_away = value is False or (name == "network" and value == NetMode.NONE.value)
    return takes_away or not setting.key.grants


def _apply(
    draft: PolicyDraft,
    settings: Iterable[Setting],
    origins: dict[str, Origin],
    kept: tuple[Setting, ...],
) -> Compiled:
    named_hosts = False
    for setting in settings:
        wanted = capabilities_of_setting(setting)
        if any(capability.kind == "network" and capability.verb in _MODES for capability in wanted):
            named_hosts = False  # whatever was limited by name, this mode takes its place
        if setting.key.name == "network" and setting.value == "limited" and draft.names_hosts():
            wanted = ()  # it is limited already, to less
        elif setting.key.name == "mounts.workspace_writable":
            draft.set_access(_WORKSPACE, FsAccess.WRITE if setting.value else FsAccess.READ)
        elif setting.key.name == "allow_domains" and not named_hosts:
            # The first name takes the place of `limited` as a whole; the others are added to it.
            named_hosts = True
            wanted = (Capability("network", "none"), *wanted) if not draft.names_hosts() else wanted
        for capability in wanted:
            draft.add(capability)
            origins[str(capability)] = setting.origin
    return Compiled(draft.build(), kept, origins)


def _same_layer(first: Setting, second: Setting) -> bool:
    one, other = first.origin, second.origin
    in_file = one.source in {Source.USER, Source.PROJECT}
    return one.source is other.source and (not in_file or (one.name, one.agent) == (other.name, other.agent))


def _split_by_profile(settings: Sequence[Setting]) -> tuple[list[Setting], list[Setting]]:
    """A profile is a new beginning: what earlier layers granted is gone, what they forbade stays."""
    last = max((at for at, setting in enumerate(settings) if setting.key.name == "profile"), default=0)
    kept: list[Setting] = []
    gone: list[Setting] = []
    for at, setting in enumerate(settings):
        (kept if at >= last or is_lasting(setting) else gone).append(setting)
    return kept, gone


def with_backends(settings: Iterable[Setting]) -> Iterable[Setting]:
    """A preset that is made for one backend asks for it, in the place where the preset is named."""
    for setting in settings:
        yield setting
        backend = preset_backend(setting.value) if setting.key.name == "profile" else ""
        if backend:
            yield Setting(BY_NAME["backend"], backend, Origin(Source.PRESET, f"{setting.value}.caps"))


def _endpoints(domain: str) -> tuple[Capability, ...]:
    if has_port(domain):
        return (Capability("network", "tcp", domain),)
    return (Capability("network", "http", domain), Capability("network", "https", domain))
