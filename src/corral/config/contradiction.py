"""Contradictions in one layer of a configuration: hosts that are named, and a network with all or nothing.

Between layers there are none: the later one has the last word.
"""

from __future__ import annotations

from corral.config.to_policy import capabilities_of_setting, compile_settings
from corral.model.policy import NetMode
from corral.model.problem import Problem
from corral.policy.contradiction import PERMITS, first_lost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from corral.config.setting import Setting


def contradictions(settings: Sequence[Setting]) -> Iterator[Problem]:
    """What a section of a file, or the environment, says in vain."""
    named = [setting for setting in settings if setting.key.name == "allow_domains"]
    for setting in settings if named else ():
        if setting.key.name == "network" and setting.value != NetMode.LIMITED.value:
            what = f'network = "{setting.value}" and allow_domains contradict each other'
            permits = PERMITS[NetMode(setting.value)]
            yield _problem(
                setting,
                f"{what}: one permits {permits}, the other these hosts and no others",
                f"leave network out to permit these hosts alone, or allow_domains to permit {permits}",
            )
    listed = [each for each in settings if each.key.name == "capabilities" and "network:" in each.value]
    if not listed:
        return
    net = compile_settings(settings).policy.net
    for setting in listed:
        if first_lost(net, capabilities_of_setting(setting)) is not None:
            yield _problem(
                setting,
                f"capabilities: {setting.value} has no effect, because `{net.mode.value}` permits "
                f"{PERMITS[net.mode]}",
                "name the host in allow_domains to permit it alone, or leave it out",
            )


def _problem(setting: Setting, what: str, fix: str) -> Problem:
    origin = setting.origin
    return Problem(origin.name, origin.line, origin.column, what, fix)
