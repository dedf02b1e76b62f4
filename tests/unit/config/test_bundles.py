"""Bundles: the hosts of the user's own clients, from files that no command could have written."""

from __future__ import annotations

import subprocess

import pytest

from corral.config.bundles import ConfigurationFile, expand_bundles, find_bundle
from corral.model.errors import CorralError, PolicyError
from corral.model.event import event_of
from corral.model.feature import Feature
from corral.model.network.bundles import DEFAULT_HOSTS, bundle_of
from corral.model.violation import Evidence, Violation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> ConfigurationFile:
    for name in ("home", "work", "root"):
        (tmp_path / name).mkdir()
    return ConfigurationFile(str(tmp_path / "work"), str(tmp_path / "home"), {}, str(tmp_path / "root"))


def _write(path: str, text: str) -> None:
    import os

    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


@pytest.mark.parametrize("name", ["pip", "npm", "cargo", "go"])
def test_without_configuration_it_is_the_public_index(place: ConfigurationFile, name: str) -> None:
    assert find_bundle(name, place).hosts == DEFAULT_HOSTS[name]
    assert {bundle_of(host) for host in DEFAULT_HOSTS[name]} == {f"@{name}"}


@pytest.mark.parametrize(
    ("name", "path", "text", "hosts"),
    [
        (
            "pip",
            "HOME/.config/pip/pip.conf",
            "[global]\nindex-url = https://me:key@pip.corp/simple\n",
            "pip.corp",
        ),
        (
            "pip",
            "ROOT/etc/pip.conf",
            "[global]\nextra_index_url =\n  https://a.corp/s\n  https://b.corp:8443/s\n",
            "a.corp b.corp:8443",
        ),
        (
            "npm",
            "HOME/.npmrc",
            "registry=https://npm.corp/\n@x:registry=https://x.corp/\n//npm.corp/:_authToken=k\n",
            "npm.corp x.corp",
        ),
        ("npm", "HOME/.npmrc", "# registry=https://old.corp/\nregistry=https://*/\n", "registry.npmjs.org"),
        (
            "cargo",
            "HOME/.cargo/config.toml",
            '[source.m]\nregistry = "sparse+https://cargo.corp/index/"\n',
            "cargo.corp",
        ),
        ("go", "HOME/.config/go/env", "GOPROXY=https://go.corp,direct\n", "go.corp"),
        (
            "apt",
            "ROOT/etc/apt/sources.list",
            "# deb http://old.test x\ndeb [signed-by=/k] http://deb.corp/debian x main\n",
            "deb.corp",
        ),
        (
            "apt",
            "ROOT/etc/apt/sources.list.d/a.sources",
            "Types: deb\nURIs: https://a.corp/x http://b.corp/y\n",
            "a.corp b.corp",
        ),
    ],
)
def test_what_is_configured_counts(
    place: ConfigurationFile, name: str, path: str, text: str, hosts: str
) -> None:
    file = path.replace("HOME", place.home).replace("ROOT", place.root)
    _write(file, text)
    found = find_bundle(name, place)

    assert found.hosts == tuple(hosts.split())
    assert found.origins in {(file,), ()}


def test_a_file_in_the_workspace_does_not_count(place: ConfigurationFile) -> None:
    _write(f"{place.workspace}/.npmrc", "registry=https://evil.test/\n")

    assert find_bundle("npm", place.replace(home=place.workspace)).hosts == DEFAULT_HOSTS["npm"]
    subprocess.run(["ln", "-s", f"{place.workspace}/.npmrc", f"{place.home}/.npmrc"], check=True)
    assert find_bundle("npm", place).hosts == DEFAULT_HOSTS["npm"]


def test_remotes_are_hosts_and_neither_patterns_nor_addresses(place: ConfigurationFile) -> None:
    urls = [
        *("git@github.test:a/b.git", "https://me:key@git.corp:8443/x", "ssh://git@ssh.test/x", "/srv/bare"),
        *(
            "https://*/x",
            "https://*.evil.test/x",
            "http://169.254.169.254/x",
            "http://localhost/x",
            "../other",
        ),
    ]
    lines = "".join(f'[remote "r{number}"]\n\turl = {url}\n' for number, url in enumerate(urls))
    _write(f"{place.workspace}/.git/config", lines)

    assert find_bundle("git", place).hosts == ("github.test:22", "git.corp:8443", "ssh.test:22")


def test_bundles_stand_for_their_hosts_among_others(place: ConfigurationFile) -> None:
    assert expand_bundles(["x.test", "@npm"], place) == ["x.test", "registry.npmjs.org"]
    for name in ("@git", "@nothing"):
        with pytest.raises(PolicyError):
            expand_bundles([name], place)


def test_a_refused_lookup_names_its_bundle(monkeypatch) -> None:
    monkeypatch.setattr(CorralError, "speaks_of_flags", True)
    seen = Violation(Feature.NET_NONE, "pypi.org", Evidence.OBSERVED, "no", "network:https:pypi.org")

    assert event_of(seen).describe().endswith("--allow pypi.org (or all that its client needs: --allow @pip)")
