"""Compose a policy: a preset, and capabilities on top of it."""

from __future__ import annotations

from corral.model.arguments import texts_of
from corral.model.rules.capability import PolicyDraft, parse_capability
from corral.policy.preset import DEFAULT_PRESET, load_preset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from corral.model.policy import Policy


def build_policy(preset: str = DEFAULT_PRESET, capabilities: Iterable[str] = ()) -> Policy:
    """Return a preset with capabilities added. Raises PolicyError."""
    texts = texts_of("capabilities", capabilities, "corral.build_policy('strict', ['time:limit:10s'])")
    policy = compose(preset, texts)
    if any(text.startswith("network:") for text in texts):
        _check_hosts(policy, preset, texts)
    return policy


def compose(preset: str, capabilities: Iterable[str]) -> Policy:
    """The same, whether or not the capabilities contradict each other: a later one wins."""
    policy = load_preset(preset)
    draft = PolicyDraft(policy)
    texts = tuple(capabilities)
    for text in texts:
        draft.add(parse_capability(text))
    return draft.build() if texts else policy


def _check_hosts(policy: Policy, preset: str, texts: tuple[str, ...]) -> None:
    from corral.policy.contradiction import contradicts, first_lost

    lost = first_lost(policy.net, map(parse_capability, texts))
    if lost is None:
        return
    mode = policy.net.mode
    said = f"network:{mode.value}"
    if said not in texts:
        fix = f"put 'network:none' before '{lost}' to permit that host alone, or leave '{lost}' out"
        raise contradicts(mode, f"the profile {preset!r}", f"'{lost}'", fix)
    fix = f"leave '{said}' out to permit that host alone, or leave '{lost}' out"
    raise contradicts(mode, f"'{said}'", f"'{lost}'", fix)
