"""Request: what the command line asks for, as a policy, a sandbox and a command."""

from __future__ import annotations

import os

from corral.backends.registry import AUTO_NAME, UNCONFINED
from corral.config.find import (
    find_project_files,
    find_user_file,
    has_trusted_files,
    has_variables,
    named_by_environment,
    working_directory,
)
from corral.model.container import Container
from corral.model.errors import CapabilitySyntaxError, PolicyError
from corral.model.record import Record
from corral.model.rules.capability import parse_capability
from corral.model.rules.pattern import escape, is_floating, is_pattern
from corral.policy.compose import compose
from corral.policy.preset import DEFAULT_PRESET, preset_backend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from corral.config.bundles import ConfigurationFile
    from corral.config.configuration import Configuration
    from corral.config.setting import Setting
    from corral.host.real import RealHost
    from corral.sandbox import Sandbox

#: Flag -> the capability it stands for, in the order in which they are applied.
FLAG_CAPABILITIES = {
    "read": "filesystem:read",
    "write": "filesystem:write",
    "deny": "filesystem:deny",
    "deny_from": "filesystem:deny",
    "net": "network",
    "publish": "network:publish",
    "env": "env",
    "memory": "memory:limit",
    "cpus": "cpu:limit",
    "pids": "pids:limit",
    "timeout": "time:limit",
    "output_limit": "output:limit",
    "on_refusal": "refusal",
    "require": "feature:require",
}

_NETWORK_MODES = frozenset({"none", "limited", "full"})


class Request(Record):
    """A sandbox for one command, and what the configuration had to say about it."""

    sandbox: Sandbox
    command: str | tuple[str, ...]
    configuration: Configuration | None = None  # None: there was nothing but flags
    bypass: Setting | None = None  # why the command runs unconfined

    @property
    def is_tried(self) -> bool:
        """Whether the configuration has it work on a layer over the workspace."""
        return self.configuration is not None and self.configuration.is_tried and self.bypass is None


def build_request(
    options: Mapping[str, Any],
    command: str | tuple[str, ...] = (),
    *,
    for_run: bool = True,
    may_try: bool = False,
) -> Request:
    """What to do with a command: flags on top of the configuration, if there is one.

    `may_try`: the caller tries it, where the configuration wants that. Others refuse such a configuration.
    """
    options = _with_bundles(options)
    _check_contradiction(options)
    if not is_configured(options):
        return Request(_build_from_flags(options), command)
    configuration = load_request(options)
    asks_for_sandbox = options["sandbox"] or options["backend"] not in {None, UNCONFINED}
    if configuration.bypass_tools and isinstance(command, tuple) and not asks_for_sandbox:
        from corral.config.bypass import find_bypass

        bypass = find_bypass(configuration, command, os.environ)
        if bypass is not None:
            return Request(bypass.sandbox, bypass.command, configuration, bypass.setting)
    if configuration.is_tried and for_run and not may_try:
        raise PolicyError(
            "contradiction",
            "this cannot be done on trial",
            why='the configuration has `workspace = "trial"`, and this would write the workspace itself',
            fix="use `corral run`, or set CORRAL_WORKSPACE=direct for this once",
        )
    return Request(configuration.sandbox(for_run=for_run), command, configuration)


def load_request(options: Mapping[str, Any]) -> Configuration:
    """The configuration with the flags on top of it, whether or not there are files."""
    options = _with_bundles(options)
    _check_contradiction(options)
    from corral.cli.flags import flag_settings
    from corral.config.load import load_configuration

    configuration = load_configuration(
        options["cwd"],
        agent=options["agent"],
        user_file=options["config"],
        flags=flag_settings(options),
        ignore_files=bool(options["no_config"]),
    )
    configuration = configuration.replace(pattern_files=tuple(map(os.path.abspath, options["deny_from"])))
    compiled = configuration.compiled
    if options["allow"] or options["cap"]:
        from corral.cli.session.hosts import check_hosts

        check_hosts(options, compiled.policy, compiled.origins)
    return configuration


