"""What engines are told: who runs inside, what is mounted where, and what is refused."""

from __future__ import annotations

import csv
import io

import pytest

from corral.backends._engine_mounts import Place, check_place, join_words, mount_argument
from corral.backends.registry import get_backend
from corral.linux.decode import decode
from corral.linux.spec import Expect, ExpectFlag
from corral.model.container import Container
from corral.model.errors import PolicyError, UnenforceableError
from corral.model.feature import Feature
from corral.model.plan import Command
from corral.planning.build import build, nested_repositories
from corral.planning.ground import build_ground
from corral.policy.compose import build_policy
from support.fake_host import FakeHost
from support.golden_cases import REPOSITORY, RUN_ID, WORKSPACE
from support.tools import docker, podman

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.linux.spec import Spec
    from corral.model.launch import Launch

ENGINES = ("docker", "podman")
READ_ONLY, MOUNT_POINT, OTHER = ExpectFlag.READ_ONLY, ExpectFlag.MOUNT_POINT, ExpectFlag.OTHER
both = pytest.mark.parametrize("engine", ENGINES)


def launch_of(
    engine: str,
    *capabilities: str,
    host: FakeHost | None = None,
    cwd: str = WORKSPACE,
    preset: str = "moderate",
    **settings,
) -> Launch:
    host = host or FakeHost(REPOSITORY, cwd=WORKSPACE)
    backend = get_backend(engine)
    probe = backend.probe(host)
    policy = build_policy(preset, capabilities)
    ground = build_ground(policy, WORKSPACE, host)
    plan = build(
        policy,
        Command(("make", "all"), cwd),
        ground,
        host,
        run_id=RUN_ID,
        nested=nested_repositories(ground, host),
        waived=ground.requires - probe.enforces,
        container=Container(**settings),
    )
    return backend.lower(plan, probe)


def values(launch: Launch, option: str) -> list[str]:
    pairs = zip(launch.argv, launch.argv[1:], strict=False)
    return [value for name, value in pairs if name == option]


def mounted(launch: Launch) -> dict[str, dict[str, str]]:
    """Place -> the words of its mount, read as Go reads them."""
    found = {}
    for text in values(launch, "--mount"):
        (row,) = csv.reader(io.StringIO(text, newline=""), strict=True)
        words = dict((field.partition("=") if "=" in field else (field, "", ""))[::2] for field in row)
        found[words["dst"]] = words
    return found


def spec_of(launch: Launch) -> Spec:
    return decode(launch.spec)


def expected(launch: Launch) -> dict[str, Expect]:
    return {expect.path: expect for expect in spec_of(launch).expects}


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
def test_the_workspace_and_all_in_it_is_where_it_was_told_to_be(engine: str) -> None:
    files = {**REPOSITORY, f"{WORKSPACE}/secrets/key": "", f"{WORKSPACE}/docs/a": ""}
    capabilities = ("filesystem:deny:${workspace}/secrets", "filesystem:read:${workspace}/docs")
    launch = launch_of(engine, *capabilities, host=FakeHost(files), cwd=f"{WORKSPACE}/docs")
    found, seen = mounted(launch), expected(launch)

    assert found["/workspace"]["src"] == WORKSPACE and "readonly" not in found["/workspace"]
    for name in (".git/hooks", ".git/config", "docs"):
        assert found[f"/workspace/{name}"]["src"] == f"{WORKSPACE}/{name}"
        assert "readonly" in found[f"/workspace/{name}"]
        assert seen[f"/workspace/{name}"].flags == READ_ONLY | MOUNT_POINT
        assert seen[f"/workspace/{name}"].inode == FakeHost(files).lstat(f"{WORKSPACE}/{name}").inode
    assert seen["/workspace/.git"].flags == MOUNT_POINT
    assert found["/workspace/secrets"]["src"] == f"/tmp/corral-{RUN_ID}/nothing.d"
    assert seen["/workspace/secrets"].flags == OTHER | READ_ONLY | MOUNT_POINT
    assert seen["/workspace/secrets"].inode == FakeHost(files).lstat(f"{WORKSPACE}/secrets").inode
    assert spec_of(launch).cwd == "/workspace/docs"
    assert dict(spec_of(launch).env)["PWD"] == "/workspace/docs"
    rules = {rule.path: rule for rule in spec_of(launch).landlock.paths}
    assert rules["/workspace"].inode == seen["/workspace"].inode
    assert not any(path.startswith(WORKSPACE) for path in (*found, *seen, *rules))


