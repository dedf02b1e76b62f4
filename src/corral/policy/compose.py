"""Compose a policy: a preset, and capabilities on top of it."""

from __future__ import annotations

from corral.model.arguments import texts_of
from corral.model.capability import PolicyDraft, parse_capability
from corral.policy.preset import DEFAULT_PRESET, load_preset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from corral.model.policy import Policy


def build_policy(preset: str = DEFAULT_PRESET, capabilities: Iterable[str] = ()) -> Policy:
    """Return a preset with capabilities added. Raises PolicyError."""
    texts = texts_of("capabilities", capabilities, "corral.build_policy('strict', ['time:limit:10s'])")
    policy = load_preset(preset)
    if not texts:
        return policy
    draft = PolicyDraft(policy)
    for text in texts:
        draft.add(parse_capability(text))
    return draft.build()
