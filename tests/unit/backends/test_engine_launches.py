"""What engines are told: who runs inside, with what, and what is refused."""

from __future__ import annotations

import pytest

from corral.linux.spec import ExpectFlag
from corral.model.errors import PolicyError, UnenforceableError
from corral.model.feature import Feature
from corral.model.launch import Fetch
from support.engine_launches import both, expected, launch_of, mounted, spec_of, values
from support.fake_host import FakeHost
from support.golden_cases import REPOSITORY, RUN_ID, WORKSPACE
from support.tools import docker, podman

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

OWN_NETWORK = {"docker": "bridge", "podman": "private"}
READ_ONLY, MOUNT_POINT, OTHER = ExpectFlag.READ_ONLY, ExpectFlag.MOUNT_POINT, ExpectFlag.OTHER


@both
def test_neither_command_nor_environment_is_in_the_arguments(engine: str) -> None:
    launch = launch_of(engine, "env:set:TOKEN=the secret")

    assert "make" not in launch.argv and "the secret" not in " ".join(launch.argv)
    assert not any(word.startswith(("--env=", "-e")) or word == "--env" for word in launch.argv)
    assert spec_of(launch).argv == ("make", "all")
    assert dict(spec_of(launch).env)["TOKEN"] == "the secret"


@both
def test_the_image_comes_after_every_option_and_the_launcher_is_the_entry(engine: str) -> None:
    launch = launch_of(engine, image="python:3.12-slim")

    assert launch.argv[-5:] == (
        "--entrypoint",
        f"/.corral-{RUN_ID}/launch",
        "python:3.12-slim",
        "--control",
        f"/.corral-{RUN_ID}/control",
    )


@both
@pytest.mark.parametrize("image", ["", "-v=/:/host", "--privileged", "a b", "a\nb", "$(x)", ".hidden", "ü"])
def test_what_is_no_name_of_an_image_is_refused(engine: str, image: str) -> None:
    with pytest.raises(PolicyError) as caught:
        launch_of(engine, image=image)

    assert caught.value.code == "container-image"


@pytest.mark.parametrize(
    ("engine", "host", "words"),
    [
        ("docker", FakeHost(REPOSITORY), "--user 1000:1000"),
        ("docker", FakeHost(REPOSITORY, uid=0), "--user 0:0"),
        (
            "docker",
            FakeHost(REPOSITORY, tools={"docker": docker(SecurityOptions=["name=rootless"])}),
            "--user 0:0",
        ),
        (
            "docker",
            FakeHost(REPOSITORY, tools={"docker": docker(SecurityOptions=["name=userns"])}),
            "--userns host --user 1000:1000",
        ),
        ("podman", FakeHost(REPOSITORY), "--userns keep-id --user 1000:1000"),
        (
            "podman",
            FakeHost(REPOSITORY, uid=0, tools={"podman": podman(security={"rootless": False})}),
            "--userns host --user 0:0",
        ),
    ],
    ids=["docker", "root's docker", "rootless docker", "remapped docker", "podman", "root's podman"],
)
def test_whoever_is_inside_is_the_caller_outside(engine: str, host: FakeHost, words: str) -> None:
    launch = launch_of(engine, host=host)

    assert f" {words} --hostname " in " ".join(launch.argv)


def test_where_selinux_is_on_labels_are_switched_off_and_not_changed() -> None:
    tools = {"docker": docker(SecurityOptions=["name=selinux"])}

    assert "label=disable" in values(
        launch_of("docker", host=FakeHost(REPOSITORY, tools=tools)), "--security-opt"
    )
    assert "label=disable" not in launch_of("docker").argv


@both
def test_nothing_inside_is_privileged(engine: str) -> None:
    launch = launch_of(engine)

    assert values(launch, "--cap-drop") == ["ALL"]
    assert {"no-new-privileges", f"seccomp=/tmp/corral-{RUN_ID}/seccomp.json"} <= set(
        values(launch, "--security-opt")
    )
    assert values(launch, "--network") == ["none"]
    assert "--read-only" in launch.argv and "--no-healthcheck" in launch.argv
    assert not {"--privileged", "--cap-add", "--device", "--volume", "-v"} & set(launch.argv)


@both
def test_volumes_of_the_engine(engine: str) -> None:
    launch = launch_of(engine, volumes=("cache:/cache", "data.1:/var/data:ro"))
    found, seen = mounted(launch), expected(launch)

    assert found["/cache"] == {"type": "volume", "src": "cache", "dst": "/cache"}
    assert "readonly" in found["/var/data"]
    assert seen["/cache"].flags == OTHER | MOUNT_POINT
    assert seen["/var/data"].flags == OTHER | MOUNT_POINT | READ_ONLY


