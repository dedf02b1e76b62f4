"""What engines mount where, for both of them, and what cannot lie where it would."""

from __future__ import annotations

import csv
import io

import pytest

from corral.backends.engine.mounts import Place, check_place, join_words, mount_argument
from corral.linux.spec import Expect, ExpectFlag
from corral.model.errors import PolicyError, UnenforceableError
from support.engine_launches import both, expected, launch_of, mounted, spec_of
from support.fake_host import FakeHost
from support.golden_cases import REPOSITORY, RUN_ID, WORKSPACE

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

READ_ONLY, MOUNT_POINT, OTHER = ExpectFlag.READ_ONLY, ExpectFlag.MOUNT_POINT, ExpectFlag.OTHER


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
def test_a_private_area_in_a_granted_path_is_refused(engine: str) -> None:
    host = FakeHost({**REPOSITORY, f"{WORKSPACE}/tmp/": ""}, cwd=WORKSPACE)
    with pytest.raises(UnenforceableError):
        launch_of(engine, "filesystem:private:${workspace}/tmp", host=host)


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
