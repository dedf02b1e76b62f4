"""What is made of an engine's answers: claims, reasons and fixes."""

from __future__ import annotations

import pytest

from corral.backends._holes import known_holes, read_version
from corral.backends.engine.probe import probe_engine
from corral.cli.doctor import _render_probe
from corral.linux.decode import decode
from corral.model.feature import Feature
from corral.model.probe import LaunchTrial, ToolRun
from support.engine_launches import values
from support.fake_host import FakeHost
from support.tools import DOCKER_INFO, DOCKER_VERSION, PODMAN_INFO, docker, podman, said

ENGINES = ("docker", "podman")
NOBODY_HOLDS = {Feature.FS_TRIAL, Feature.PROC_IDENTITY, Feature.NET_EXCEPT}  # of engines
BY_GROUP = {Feature.LIMIT_MEMORY, Feature.LIMIT_CPU, Feature.LIMIT_CPU_TIME, Feature.LIMIT_PIDS}


def refused(engine: str, host: FakeHost, *words: str) -> None:
    """The probe says why not, and how that is mended."""
    probe = probe_engine(engine, host)

    assert not probe.available and not probe.enforces
    assert probe.reason.isprintable() and probe.fix
    for word in words:
        assert word in f"{probe.reason} | {probe.fix}"


def with_docker(answers: dict[str, ToolRun], **options) -> FakeHost:
    return FakeHost(tools={"docker": answers}, **options)


def failing(words: str, status: int = 1) -> dict[str, ToolRun]:
    return {"context inspect": ToolRun(0, "unix:///run/docker.sock"), "info": ToolRun(status, "", words)}


def test_docker_holds_all_that_anybody_does() -> None:
    probe = probe_engine("docker", FakeHost())

    assert probe.available and probe.version == "28.2.2"
    assert frozenset(Feature) - probe.enforces == NOBODY_HOLDS


def test_podman_cannot_bound_the_number_of_files() -> None:
    probe = probe_engine("podman", FakeHost())

    assert probe.available and probe.version == "5.2.0"
    assert frozenset(Feature) - probe.enforces == NOBODY_HOLDS | {Feature.LIMIT_DISK_FILES}


def test_without_control_groups_no_limit_of_the_tree_is_claimed() -> None:
    docker_probe = probe_engine("docker", with_docker(docker(CgroupDriver="none")))
    host = FakeHost(tools={"podman": podman(cgroupVersion="v1", security={"rootless": True})})

    assert BY_GROUP & docker_probe.enforces == set()
    assert BY_GROUP & probe_engine("podman", host).enforces == set()


@pytest.mark.parametrize("engine", ENGINES)
def test_without_landlock_writing_is_only_approximated(engine: str) -> None:
    probe = probe_engine(engine, FakeHost(abi=0))

    assert probe.available
    assert Feature.FS_WRITE not in probe.enforces
    assert Feature.FS_WRITE in dict(probe.approximates)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_that_is_not_installed(engine: str) -> None:
    refused(engine, FakeHost(tools={}), f"no `{engine}`", "install")


def test_a_daemon_that_does_not_run() -> None:
    words = (
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
    )

    refused("docker", with_docker(failing(words)), "cannot be reached", "systemctl start docker")


def test_a_daemon_that_says_so_in_its_answer() -> None:
    answer = {
        **DOCKER_INFO,
        "ServerVersion": "",
        "ServerErrors": ["Cannot connect to the Docker daemon at x"],
    }

    refused("docker", with_docker({**docker(), "info": said(answer)}), "cannot be reached")


def test_a_caller_who_may_not_use_the_socket() -> None:
    words = "permission denied while trying to connect to the Docker daemon socket at unix:///run/docker.sock"

    refused("docker", with_docker(failing(words)), "may not use", "usermod -aG docker", "newgrp", "rootless")


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_that_takes_too_long(engine: str) -> None:
    host = FakeHost(tools={engine: failing("no answer within 20 seconds", -1)})

    refused(engine, host, "no answer within 20 seconds")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("text", ["", "{", "[]", "null", "not json"])
def test_an_answer_that_cannot_be_read_is_no_engine(engine: str, text: str) -> None:
    answers = {"context inspect": ToolRun(0, ""), "info": ToolRun(0, text)}

    refused(engine, FakeHost(tools={engine: answers}), "info")


