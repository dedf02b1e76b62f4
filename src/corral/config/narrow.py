"""Narrow by a project's file: what it asks for beyond what the user allows is cut, and the cut is told.

TRUST: a sandboxed command may be able to write such a file. Whatever it says, the result is a meet with the
user's own policy, so it can forbid and never permit; what is no policy (backend, image, bypasses) goes
through one rule for each key below. An image cannot widen a sandbox, but to fetch one the engine uses the
user's network, disk and credentials, so it is not for a project to name; ports and volumes do widen, and
so do a writable root and a container that is kept.
"""

from __future__ import annotations

from corral.backends.registry import AUTO_NAME, CONFINING, UNCONFINED
from corral.config.keys import BY_NAME, WORKSPACES
from corral.config.setting import Setting
from corral.config.to_policy import Compiled, capabilities_of_setting, compile_settings, with_backends
from corral.model.policy import FsAccess
from corral.model.record import Record
from corral.model.rules.capability import is_narrowing
from corral.policy.preset import load_preset, preset_backend
from corral.shell_check.mode import MODES as CHECK_MODES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from corral.model.policy import Policy


class SettingCut(Record):
    """A setting of a project's file that was not followed, or not wholly."""

    setting: Setting
    kept: str  # what holds instead; empty for nothing of it
    why: str

    def to_json(self) -> dict[str, object]:
        """What was asked for, where, and what holds instead."""
        return {
            "key": self.setting.key.name,
            "value": self.setting.value,
            "kept": self.kept,
            "why": self.why,
            "origin": self.setting.origin.to_json(),
        }

    def render(self) -> str:
        """One line for a person."""
        asked = f"{self.setting.key.name} = {show(self.setting)}"
        kept = f"; {self.kept} holds" if self.kept else ""
        return f"{self.setting.origin}: {asked} is ignored{kept}: {self.why}"


class Narrowed(Record):
    compiled: Compiled
    cuts: tuple[SettingCut, ...]


_NOT_ALLOWED = "it would widen your own policy"
#: Kept by the runner, with and without a sandbox.
_RUNNERS = frozenset({"resources.time", "resources.output", "environment.pass"})
_NO_SANDBOX = "your own configuration runs this without a sandbox"


def narrow(base: Compiled, requested: Iterable[Setting], against: Compiled) -> Narrowed:
    """Narrow `base` by what a file requests; `against` is what the user allows, before any file's say."""
    wanted = list(_with_sandbox(with_backends(requested), base))
    missed = _cuts_of_lists(wanted, against)
    followed: list[Setting] = []
    cuts: list[SettingCut] = []
    for setting in wanted:
        # A policy is met with what the user allows; the rest is compared with what holds by now, so that
        # one file cannot undo what another one narrowed.
        rule = _RULES.get(setting.key.name)
        if rule is not None:
            kept, follow = rule(setting, against if rule is _profile else base)
        else:
            kept, follow = _policy(setting, against, missed)
        if kept is not None:
            cuts.append(SettingCut(setting, kept, _NOT_ALLOWED))
        if follow:
            followed.append(setting)
    candidate = compile_settings((*_without_own_hosts(against.settings, followed), *followed))
    policy = base.policy & _made_optional(candidate.policy, against.policy)
    settings = (*base.settings, *(setting for setting in followed if not _is_policy(setting)))
    origins = {**candidate.origins, **base.origins}
    narrowed = Compiled(policy.replace(name=_name(base, followed)), settings, origins)
    if not narrowed.is_confined:
        unheld = (setting for setting in followed if _is_policy(setting) and setting.key.name not in _RUNNERS)
        cuts += [SettingCut(setting, "", _NO_SANDBOX) for setting in unheld]
    return Narrowed(narrowed, tuple(cuts))


def _with_sandbox(requested: Iterable[Setting], base: Compiled) -> Iterator[Setting]:
    """A profile can only hold in a sandbox: a file that names one asks for that as well."""
    for setting in requested:
        yield setting
        if (
            setting.key.name == "profile"
            and preset_backend(setting.value) != UNCONFINED
            and not base.is_confined
        ):
            yield Setting(BY_NAME["enabled"], True, setting.origin)


def _without_own_hosts(own: Iterable[Setting], followed: list[Setting]) -> Iterable[Setting]:
    """Lists add up; but hosts that a file names are meant as all there are, and not as more of them."""
    names_hosts = any(setting.key.name == "allow_domains" for setting in followed)
    return [setting for setting in own if not (names_hosts and setting.key.name == "allow_domains")]


def _made_optional(policy: Policy, known: Policy) -> Policy:
    """The rules that the file brought in are passed over where the host has no such path."""
    own = {(rule.path, rule.access) for rule in known.fs}
    rules = []
    for rule in policy.fs:
        is_new = rule.access is not FsAccess.DENY and (rule.path, rule.access) not in own
        rules.append(rule.replace(optional=True) if is_new else rule)
    return policy.replace(fs=tuple(rules))


def _cuts_of_lists(wanted: list[Setting], against: Compiled) -> dict[str, str]:
    """Capabilities of lists that the user does not allow -> what is left of them; asked once for all."""
    asked = [
        capability
        for setting in wanted
        if setting.key.is_list and setting.key.name not in _RULES
        for capability in capabilities_of_setting(setting)
        if not is_narrowing(capability)
    ]
    cuts = against.policy.grant(asked).cuts if asked else ()
    return {str(cut.capability): ", ".join(map(str, cut.kept)) for cut in cuts}


def show(setting: Setting) -> str:
    """The value of a setting, as a file would have it."""
    value = setting.value
    if isinstance(value, bool):
        return "true" if value else "false"
    return "=".join(value) if isinstance(value, tuple) else str(value)


