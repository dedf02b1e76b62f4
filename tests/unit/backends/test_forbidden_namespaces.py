"""What keeps namespaces from corral: the host or a container, and the one thing that is missing."""

from __future__ import annotations

import pytest

from corral.backends._surroundings import RESTRICTED, find_container
from corral.backends.native import NativeBackend
from corral.cli import doctor
from corral.cli.doctor import examine
from corral.model.probe import LaunchTrial
from support.fake_host import FakeHost

FILTERED = LaunchTrial(False, "namespaces", 1, "clone")
IN_DOCKER, IN_PODMAN = {"/.dockerenv": ""}, {"/run/.containerenv": ""}
RESTRICTED_HOST = {RESTRICTED: "1\n"}


class Forbidding(FakeHost):
    """A host on which the launcher comes as far as a trial says."""

    def __init__(self, files: dict[str, str], trial: LaunchTrial = FILTERED, **options) -> None:
        super().__init__(files, **options)
        self._trial = trial

    def try_launch(self, spec: bytes) -> LaunchTrial:
        return self._trial


@pytest.mark.parametrize(
    ("files", "env", "kind"),
    [
        ({}, {}, ""),
        (IN_DOCKER, {}, "docker"),
        (IN_PODMAN, {"container": "podman"}, "podman"),
        (IN_DOCKER, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({}, {"container": "lxc"}, "container"),
    ],
)
def test_containers_are_recognised(files: dict[str, str], env: dict[str, str], kind: str) -> None:
    assert find_container(FakeHost(files, env=env)) == kind


@pytest.mark.parametrize(
    ("trial", "docker", "podman", "kubernetes"),
    [
        (FILTERED, "seccomp=unconfined", "seccomp=unconfined", "seccompProfile"),
        (LaunchTrial(False, "hostname", 1, "sethostname"), "seccomp=", "seccomp=", "seccompProfile"),
        (LaunchTrial(False, "mounts", 1, "new root"), "seccomp=", "seccomp=", "seccompProfile"),
        (LaunchTrial(False, "mounts", 13, "new root"), "apparmor=", "apparmor=", "appArmorProfile"),
        (
            LaunchTrial(False, "mounts", 1, "proc /proc"),
            "systempaths=unconfined",
            "unmask=ALL",
            "procMount: Unmasked",
        ),
    ],
)
def test_in_a_container_the_one_flag_that_is_missing_is_named(
    trial: LaunchTrial, docker: str, podman: str, kubernetes: str
) -> None:
    for files, env, flag in (
        (IN_DOCKER, {}, docker),
        (IN_PODMAN, {}, podman),
        (IN_DOCKER, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, kubernetes),
    ):
        probe = NativeBackend().probe(Forbidding(files, trial, env=env))

        assert not probe.available and "container" in probe.reason
        assert flag in probe.fix
        assert probe.fix.count("--security-opt") <= 1


def test_where_apparmor_forbids_them_the_profile_comes_first() -> None:
    probe = NativeBackend().probe(Forbidding(RESTRICTED_HOST))

    assert "AppArmor" in probe.reason
    assert probe.fix.startswith("as root: `corral install apparmor`")
    assert "sysctl" not in probe.fix


@pytest.mark.parametrize("files", [{}, {RESTRICTED: "0\n"}])
def test_elsewhere_it_is_not_apparmor(files: dict[str, str]) -> None:
    probe = NativeBackend().probe(Forbidding(files))

    assert "AppArmor" not in probe.reason and "apparmor" not in probe.fix
    assert "unprivileged_userns_clone" in probe.fix


def test_the_doctor_says_both(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "RealHost", lambda: Forbidding(IN_DOCKER))
    examine(as_json=False, verbose=True)
    inside = capsys.readouterr().out
    monkeypatch.setattr(doctor, "RealHost", lambda: Forbidding(RESTRICTED_HOST))
    examine(as_json=False, verbose=True)
    restricted = capsys.readouterr().out

    assert "surroundings    a container (docker)" in inside
    assert "`docker run --security-opt seccomp=unconfined`" in " ".join(inside.split())
    assert "surroundings" not in restricted
    fixes = [line.strip() for line in restricted.splitlines() if line.startswith("  fix: ")]
    assert "corral install apparmor" in fixes[0]
