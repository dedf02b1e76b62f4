"""Presets: named policies in data files, one capability a line.

`extend NAME` builds on another one, `backend NAME` says who enforces it unless someone chooses otherwise.
"""

from __future__ import annotations

import os.path

from corral.model.arguments import wrong_argument
from corral.model.errors import PolicyError
from corral.model.policy import Policy
from corral.model.record import Record
from corral.model.rules.capability import Capability, PolicyDraft, parse_capability

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: The three profiles, looser from left to right, then those for a purpose. Files that only serve others
#: begin with an underscore.
PRESETS = (
    *("strict", "moderate", "permissive"),
    *("development", "testing", "production", "docker", "unrestricted", "webscraping", "aicode"),
)
DEFAULT_PRESET = "moderate"

_DIRECTORY = os.path.join(os.path.dirname(__file__), "presets")
_loaded: dict[str, Policy] = {}
_hidden: list[str] = []
_DENIAL = "filesystem:deny:"


def load_preset(name: str) -> Policy:
    """Return a preset by name. Raises PolicyError with the nearest name for an unknown one."""
    check_preset(name)
    if name not in _loaded:
        draft = PolicyDraft(Policy(name=name))
        for line in _lines(name):
            # A preset is written for many hosts: what this one does not have, it need not grant.
            draft.add(line.capability, optional=True)
        _loaded[name] = draft.build()
    return _loaded[name]


class PresetLine(Record):
    """One capability of a preset, and where it stands."""

    capability: Capability
    file: str
    number: int


def describe_preset(name: str) -> str:
    """The sentence at the top of the preset's file: when to use it."""
    first = _read(name)[0]
    return first.removeprefix("#").partition(":")[2].strip()


def preset_lines(name: str) -> Iterator[PresetLine]:
    """Every capability of a preset and of those it extends, in order. Raises PolicyError as `load_preset`."""
    check_preset(name)
    yield from _lines(name)


def hidden_in_homes() -> tuple[str, ...]:
    """What is denied in every home, whatever a policy says: `~/.ssh`, where `~` is each of them."""
    if not _hidden:  # as text: every start reads this, and a test holds each line to its capability
        _hidden.extend(line.removeprefix(_DENIAL) for line in _read("_homes") if line.startswith(_DENIAL))
    return tuple(_hidden)


def preset_backend(name: str) -> str:
    """The backend that a preset is made for; empty for most."""
    for line in _read(name):
        word, _, rest = line.strip().partition(" ")
        if word == "backend":
            return rest.strip()
    return ""


def check_preset(name: str) -> None:
    """Raise PolicyError, with the nearest name, if there is no such preset."""
    if not isinstance(name, str):
        raise wrong_argument("policy", name, "the name of a profile, or a corral.Policy", "policy='strict'")
    if name in PRESETS:
        return
    import difflib

    near = difflib.get_close_matches(name, PRESETS, n=1)
    raise PolicyError(
        "unknown-profile",
        f"there is no profile {name!r}",
        why=f"the profiles are {', '.join(PRESETS)}",
        fix=f"did you mean `{near[0]}`?" if near else "choose one of them",
    )


def _lines(name: str) -> Iterator[PresetLine]:
    for number, line in enumerate(_read(name), 1):
        text = line.strip()
        word, _, rest = text.partition(" ")
        if word == "extend":
            yield from _lines(rest.strip())
        elif text and not text.startswith("#") and word != "backend":
            yield PresetLine(parse_capability(text), f"{name}.caps", number)


def _read(name: str) -> list[str]:
    with open(os.path.join(_DIRECTORY, f"{name}.caps"), encoding="utf-8") as file:
        return file.read().splitlines()
