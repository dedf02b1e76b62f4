"""Presets: data files, readable in a minute, and looser from left to right."""

from __future__ import annotations

from itertools import pairwise

import pytest

from corral.model.errors import PolicyError
from corral.model.policy import FsAccess, NetMode, Policy
from corral.policy.compose import build_policy
from corral.policy.preset import DEFAULT_PRESET, PRESETS, describe_preset, load_preset, preset_backend


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_says_when_to_use_it(name: str) -> None:
    assert describe_preset(name).startswith("for ")
    assert load_preset(name).name == name


def test_the_default_is_moderate() -> None:
    assert DEFAULT_PRESET == "moderate"
    assert build_policy() == load_preset("moderate")


PROFILES = ("strict", "moderate", "permissive")
CONFINING = [name for name in PRESETS if preset_backend(name) != "none"]


def test_the_profiles_are_looser_from_left_to_right() -> None:
    for stricter, looser in pairwise(PROFILES):
        assert load_preset(stricter) <= load_preset(looser)
        assert not load_preset(looser) <= load_preset(stricter)


@pytest.mark.parametrize(
    ("stricter", "looser"),
    [
        ("aicode", "moderate"),
        ("production", "moderate"),
        ("testing", "moderate"),
        ("docker", "moderate"),
        ("development", "permissive"),
        ("webscraping", "permissive"),
        *((name, "unrestricted") for name in PRESETS),
    ],
)
def test_what_is_made_for_a_purpose_has_its_place_in_the_order(stricter: str, looser: str) -> None:
    assert load_preset(stricter) <= load_preset(looser)


def test_a_meet_of_profiles_is_the_stricter_one() -> None:
    met = load_preset("strict") & load_preset("permissive")

    assert met <= load_preset("strict") <= met


def test_only_one_preset_confines_nothing_and_only_one_asks_for_containers() -> None:
    chosen = {name: preset_backend(name) for name in PRESETS if preset_backend(name)}

    assert chosen == {"docker": "docker", "unrestricted": "none"}


@pytest.mark.parametrize("name", ["testing", "production", "docker", "webscraping", "aicode"])
def test_presets_that_speak_of_resources_limit_memory_and_processes(name: str) -> None:
    limits = load_preset(name).limits

    assert limits.memory_bytes is not None and limits.pids is not None


def _readable(policy: Policy) -> set[str]:
    return {rule.path for rule in policy.fs if rule.access in {FsAccess.READ, FsAccess.WRITE}}


def _writable(policy: Policy) -> set[str]:
    return {rule.path for rule in policy.fs if rule.access is FsAccess.WRITE}


def test_few_presets_open_the_network() -> None:
    modes = {name: load_preset(name).net.mode for name in PRESETS}
    opened = {name: mode for name, mode in modes.items() if mode is not NetMode.NONE}

    assert opened == {
        "permissive": NetMode.FULL,
        "development": NetMode.FULL,
        "unrestricted": NetMode.FULL,
        "webscraping": NetMode.LIMITED,
    }


def test_strict_writes_nothing_and_sets_limits() -> None:
    strict = load_preset("strict")

    assert _writable(strict) == set()
    assert None not in (
        strict.limits.wall_seconds,
        strict.limits.output_bytes,
        strict.limits.file_size_bytes,
        strict.limits.open_files,
    )


@pytest.mark.parametrize("name", PRESETS)
def test_no_preset_grants_what_holds_secrets(name: str) -> None:
    secret = {
        "/",
        "/etc",
        "/etc/shadow",
        "/home",
        "/root",
        "~",
        "~/.ssh",
        "/proc",
        "/sys",
        "/run",
        "/dev",
        "/var",
    }

    assert _readable(load_preset(name)) & secret == set()


@pytest.mark.parametrize("name", CONFINING)
def test_no_preset_passes_a_variable_that_carries_secrets_or_steers_programs(name: str) -> None:
    policy = load_preset(name)
    host = {
        "AWS_SECRET_ACCESS_KEY": "x",
        "GITHUB_TOKEN": "x",
        "SSH_AUTH_SOCK": "x",
        "LD_PRELOAD": "x",
        "PYTHONPATH": "x",
        "PYTHONSTARTUP": "x",
        "NODE_OPTIONS": "x",
        "BASH_ENV": "x",
        "ENV": "x",
        "GIT_SSH_COMMAND": "x",
        "DBUS_SESSION_BUS_ADDRESS": "x",
        "XDG_RUNTIME_DIR": "x",
    }

    assert policy.env.choose(host) == {}


@pytest.mark.parametrize("name", [name for name in PRESETS if _writable(load_preset(name))])
def test_whoever_may_write_protects_what_the_host_runs_later(name: str) -> None:
    assert {".git/hooks", ".git/config", ".bashrc", ".envrc", ".vscode", "corral.toml"} <= load_preset(
        name
    ).protect


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(PolicyError, match="moderate") as refused:
        load_preset("modrate")

    assert refused.value.code == "unknown-profile"


@pytest.mark.parametrize("name", ["_system", "_protected", "../strict", ""])
def test_files_that_only_serve_others_are_no_presets(name: str) -> None:
    with pytest.raises(PolicyError):
        load_preset(name)


def test_a_pattern_passes_every_variable_that_begins_so() -> None:
    chosen = load_preset("strict").env.choose(
        {"LC_ALL": "C", "LC_": "x", "LCX": "y", "PATH": "/bin", "OTHER": "z"}
    )

    assert chosen == {"LC_ALL": "C", "LC_": "x", "PATH": "/bin"}
