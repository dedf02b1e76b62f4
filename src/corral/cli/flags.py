"""Flags as settings: the last layer of a configuration."""

from __future__ import annotations

from corral.backends.registry import get_backend
from corral.cli.options import OPTIONS
from corral.cli.request import FLAG_CAPABILITIES, flag_capabilities, waived_names
from corral.config.keys import BY_NAME, KEYS
from corral.config.setting import Origin, Setting, Source
from corral.model.rules.capability import parse_capability
from corral.policy.preset import check_preset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

_BY_CAPABILITY = {key.capability: key for key in KEYS if key.capability}
_SHOWN = {option.name: next((flag for flag in option.flags if flag[:2] == "--"), "") for option in OPTIONS}


def flag_settings(options: Mapping[str, Any]) -> tuple[Setting, ...]:
    """Everything that the flags say, in the order in which it counts. Raises PolicyError."""
    return tuple(_settings(options))


def _settings(options: Mapping[str, Any]) -> Iterator[Setting]:
    if options["profile"] is not None:
        check_preset(options["profile"])
        yield Setting(BY_NAME["profile"], options["profile"], _origin("profile"))
    if options["sandbox"] is not None:
        flag = "--sandbox" if options["sandbox"] else "--no-sandbox"
        yield Setting(BY_NAME["enabled"], options["sandbox"], Origin(Source.FLAG, flag))
    if options["backend"] is not None:
        if options["backend"] != "auto":
            get_backend(options["backend"])
        yield Setting(BY_NAME["backend"], options["backend"], _origin("backend"))
    if options["image"] is not None:
        yield Setting(BY_NAME["image"], options["image"], _origin("image"))
    for flag, text in flag_capabilities(options):
        yield _setting(flag, text)
    for name in waived_names(options):
        yield Setting(BY_NAME["waive"], name, _origin("waive"))


def _setting(flag: str, text: str) -> Setting:
    """A flag for a key of its own sets that key; any other capability is one of `capabilities`."""
    capability = parse_capability(text)
    origin = _origin(flag)
    if flag == "net":
        return Setting(BY_NAME["network"], capability.verb, origin)
    if flag == "on_refusal":
        return Setting(BY_NAME["on_refusal"], capability.verb, origin)
    if flag == "env" and capability.verb == "set":
        name, _, value = capability.target.partition("=")
        return Setting(BY_NAME["environment.set"], (name, value), origin)
    key = _BY_CAPABILITY.get(f"{capability.kind}:{capability.verb}")
    if flag in FLAG_CAPABILITIES and key is not None:
        return Setting(key, capability.target, origin)
    return Setting(BY_NAME["capabilities"], str(capability), origin)


def _origin(option: str) -> Origin:
    return Origin(Source.FLAG, _SHOWN[option])