@both
@pytest.mark.parametrize(
    "volume",
    [
        *("", ":", "name", "name:", "name:path", ":/path", "-x:/path", "a,b:/path", "name:/a/../b"),
        *("name:/", "name:/etc", "name:/proc/x", "name:/workspace/cache", "/home/ann:/x", "/usr:/x"),
        *("/run/docker.sock:/x", f"{WORKSPACE}/sub:/x", "name:/workspace"),
    ],
)
def test_volumes_that_are_refused(engine: str, volume: str) -> None:
    with pytest.raises(PolicyError) as caught:
        launch_of(engine, volumes=(volume,))

    assert caught.value.code in {"container-volume", "container-place"}


@both
def test_ports_need_the_network_and_are_the_loopback_s(engine: str) -> None:
    with pytest.raises(PolicyError) as caught:
        launch_of(engine, ports=("8080:80",))
    assert caught.value.code == "container-ports"

    ports = ("8080:80", "0.0.0.0:53:53/udp", "[::1]:81:80")
    launch = launch_of(engine, "network:full", ports=ports)
    assert values(launch, "--publish") == ["127.0.0.1:8080:80", "0.0.0.0:53:53/udp", "[::1]:81:80"]
    assert values(launch, "--network") == [OWN_NETWORK[engine]]
    assert launch.outer.listens == ("tcp 127.0.0.1 8080", "udp 0.0.0.0 53", "tcp ::1 81")


@both
def test_a_bridge_is_a_network_of_the_engine_s_own(engine: str) -> None:
    """It needs no Landlock to keep the host's abstract sockets away, and is none without `network:full`."""
    old = FakeHost(REPOSITORY, abi=5)

    assert values(launch_of(engine, "network:full", host=old, network="bridge"), "--network") == [
        OWN_NETWORK[engine]
    ]
    assert values(launch_of(engine, network="bridge"), "--network") == ["none"]


@both
@pytest.mark.parametrize(
    "port", ["", "80", "a:80", "0:80", "99999:80", "1:2:3:4", "80:80/sctp", "$x:1:2", "80:80 "]
)
def test_what_is_no_port_is_refused(engine: str, port: str) -> None:
    with pytest.raises(PolicyError) as caught:
        launch_of(engine, "network:full", ports=(port,))

    assert caught.value.code == "container-ports"


@both
def test_the_host_s_network_needs_landlock_scopes(engine: str) -> None:
    assert values(launch_of(engine, "network:full"), "--network") == ["host"]

    old = FakeHost(REPOSITORY, abi=5)
    with pytest.raises(UnenforceableError) as caught:
        launch_of(engine, "network:full", host=old)
    assert caught.value.lacking == {Feature.IPC_PRIVATE}
    assert launch_of(engine, "network:full", host=old, ports=("8080:80",))  # a network of its own


@both
def test_the_entrypoint_comes_before_the_command(engine: str) -> None:
    assert spec_of(launch_of(engine, entrypoint=("nice", "-n5"))).argv == ("nice", "-n5", "make", "all")


@both
def test_what_the_engine_left_is_found_by_the_label_of_the_run(engine: str) -> None:
    launch = launch_of(engine)

    assert values(launch, "--name") == [f"corral-{RUN_ID}"]
    assert f"corral.run={RUN_ID}" in values(launch, "--label")
    assert launch.outer.finding == (
        *(f"/usr/bin/{engine}", "ps", "--all", "--quiet"),
        *("--filter", f"label=corral.run={RUN_ID}"),
    )
    assert launch.outer.removal == (f"/usr/bin/{engine}", "rm", "--force", "--volumes")


@both
def test_a_name_that_was_asked_for_is_never_what_is_removed(engine: str) -> None:
    """There may be a container of that name already, and it is somebody else's."""
    launch = launch_of(engine, name="review")

    assert values(launch, "--name") == ["review"]
    assert "review" not in (*launch.outer.removal, *launch.outer.finding)
    taken = next(known for known in launch.outer.failures if known.needle in "name is already in use by x")
    assert taken.code == "container-name"


@both
@pytest.mark.parametrize(("wall", "said", "seconds"), [("9m", None, 60), ("1s", None, 15), ("1s", 300, 300)])
def test_how_long_a_start_may_take(engine: str, wall: str, said: float | None, seconds: float) -> None:
    launch = launch_of(engine, f"time:limit:{wall}", start_seconds=said)

    assert launch.outer.start_seconds == seconds