@pytest.mark.parametrize("endpoint", ["tcp://10.0.0.1:2375", "ssh://ann@build", "npipe:////./pipe/docker"])
def test_an_engine_of_another_machine(endpoint: str) -> None:
    refused("docker", FakeHost(env={"DOCKER_HOST": endpoint}), "another machine", endpoint)

    by_context = {**docker(), "context inspect": ToolRun(0, f"{endpoint}\n")}
    refused("docker", with_docker(by_context), "another machine", "docker context use")


def test_a_socket_of_ones_own_is_of_this_machine() -> None:
    assert probe_engine(
        "docker", FakeHost(env={"DOCKER_HOST": "unix:///run/user/1000/docker.sock"})
    ).available


@pytest.mark.parametrize(
    ("engine", "host"),
    [
        ("docker", with_docker(docker(KernelVersion="6.10.14-linuxkit"))),
        ("docker", with_docker(docker(KernelVersion=""))),
        ("podman", FakeHost(tools={"podman": podman(kernel="6.10.14-linuxkit")})),
    ],
)
def test_an_engine_in_a_virtual_machine(engine: str, host: FakeHost) -> None:
    refused(engine, host, "virtual")


def test_a_remote_podman() -> None:
    refused("podman", FakeHost(tools={"podman": podman(serviceIsRemote=True)}), "CONTAINER_HOST")


def test_a_docker_that_is_podman() -> None:
    refused("docker", with_docker({**docker(), "info": said(PODMAN_INFO)}), "is podman", "--backend podman")


@pytest.mark.parametrize(
    ("engine", "host"),
    [
        ("docker", with_docker(docker(ServerVersion="19.03.15"))),
        (
            "podman",
            FakeHost(tools={"podman": {"info": said({**PODMAN_INFO, "version": {"Version": "3.4.4"}})}}),
        ),
    ],
)
def test_an_engine_that_is_too_old(engine: str, host: FakeHost) -> None:
    refused(engine, host, "too old")


def runc(version: str) -> FakeHost:
    parts = [{"Name": "runc", "Version": version}]
    answer = {**DOCKER_VERSION, "Server": {"Components": parts}}
    return with_docker({**docker(), "version": said(answer)})


def test_a_runtime_with_a_hole_that_matters_is_refused() -> None:
    refused("docker", runc("1.0.0-rc94"), "CVE-2021-30465", "upgrade runc")


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("1.1.5+ds1", ("CVE-2024-21626", "CVE-2025-31133", "CVE-2026-41579")),
        ("1.1.15", ("CVE-2025-31133", "CVE-2026-41579")),
        ("1.2.7", ("CVE-2025-31133", "CVE-2026-41579")),
        ("1.2.8", ("CVE-2026-41579",)),
        ("1.3.2", ("CVE-2025-31133", "CVE-2026-41579")),
        ("1.3.6", ()),
        ("1.4.0", ("CVE-2026-41579",)),
        ("1.4.3", ()),
    ],
)
def test_other_holes_are_named_with_the_reason(version: str, known: tuple[str, ...]) -> None:
    probe = probe_engine("docker", runc(version))
    notes = [hole.reference for hole in known_holes(probe)]

    assert probe.available
    assert len(notes) == len(known)
    assert all(name in note for name, note in zip(known, notes, strict=True))


