"""Presets: named policies in data files, one capability a line, `extend NAME` to build on another."""

from __future__ import annotations

import os.path

from corral.model.capability import PolicyDraft, parse_capability
from corral.model.errors import PolicyError
from corral.model.policy import Policy

#: Looser from left to right. Files that only serve others begin with an underscore.
PRESETS = ("strict", "moderate", "permissive")
DEFAULT_PRESET = "moderate"

_DIRECTORY = os.path.join(os.path.dirname(__file__), "presets")
_loaded: dict[str, Policy] = {}


def load_preset(name: str) -> Policy:
    """Return a preset by name. Raises PolicyError with the nearest name for an unknown one."""
    if name not in PRESETS:
        import difflib

        near = difflib.get_close_matches(name, PRESETS, n=1)
        raise PolicyError(
            "unknown-profile",
            f"there is no profile {name!r}",
            why=f"the profiles are {', '.join(PRESETS)}",
            fix=f"did you mean `-p {near[0]}`?" if near else "choose one of them with -p",
        )
    if name not in _loaded:
        _loaded[name] = _build(Policy(name=name), name)
    return _loaded[name]


def describe_preset(name: str) -> str:
    """The sentence at the top of the preset's file: when to use it."""
    first = _read(name)[0]
    return first.removeprefix("#").partition(":")[2].strip()


def _build(policy: Policy, name: str) -> Policy:
    draft = PolicyDraft(policy)
    _take_lines(draft, name)
    return draft.build()


def _take_lines(draft: PolicyDraft, name: str) -> None:
    for line in _read(name):
        text = line.strip()
        if text.startswith("extend "):
            _take_lines(draft, text.removeprefix("extend ").strip())
        elif text and not text.startswith("#"):
            # A preset is written for many hosts: what this one does not have, it need not grant.
            draft.add(parse_capability(text), optional=True)


def _read(name: str) -> list[str]:
    with open(os.path.join(_DIRECTORY, f"{name}.caps"), encoding="utf-8") as file:
        return file.read().splitlines()