@both
def test_an_image_is_fetched_only_where_that_was_said(engine: str) -> None:
    program = f"/usr/bin/{engine}"

    assert launch_of(engine, image="alpine:3").outer.fetch is None
    assert launch_of(engine, image="alpine:3", pull="missing").outer.fetch == Fetch(
        "alpine:3",
        (program, "image", "inspect", "--format", "{{.Id}}", "alpine:3"),
        (program, "pull", "--quiet", "alpine:3"),
    )
    assert "--pull=never" in launch_of(engine, image="alpine:3", pull="missing").argv


@both
@pytest.mark.parametrize("image", ["corral/sandbox", "corral/sandbox:latest", "corral/sandbox@sha256:0"])
def test_images_that_corral_builds_are_never_fetched(engine: str, image: str) -> None:
    """Whoever has that name in a registry is not corral."""
    assert launch_of(engine, image=image, pull="missing").outer.fetch is None


@both
def test_a_container_that_is_kept(engine: str) -> None:
    assert "--rm" in launch_of(engine).argv and not launch_of(engine).outer.kept
    assert (
        "--rm" not in launch_of(engine, keep=True).argv
        and launch_of(engine, keep=True, name="x1").outer.kept == "x1"
    )


@both
@pytest.mark.parametrize(
    ("user", "uid", "maps"),
    [
        ("root", 1000, ("0 1000 1\n", "0 1000 1\n")),
        ("7:8", 1000, ("7 1000 1\n", "8 1000 1\n")),
        ("7", 0, ("7 0 1\n", "7 0 1\n")),
        ("root", 0, ("0 0 4294967295\n",) * 2),
        ("caller", 1000, ("1000 1000 1\n",) * 2),
    ],
)
def test_another_user_is_another_number_for_the_caller(
    engine: str, user: str, uid: int, maps: tuple[str, str]
) -> None:
    """The engine starts the same one in every case: what is written outside is the caller's."""
    host = FakeHost(REPOSITORY, uid=uid)
    launch = launch_of(engine, host=host, user=user)

    assert values(launch, "--user") == values(launch_of(engine, host=host), "--user")
    assert (spec_of(launch).uid_map, spec_of(launch).gid_map) == maps


ROOTS_PODMAN = podman(security={"rootless": False})


@pytest.mark.parametrize(
    ("engine", "host"),
    [
        ("docker", FakeHost(REPOSITORY, uid=0)),
        ("docker", FakeHost(REPOSITORY, tools={"docker": docker(SecurityOptions=["name=rootless"])})),
        ("podman", FakeHost(REPOSITORY)),
        ("podman", FakeHost(REPOSITORY, uid=0, tools={"podman": ROOTS_PODMAN})),
    ],
    ids=["root's docker", "rootless docker", "podman", "root's podman"],
)
def test_a_writable_root_belongs_to_whoever_is_inside(engine: str, host: FakeHost) -> None:
    launch = launch_of(engine, host=host, root="writable")

    assert "--read-only" not in launch.argv and values(launch, "--user") == ["0:0"]
    assert "keep-id" not in values(launch, "--userns")
    assert values(launch, "--cap-drop") == ["ALL"] and values(launch, "--ipc") == ["none"]
    assert expected(launch)["/"].flags == OTHER
    assert expected(launch)["/proc/sys"].flags == OTHER | READ_ONLY
    assert spec_of(launch).uid_map.startswith("0 0 ")


def test_a_root_that_would_be_writable_to_nobody_is_refused() -> None:
    with pytest.raises(PolicyError) as caught:
        launch_of("docker", root="writable")

    assert caught.value.code == "container-root"


@both
def test_a_writable_root_has_no_limit_of_disk(engine: str) -> None:
    rootless = docker(SecurityOptions=["name=rootless"])
    host = FakeHost(REPOSITORY, tools={"docker": rootless, "podman": podman()})
    with pytest.raises(UnenforceableError) as caught:
        launch_of(engine, "disk:limit:1GiB", host=host, root="writable")

    assert caught.value.lacking == {Feature.LIMIT_DISK}


@both
def test_limits_that_the_engine_does_not_hold_are_not_asked_of_it(engine: str) -> None:
    tools = {"docker": docker(MemoryLimit=False), "podman": podman(cgroupControllers=["cpu", "pids"])}
    launch = launch_of(engine, "memory:limit:64MiB", "pids:limit:9", host=FakeHost(REPOSITORY, tools=tools))

    assert not values(launch, "--memory")
    assert launch.group.memory_bytes is None and launch.group.pids == 9
    assert values(launch, "--pids-limit") == ["10"]


@both
def test_limits_of_each_process_are_the_launcher_s(engine: str) -> None:
    launch = launch_of(engine, "file:limit:1MiB", "files:limit:64")

    assert not any("nofile=64" in word or "fsize" in word for word in launch.argv)
    assert {(limit.resource, limit.hard) for limit in spec_of(launch).rlimits} >= {(1, 1 << 20), (7, 64)}