def _name(base: Compiled, followed: list[Setting]) -> str:
    """The name of the profile that the policy came from, or of both that met in it."""
    asked = [setting.value for setting in followed if setting.key.name == "profile"]
    return (
        f"{base.policy.name} & {asked[-1]}" if asked and asked[-1] != base.policy.name else base.policy.name
    )


def _is_policy(setting: Setting) -> bool:
    return setting.key.name not in _RULES or setting.key.name == "environment.set"


#: What a rule answers: what holds instead (None: nothing was cut), and whether to follow what is left.
Answer = tuple[str | None, bool]


def _policy(setting: Setting, against: Compiled, missed: dict[str, str]) -> Answer:
    """The meet decides; here it is only asked what it will cut."""
    wanted = capabilities_of_setting(setting)
    if any(capability.kind == "env" and capability.verb == "set" for capability in wanted):
        return "", False  # a variable can change what an unconfined program does
    if setting.key.is_list:
        cut = [missed[str(capability)] for capability in wanted if str(capability) in missed]
        return (", ".join(filter(None, cut)) if cut else None), True
    cuts = against.policy.grant(wanted).cuts
    if not cuts:
        return None, True
    kept = ", ".join(str(capability) for cut in cuts for capability in cut.kept)
    return kept or (f"network:{against.policy.net.mode.value}" if setting.key.name == "network" else ""), True


def _profile(setting: Setting, against: Compiled) -> Answer:
    cuts = against.policy.grant(load_preset(setting.value)).cuts
    if not cuts:
        return None, True
    return f"what both {against.policy.name} and {setting.value} allow", True


def _enabled(setting: Setting, against: Compiled) -> Answer:
    return (None, True) if setting.value or not against.is_confined else ("true", False)


def _backend(setting: Setting, against: Compiled) -> Answer:
    """Every backend but `none` enforces the whole policy; a project may choose where the user did not.

    Not where something is waived: then one backend may hold less of the rest than another.
    """
    if against.all("waive") and setting.value != against.backend:
        return against.backend, False
    is_free = against.backend in {AUTO_NAME, UNCONFINED}
    permitted = {AUTO_NAME, *(against.layer("backends") or CONFINING)}
    if setting.value == against.backend or (is_free and setting.value in permitted):
        return None, True
    return against.backend, False


def _order(setting: Setting, against: Compiled) -> Answer:
    """A project may choose among those that the user permits, and put them into another order.

    Not where something is waived, for the same reason as above.
    """
    permitted = against.layer("backends") or CONFINING
    if setting.value in permitted and not against.all("waive"):
        return None, True
    return ", ".join(permitted), False


def _default_only(setting: Setting, against: Compiled) -> Answer:
    """A project's file may ask for the narrower default (refuse, fetch nothing, change nothing) alone."""
    if setting.value == setting.key.default:
        return None, True
    kept = str(against.value(setting.key.name))
    return (None if setting.value == kept else kept), False


def _same_value(setting: Setting, against: Compiled) -> Answer:
    kept = str(against.value(setting.key.name))
    return (None, True) if setting.value == kept else (kept, False)


def _same_only(setting: Setting, against: Compiled) -> Answer:
    allowed = [known.value for known in against.all(setting.key.name)]
    return (None, True) if setting.value in allowed else (", ".join(map(str, allowed)), False)


def _false_only(setting: Setting, against: Compiled) -> Answer:
    allowed = bool(against.value(setting.key.name))
    return (None, True) if not setting.value or allowed else ("false", False)


def _trial_only(setting: Setting, against: Compiled) -> Answer:
    """A project's file may have commands tried, and cannot have them write where the user does not."""
    kept = str(against.value(setting.key.name))
    return (None, True) if setting.value == WORKSPACES[1] or kept == WORKSPACES[0] else (kept, False)


def _stricter(setting: Setting, against: Compiled) -> Answer:
    """A project's file may have commands checked more strictly, and not less."""
    kept = str(against.value(setting.key.name))
    return (None, True) if CHECK_MODES.index(setting.value) >= CHECK_MODES.index(kept) else (kept, False)


def _users_own(setting: Setting, against: Compiled) -> Answer:
    """What is recorded about a project's commands is not for the project to say."""
    kept = against.value(setting.key.name)
    return (None, False) if setting.value == kept else (str(kept).lower(), False)


def _never(_setting: Setting, _against: Compiled) -> Answer:
    return "", False


_RULES: dict[str, Callable[[Setting, Compiled], Answer]] = {
    "enabled": _enabled,
    "profile": _profile,
    "backend": _backend,
    "backends": _order,
    "fallback": _default_only,
    "image": _same_only,
    "container.workspace": _same_value,
    "container.ports": _same_only,
    "container.volumes": _same_only,
    "container.entrypoint": _never,  # part of one would be another
    "container.user": _same_value,
    "container.name": _same_value,  # it could be that of another container
    "container.start_timeout": _same_value,
    "container.pull": _default_only,
    "container.network": _same_value,  # a bridge has neighbours that the host's network has not
    "container.root": _default_only,
    "container.keep": _false_only,
    "waive": _same_only,
    "bypass_tools": _same_only,
    "ask_unconfined": _false_only,
    "mounts.persist_caches": _false_only,
    "keep_alive": _false_only,
    "workspace": _trial_only,
    "environment.set": _never,
    "check.mode": _stricter,
    "check.rules": _never,  # a rule can allow
    "audit.enabled": _users_own,
    "audit.on_failure": _users_own,
    "audit.rotate": _users_own,
    "audit.key": _users_own,
}
