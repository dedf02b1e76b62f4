"""Hosts that are named: what makes them void is refused, with what to drop; and what is no host says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral.cli.options import defaults
from corral.cli.request import build_request, load_request
from corral.config.find import find_project_files
from corral.model.errors import CorralError, PolicyError
from corral.model.policy import NetMode
from corral.policy.compose import build_policy
from support.user_files import forget_settings

HOST = "x.example.org"


@pytest.fixture(autouse=True)
def at_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    user = forget_settings(tmp_path, monkeypatch)
    monkeypatch.setattr(CorralError, "speaks_of_flags", True)
    project = tmp_path / "project"
    project.mkdir()
    assert find_project_files(str(project)) == []
    monkeypatch.chdir(project)
    return user


@pytest.mark.parametrize(
    ("options", "first", "mended"),
    [
        ({"profile": "development"}, "-p development and", f"--net limited --allow {HOST}"),
        ({"cap": ("network:full",)}, "--cap network:full and", "drop --cap network:full"),
        ({"cap": ("network:none",)}, "--cap network:none and", "drop --cap network:none"),
        ({"cap": ("network:limited",)}, "--cap network:limited and", "drop --cap network:limited"),
        ({"net": "full"}, "--net full and", "drop --net full"),
        ({"net": "none"}, "--net none and", "drop --net none"),
    ],
)
@pytest.mark.parametrize("build", [build_request, load_request])
def test_a_host_that_is_named_in_vain_is_refused(
    build: Any, options: dict[str, Any], first: str, mended: str
) -> None:
    with pytest.raises(PolicyError) as refused:
        build({**defaults(), "allow": (HOST,), **options})

    assert refused.value.code == "contradiction"
    assert refused.value.what == f"{first} --allow {HOST} contradict each other"
    assert mended in refused.value.fix


def test_a_file_that_permits_everything_and_a_host_by_flag_contradict_each_other(
    at_the_command_line: Path,
) -> None:
    at_the_command_line.write_text('[sandbox]\nnetwork = "full"\n')

    with pytest.raises(PolicyError) as refused:
        build_request({**defaults(), "allow": (HOST,)})

    assert f"the network of {at_the_command_line}:2:1 and --allow {HOST}" in refused.value.what


@pytest.mark.parametrize("build", [build_request, load_request])
def test_what_the_refusal_advises_works(build: Any) -> None:
    options = {**defaults(), "profile": "development", "net": "limited", "allow": (HOST,)}

    found = build(options)
    net = (found.sandbox if build is build_request else found).policy.net

    assert net.allow == {f"http:{HOST}", f"https:{HOST}"}


@pytest.mark.parametrize(
    ("preset", "capabilities", "said"),
    [
        ("moderate", ("network:full", "network:https:x"), "'network:full' and 'network:https:x'"),
        ("moderate", ("network:https:x", "network:none"), "'network:none' and 'network:https:x'"),
        ("permissive", ("network:tcp:x:1",), "the profile 'permissive' and 'network:tcp:x:1'"),
    ],
)
def test_in_python_it_is_refused_as_well(preset: str, capabilities: tuple[str, ...], said: str) -> None:
    with pytest.raises(PolicyError) as refused:
        build_policy(preset, capabilities)

    assert said in refused.value.what


def test_nothing_but_for_these_is_no_contradiction() -> None:
    net = build_policy("permissive", ("network:none", "network:https:x")).net

    assert (net.mode, net.allow) == (NetMode.LIMITED, {"https:x"})


@pytest.mark.parametrize(
    ("host", "fix"),
    [
        ("https://files.example.org/x", "write --allow files.example.org"),
        ("files.example.org/x", "write --allow files.example.org"),
        ("files.example.org:8080/x?y", "write --allow files.example.org:8080"),
        ("*:443", "write --cap 'network:tcp:*:443'"),
        ("*.com", "write --cap 'network:https:*.com'"),
    ],
)
def test_what_is_no_host_says_what_to_write(host: str, fix: str) -> None:
    with pytest.raises(PolicyError) as refused:
        build_request({**defaults(), "allow": (host,)})

    assert refused.value.code == "allow-host"
    assert refused.value.fix.endswith(fix)


def test_the_advice_for_every_host_at_a_port_works() -> None:
    net = build_request({**defaults(), "cap": ("network:tcp:*:443",)}).sandbox.policy.net

    assert net.allow == {"tcp:*:443"}