@both
def test_the_workspace_can_keep_its_path(engine: str) -> None:
    launch = launch_of(engine, workspace="")

    assert mounted(launch)[WORKSPACE]["src"] == WORKSPACE
    assert spec_of(launch).cwd == WORKSPACE


@both
def test_the_system_is_the_image_s(engine: str) -> None:
    found = mounted(launch_of(engine))

    assert not any(path.startswith(("/usr", "/bin", "/lib", "/etc")) for path in found)


@both
def test_what_the_policy_names_in_the_system_is_mounted(engine: str) -> None:
    launch = launch_of(engine, "filesystem:read:/usr/share/zoneinfo")

    assert "readonly" in mounted(launch)["/usr/share/zoneinfo"]


@both
@pytest.mark.parametrize("path", ["/proc", "/etc", "/sys/class", "/dev/x", "/run", "/etc/hosts"])
def test_places_of_the_engine_are_left_to_it(engine: str, path: str) -> None:
    with pytest.raises(PolicyError) as caught:
        check_place(path)
    assert caught.value.code == "container-place"

    with pytest.raises(PolicyError):
        launch_of(engine, workspace=path)


@both
@pytest.mark.parametrize("path", ["/", "relative", "/a/../b", "/a//b", "/a/", "/./a"])
def test_the_workspace_needs_a_plain_place(engine: str, path: str) -> None:
    with pytest.raises(PolicyError) as caught:
        launch_of(engine, workspace=path)

    assert caught.value.code == "container-place"


@both
def test_two_things_cannot_be_at_one_place(engine: str) -> None:
    host = FakeHost({**REPOSITORY, "/workspace/data": ""})

    with pytest.raises(PolicyError) as caught:
        launch_of(engine, "filesystem:read:/workspace/data", host=host)
    assert caught.value.code == "container-collision"

    assert launch_of(engine, "filesystem:read:/workspace/data", host=host, workspace="/w")


@both
def test_a_working_directory_that_the_container_does_not_have_is_refused(engine: str) -> None:
    with pytest.raises(PolicyError) as caught:
        launch_of(engine, cwd="/usr/share")
    assert caught.value.code == "container-cwd"

    assert spec_of(launch_of(engine, cwd="/tmp")).cwd == "/tmp"


@both
def test_what_a_link_leads_to_appears_in_its_place_with_all_its_rules(engine: str) -> None:
    files = {
        **REPOSITORY,
        "/home/ann/data": "-> /mnt/big/data",
        "/mnt/big/data/key": "",
        "/mnt/big/data/a": "",
    }
    capabilities = ("filesystem:read:/home/ann/data", "filesystem:deny:/home/ann/data/key")
    found = mounted(launch_of(engine, *capabilities, host=FakeHost(files)))

    for place in ("/mnt/big/data", "/home/ann/data"):
        assert found[place]["src"] == "/mnt/big/data" and "readonly" in found[place]
        assert found[f"{place}/key"]["src"] == f"/tmp/corral-{RUN_ID}/nothing"


@both
def test_a_denial_hides_what_is_protected_inside(engine: str) -> None:
    found = mounted(launch_of(engine, "filesystem:deny:${workspace}/.git"))

    assert found["/workspace/.git"]["src"] == f"/tmp/corral-{RUN_ID}/nothing.d"
    assert not any(path.startswith("/workspace/.git/") for path in found)


@both
def test_masks_are_things_that_nobody_may_open(engine: str) -> None:
    files = {**REPOSITORY, f"{WORKSPACE}/key": "", f"{WORKSPACE}/keys/": ""}
    capabilities = ("filesystem:deny:${workspace}/key", "filesystem:deny:${workspace}/keys")
    launch = launch_of(engine, *capabilities, host=FakeHost(files))
    made = {file.path.rpartition("/")[2]: file for file in launch.scratch_files}

    assert (made["nothing"].mode, made["nothing"].is_directory, made["nothing"].content) == (0, False, b"")
    assert (made["nothing.d"].mode, made["nothing.d"].is_directory) == (0, True)


