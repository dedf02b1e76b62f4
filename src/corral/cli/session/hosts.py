"""Hosts of `--allow`: what is easily written and not meant, and what another option makes void."""

from __future__ import annotations

import shlex

from corral.model.errors import PolicyError
from corral.model.network.breadth import why_too_broad
from corral.model.network.endpoint import has_port, host_in_url
from corral.model.rules.capability import parse_capability
from corral.policy.contradiction import PERMITS, contradicts, first_lost
from corral.policy.preset import DEFAULT_PRESET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from corral.config.setting import Origin
    from corral.model.policy import Policy


def capabilities_for(host: str) -> Iterator[str]:
    """A name stands for http and https; with a port it stands for that port alone. Raises PolicyError."""
    _check_host(host)
    schemes = ("tcp",) if has_port(host) else ("http", "https")
    yield from (f"network:{scheme}:{host}" for scheme in schemes)


def _check_host(host: str) -> None:
    """What is easily written and not meant. Whoever means it writes the capability."""
    within = host_in_url(host)
    if within:
        raise PolicyError(
            "allow-host",
            f"--allow takes a host name, not a URL: {host!r}",
            why="corral permits a host, by http and https, with all of its paths",
            fix=f"write --allow {within}",
        )
    why = why_too_broad(host.rpartition(":")[0] if has_port(host) else host)
    if why:
        scheme = "tcp" if has_port(host) else "https"
        meant = "--net limited" if host == "*" else f"--cap {shlex.quote(f'network:{scheme}:{host}')}"
        raise PolicyError(
            "allow-host",
            f"--allow {host!r} is too broad",
            why=why,
            fix=f"name the hosts; if you mean it, write {meant}",
        )


def check_hosts(options: Mapping[str, Any], policy: Policy, origins: Mapping[str, Origin]) -> None:
    """Raise PolicyError if a flag names a host for nothing, in the policy that the flags have led to.

    `origins`: where each capability was said, if there is a configuration.
    """
    for flag, value in _named(options):
        texts = capabilities_for(value) if flag == "--allow" else (value,)
        if first_lost(policy.net, map(parse_capability, texts)) is not None:
            raise _void(options, policy, origins, flag, value)


def _named(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from (("--allow", host) for host in options["allow"])
    yield from (("--cap", text) for text in options["cap"])


def _void(
    options: Mapping[str, Any], policy: Policy, origins: Mapping[str, Origin], flag: str, value: str
) -> PolicyError:
    mode, named = policy.net.mode, f"{flag} {value}"
    said = f"network:{mode.value}"
    if said in options["cap"]:
        said = f"--cap {said}"
    elif options["net"] == mode.value:
        said = f"--net {mode.value}"
    else:  # something that the flags build on
        alone = f"--net limited {named}" if flag == "--allow" else f"--cap network:none {named}"
        fix = f"write {alone} to permit that host alone, or drop {named}"
        return contradicts(mode, _base(options, origins.get(said)), named, fix)
    fix = f"drop {said} to permit that host alone, or drop {named} to permit {PERMITS[mode]}"
    return contradicts(mode, said, named, fix)


def _base(options: Mapping[str, Any], origin: Origin | None) -> str:
    if origin is not None and not origin.name.endswith(".caps"):
        return f"the network of {origin}"
    profile = origin.name.removesuffix(".caps") if origin is not None else DEFAULT_PRESET
    return f"-p {options['profile']}" if options["profile"] else f"the profile {profile}"