def test_crun_gives_way_to_runc_where_it_would_give_up() -> None:
    version = {"--version": ToolRun(0, "runc version 1.1.5+ds1\ncommit: 1\n")}
    crun = podman(cgroupVersion="v1", security={"rootless": False, "selinuxEnabled": False})

    probe = probe_engine("podman", FakeHost(uid=0, tools={"podman": crun, "runc": version}))
    assert probe.detail("chosen runtime") == "/usr/bin/runc"
    assert probe.detail("runtime") == "runc 1.1.5+ds1"
    assert known_holes(probe)

    for tools in ({"podman": crun}, {"podman": podman(), "runc": version}):
        probe = probe_engine("podman", FakeHost(tools=tools))
        assert probe.detail("chosen runtime") == ""
        assert probe.detail("runtime") == "crun 1.14"


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_works_when_a_command_has_run_in_it_and_nothing_is_left(engine: str) -> None:
    host = FakeHost()

    assert probe_engine(engine, host).available
    (trial,) = host.tried
    assert decode(trial.spec).argv[1:] == ("--version",)
    assert decode(trial.spec).lock  # whether mounts can be locked is tried as well
    assert f"sha256:{'5' * 64}" in trial.argv
    assert host.asked[-1] == (f"/usr/bin/{engine}", "rmi", "--force", f"sha256:{'5' * 64}")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("trial", "word"),
    [
        (LaunchTrial(False, "outer", 0, "runc: error setting rlimit type 7"), "error setting rlimit type 7"),
        (LaunchTrial(False, "outer", 0, "it said nothing"), "no command could be run"),
        (LaunchTrial(False, "lock", 1, "unshare"), "phase lock failed"),
        (LaunchTrial(False, "exec", 2, "/.corral/launch"), "phase exec failed"),
    ],
)
def test_an_engine_in_which_no_command_runs_does_not_work(engine: str, trial: LaunchTrial, word: str) -> None:
    host = FakeHost(outer=trial)

    refused(engine, host, word)
    assert host.asked[-1][1:3] == ("rmi", "--force")


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_that_takes_no_image_does_not_work(engine: str) -> None:
    answers = docker() if engine == "docker" else podman()
    full = {**answers, "import": ToolRun(125, "", "no space left on device")}

    refused(engine, FakeHost(tools={engine: full}), f"`{engine} import` failed: no space left")


def test_podman_is_given_hard_limits_that_are_the_callers() -> None:
    """It would ask for a million open files, which fails where the caller may have fewer."""
    (trial,) = probed("podman").tried

    assert values(trial, "--ulimit") == ["nofile=20000:20000", "nproc=4194304:4194304"]
    assert values(probed("docker").tried[0], "--ulimit") == []  # a daemon's containers have the daemon's


def probed(engine: str) -> FakeHost:
    host = FakeHost()
    assert probe_engine(engine, host).available
    return host


def test_only_what_is_set_of_the_environment_is_kept() -> None:
    env = {"DOCKER_CONTEXT": "default", "SECRET": "x", "HTTP_PROXY": "http://ann:pw@proxy"}
    probe = probe_engine("docker", FakeHost(env=env))

    kept = {name[4:]: value for name, value in probe.details if name.startswith("env ")}
    assert kept.keys() == {"DOCKER_HOST", "HOME", "PATH"}
    assert kept["DOCKER_HOST"] == "unix:///run/docker.sock"  # what the context leads to, now and later


def test_a_variable_of_two_lines_cannot_be_remembered() -> None:
    refused("docker", FakeHost(env={"DOCKER_CONFIG": "/a\nprogram=/evil"}), "DOCKER_CONFIG", "line break")


def test_sockets_that_are_there_are_remembered() -> None:
    paths = {"/run/docker.sock", "/home/ann/.docker/run/docker.sock"}
    host = FakeHost(dict.fromkeys(paths, ""), sockets=frozenset(paths))

    probe = probe_engine("docker", host)
    assert {value for name, value in probe.details if name.startswith("socket ")} == paths


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("1.1.5+ds1", (1, 1, 5)),
        ("28.2.2", (28, 2, 2)),
        ("1.0.0-rc94", (1, 0, 0)),
        ("20.10.24+dfsg1", (20, 10, 24)),
    ],
)
def test_versions(text: str, version: tuple[int, ...]) -> None:
    assert read_version(text) == version


@pytest.mark.parametrize("text", ["", "unknown", "v1"])
def test_what_is_no_version(text: str) -> None:
    assert read_version(text) == ()


SLOW = {
    "docker": docker(Driver="vfs"),
    "podman": {**podman(), "info": said({**PODMAN_INFO, "store": {"graphDriverName": "vfs"}})},
}


@pytest.mark.parametrize("engine", ENGINES)
def test_doctor_says_what_would_make_a_slow_engine_quick(engine: str) -> None:
    slow = probe_engine(engine, FakeHost(tools=SLOW))
    quick = probe_engine(engine, FakeHost())
    lines = " ".join(" ".join(_render_probe(slow, 100)).split())

    assert slow.available
    assert "slow: its storage driver is vfs" in lines and "overlay" in lines
    assert "slow:" not in " ".join(_render_probe(quick, 100))