@both
def test_a_grant_that_reaches_the_engine_s_socket_is_refused(engine: str) -> None:
    files = {**REPOSITORY, "/srv/run/docker.sock": ""}
    env = {"DOCKER_HOST": "unix:///srv/run/docker.sock"}
    host = FakeHost(files, env=env, sockets=frozenset({"/srv/run/docker.sock"}))

    for path in ("/srv", "/srv/run"):
        with pytest.raises(PolicyError) as caught:
            launch_of(engine, f"filesystem:read:{path}", host=host)
        assert caught.value.code == "grant-too-wide"
        assert "/srv/run/docker.sock" in caught.value.why


@both
def test_places_where_engines_listen_are_never_granted(engine: str) -> None:
    host = FakeHost({**REPOSITORY, "/home/ann/.docker/run/": "", "/home/ann/data/": ""})

    for path in ("/home/ann/.docker", "/home/ann/.docker/run"):
        with pytest.raises(PolicyError):
            launch_of(engine, f"filesystem:read:{path}", host=host)
    assert launch_of(engine, "filesystem:read:/home/ann/data", host=host)


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
def test_a_granted_path_can_appear_elsewhere_but_not_more_writable(engine: str) -> None:
    host = FakeHost({**REPOSITORY, "/srv/data/a": ""})
    launch = launch_of(
        engine, "filesystem:read:/srv/data", host=host, volumes=("/srv/data:/data:ro", f"{WORKSPACE}:/w:ro")
    )
    found = mounted(launch)

    assert found["/data"]["src"] == "/srv/data" and "readonly" in found["/data"]
    assert found["/w"]["src"] == WORKSPACE and "readonly" in found["/w"]
    assert "readonly" in found["/w/.git/hooks"]  # what is protected is so in every place
    with pytest.raises(PolicyError) as caught:
        launch_of(engine, "filesystem:read:/srv/data", host=host, volumes=("/srv/data:/data",))
    assert "filesystem:write:/srv/data" in caught.value.fix


@both
def test_ports_need_the_network_and_are_the_loopback_s(engine: str) -> None:
    with pytest.raises(PolicyError) as caught:
        launch_of(engine, ports=("8080:80",))
    assert caught.value.code == "container-ports"

    ports = ("8080:80", "0.0.0.0:53:53/udp", "[::1]:81:80")
    launch = launch_of(engine, "network:full", ports=ports)
    assert values(launch, "--publish") == ["127.0.0.1:8080:80", "0.0.0.0:53:53/udp", "[::1]:81:80"]
    assert values(launch, "--network") == []


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
def test_a_private_area_in_a_granted_path_is_refused(engine: str) -> None:
    with pytest.raises(UnenforceableError):
        launch_of(engine, "filesystem:private:${workspace}/tmp")


@both
def test_what_the_engine_left_can_be_removed_by_its_name(engine: str) -> None:
    launch = launch_of(engine)

    assert values(launch, "--name") == [f"corral-{RUN_ID}"]
    assert launch.outer.removal == (f"/usr/bin/{engine}", "rm", "--force", "--volumes", f"corral-{RUN_ID}")
    assert f"corral.run={RUN_ID}" in values(launch, "--label")


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

    assert not any("nofile" in word or "fsize" in word for word in launch.argv)
    assert {(limit.resource, limit.hard) for limit in spec_of(launch).rlimits} >= {(1, 1 << 20), (7, 64)}


NASTY = [
    *(
        "with space",
        "a,b",
        'q"x',
        '"',
        '""',
        ",",
        "a=b",
        "c:d",
        "-dash",
        "$HOME",
        "new\nline",
        "tab\t",
        "ü",
        "'",
    ),
    *("dst=/x", "readonly", "x,readonly", 'x",dst=/y,"', "\\", "#", "%s", "{{.}}", " leading", "trailing "),
]


@pytest.mark.parametrize("name", NASTY)
def test_a_mount_says_what_it_means_whatever_the_name(name: str) -> None:
    place = Place(f"/in/{name}", f"/out/{name}", 1, True, Expect("/"))
    (row,) = csv.reader(io.StringIO(mount_argument(place, "bind-nonrecursive=true"), newline=""), strict=True)

    assert row == [
        "type=bind",
        f"src=/out/{name}",
        f"dst=/in/{name}",
        "bind-propagation=rprivate",
        "readonly",
        "bind-nonrecursive=true",
    ]
    assert join_words([name]).count("\n") == name.count("\n")


@pytest.mark.parametrize("name", ["a\r", "a\r\nb", "not \udcff UTF-8"])
def test_what_engines_would_change_is_refused(name: str) -> None:
    with pytest.raises(UnenforceableError):
        check_place(f"/data/{name}")