def _with_bundles(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same, with the hosts of each bundle in its place (`--allow @npm`)."""
    if not any(host.startswith("@") for host in options["allow"]):
        return options
    from corral.config.bundles import expand_bundles

    return {**options, "allow": expand_bundles(options["allow"], bundle_place(options["cwd"]))}


def bundle_place(cwd: str | None) -> ConfigurationFile:
    """Where bundles are looked up."""
    from corral.config.bundles import ConfigurationFile

    workspace = os.path.realpath(os.path.join(working_directory(), cwd or ""))
    return ConfigurationFile(workspace, os.path.expanduser("~"), os.environ)


def is_configured(options: Mapping[str, Any]) -> bool:
    """Whether anything but flags has a say. Cheap: most runs are not configured, and none should wait."""
    if options["agent"] is not None or options["config"] is not None:
        return True
    if options["no_config"]:
        return False
    if has_variables() or "CORRAL_AGENT" in os.environ or has_trusted_files():
        return True
    directory = os.path.realpath(os.path.join(working_directory(), options["cwd"] or ""))
    if not os.path.isdir(directory):
        return False  # which the sandbox will refuse, with its own words
    return find_user_file(named_by_environment()) is not None or bool(find_project_files(directory))


def build_command(options: Mapping[str, Any], words: Iterable[str]) -> str | tuple[str, ...]:
    """What to run: the words, or the shell line."""
    command = tuple(words)
    if options["line"] is None:
        return command
    if command:
        raise PolicyError(
            "contradiction",
            "there is both a shell line and a command",
            why=f"-c was given, and then {command[0]!r}",
            fix="put everything into the line, or leave -c out",
        )
    line: str = options["line"]
    return line


def flag_capabilities(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Flag and capability for every flag that stands for one."""
    for flag, capability in FLAG_CAPABILITIES.items():
        given = options[flag]
        if flag == "net" and given == "limited" and options["allow"]:
            given = "none"  # but for these, and not every other host as well
        for value in given if isinstance(given, tuple) else () if given is None else (given,):
            if flag == "deny_from":
                from corral.config.pattern_file import read_pattern_file

                yield from ((flag, f"{capability}:{text}") for text in read_pattern_file(value))
            elif flag in {"read", "write", "deny"}:
                path = value if flag != "write" or "/" in value else f"./{value}"  # no pattern is granted
                yield flag, _checked(flag, f"{capability}:{_absolute(path)}")
            elif flag == "net":
                yield flag, f"{capability}:{_network_mode(value)}"
            elif flag == "require":
                yield from ((flag, _checked(flag, f"{capability}:{name}")) for name in _names(value))
            elif flag == "env":
                yield flag, f"env:set:{value}" if "=" in value else f"env:pass:{value}"
            else:
                yield flag, _checked(flag, f"{capability}:{value}")
    if options["allow"]:
        from corral.cli.session.hosts import capabilities_for

        for host in options["allow"]:
            yield from (("allow", text) for text in capabilities_for(host))
    for value in options["cap"]:
        yield "cap", value


def _network_mode(value: str) -> str:
    if ":" in value:
        why = "--net takes a mode; a host is a capability"
        raise CapabilitySyntaxError(value, 1, why=why, fix=f"write --cap network:{value}")
    if value not in _NETWORK_MODES:
        why, fix = f"there is no mode {value!r}", "use none, limited or full"
        raise PolicyError("capability-syntax", "--net is not valid", why=why, fix=fix)
    return value


def _checked(flag: str, text: str) -> str:
    """The capability, or an error that speaks of the flag that was typed."""
    try:
        parse_capability(text)
    except CapabilitySyntaxError as mistake:
        what = f"--{flag.replace('_', '-')} is not valid"
        raise PolicyError("capability-syntax", what, why=mistake.why, fix=mistake.fix) from None
    return text


def waived_names(options: Mapping[str, Any]) -> list[str]:
    """The features of --waive, which may be given several times and hold several names."""
    return [name for text in options["waive"] for name in _names(text)]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _build_from_flags(options: Mapping[str, Any]) -> Sandbox:
    from corral.sandbox import Sandbox

    profile = options["profile"] or DEFAULT_PRESET
    policy = compose(profile, (text for _, text in flag_capabilities(options)))
    if options["allow"] or options["cap"]:
        from corral.cli.session.hosts import check_hosts

        check_hosts(options, policy, {})
    of_preset = preset_backend(profile)
    if options["sandbox"] is True and of_preset == UNCONFINED:
        of_preset = ""
    image = options["image"]
    return Sandbox(
        policy,
        container=Container() if image is None else Container(image),
        backend=UNCONFINED if options["sandbox"] is False else options["backend"] or of_preset or AUTO_NAME,
        workspace=options["cwd"],
        waive=waived_names(options),
        host=_host_with(options["deny_from"]),
    )


def _host_with(pattern_files: Iterable[str]) -> RealHost | None:
    """TRUST: a command that could write a file of patterns would permit itself what they deny."""
    if not pattern_files:
        return None
    from corral.host.real import RealHost

    return RealHost(own_files=map(os.path.abspath, pattern_files))


def _check_contradiction(options: Mapping[str, Any]) -> None:
    for name in ("agent", "config"):
        if options["no_config"] and options[name] is not None:
            raise PolicyError(
                "contradiction",
                f"--no-config and --{name} contradict each other",
                why=f"--{name} is about the configuration, and --no-config leaves it out",
                fix="leave one of them out",
            )
    mode, hosts = options["net"], options["allow"]
    if hosts and mode in {"none", "full"}:
        permits = "nothing" if mode == "none" else "every host"
        raise PolicyError(
            "contradiction",
            f"--net {mode} and --allow {hosts[0]} contradict each other",
            why=f"--net {mode} permits {permits}, and --allow permits the hosts that it names and no others",
            fix=f"drop --net {mode} to permit these hosts alone, or drop --allow to permit {permits}",
        )
    backend, wanted = options["backend"], options["sandbox"]
    if wanted is None or backend is None or wanted is (backend != UNCONFINED):
        return
    raise PolicyError(
        "contradiction",
        f"{'--sandbox' if wanted else '--no-sandbox'} and --backend {backend} contradict each other",
        why=f"`{UNCONFINED}` confines nothing, and every other backend does",
        fix="leave one of them out",
    )


def _absolute(path: str) -> str:
    """A path as a policy has it. A pattern without a slash holds at any depth, like one that begins `**/`."""
    if path.startswith(("~", "${workspace}", "/")):
        return path
    if is_pattern(path) and (is_floating(path) or "/" not in path.rstrip("/")):
        return path
    place = escape(working_directory())
    return f"{place}/{path}" if is_pattern(path) else os.path.normpath(os.path.join(place, path))
