"""The ground: which paths a policy opens on this host, and which it refuses to."""

from __future__ import annotations

import pytest

from corral.model.errors import PolicyError
from corral.model.feature import Feature
from corral.model.plan import Link, PathKind
from corral.model.policy import FsAccess, FsRule, Policy
from corral.planning.ground import build_ground
from corral.policy.compose import build_policy
from corral.policy.preset import PRESETS
from support.fake_host import FakeHost

WORK = "/home/ann/project"


def ground_of(*capabilities: str, host: FakeHost | None = None, preset: str = "moderate"):
    return build_ground(build_policy(preset, capabilities), WORK, host or FakeHost())


def _access(ground) -> dict[str, FsAccess]:
    return {grant.target.path: grant.access for grant in ground.grants}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_works_where_resolv_conf_leads_into_run(preset: str) -> None:
    """As it does on every host with systemd-resolved."""
    host = FakeHost(
        {
            "/etc/resolv.conf": "-> ../run/systemd/resolve/stub-resolv.conf",
            "/run/systemd/resolve/stub-resolv.conf": "nameserver 127.0.0.53",
            "/run/docker.sock": "",
        },
        sockets=frozenset({"/run/docker.sock"}),
    )
    granted = _access(ground_of(host=host, preset=preset))

    assert not any(path in granted for path in ("/run", "/run/systemd", "/run/docker.sock"))


@pytest.mark.parametrize(
    "path", ["/", "/proc", "/proc/1", "/dev", "/dev/sda", "/run", "/var/run/x", "/run/user"]
)
def test_what_would_hand_out_the_host_is_refused(path: str) -> None:
    host = FakeHost({"/proc/1/": "", "/dev/sda": "", "/var/run/x/": "", "/run/user/": ""})

    with pytest.raises(PolicyError) as refused:
        ground_of(f"filesystem:read:{path}", host=host)

    assert refused.value.code == "grant-too-wide"


@pytest.mark.parametrize("path", ["~", "/home", "/home/ann"])
def test_the_home_and_what_is_above_it_cannot_be_written(path: str) -> None:
    with pytest.raises(PolicyError) as refused:
        ground_of(f"filesystem:write:{path}")

    assert refused.value.code == "grant-too-wide"


def test_a_link_to_something_too_wide_is_refused_by_where_it_leads() -> None:
    host = FakeHost({"/srv/root": "-> /", "/srv/home": "-> /home/ann"})

    for path in ("/srv/root", "/srv/home"):
        with pytest.raises(PolicyError):
            ground_of(f"filesystem:write:{path}", host=host)


def test_a_socket_cannot_be_granted() -> None:
    host = FakeHost({"/srv/docker.sock": ""}, sockets=frozenset({"/srv/docker.sock"}))

    with pytest.raises(PolicyError, match="socket"):
        ground_of("filesystem:read:/srv/docker.sock", host=host)


@pytest.mark.parametrize("text", ["${workspace}x", "${workspace}-old"])
def test_workspace_is_a_whole_component(text: str) -> None:
    """By concatenation it would be a directory beside the workspace."""
    host = FakeHost({f"{WORK}x/": "", f"{WORK}-old/": ""})
    policy = Policy(fs=(FsRule(text, FsAccess.WRITE),))

    with pytest.raises(PolicyError):
        build_ground(policy, WORK, host)


def test_a_path_that_was_asked_for_has_to_exist() -> None:
    with pytest.raises(PolicyError) as refused:
        ground_of("filesystem:read:/nowhere")

    assert (refused.value.code, refused.value.ran) == ("path-missing", False)


def test_what_a_preset_names_may_be_missing() -> None:
    assert "/nix/store" not in _access(ground_of())


def test_links_on_the_way_to_a_grant_are_kept() -> None:
    assert Link("/bin", "usr/bin") in ground_of().links


def test_a_denial_outside_of_every_grant_needs_nothing() -> None:
    assert ground_of("filesystem:deny:/root").denied == ()


def test_a_denial_that_is_missing_is_kept_as_missing() -> None:
    (denied,) = ground_of("filesystem:deny:${workspace}/later").denied

    assert (denied.path, denied.kind) == (f"{WORK}/later", PathKind.MISSING)


def test_a_grant_beneath_a_denial_is_refused() -> None:
    host = FakeHost({f"{WORK}/a/b/": ""})

    with pytest.raises(PolicyError) as refused:
        ground_of("filesystem:deny:${workspace}/a", "filesystem:write:${workspace}/a/b", host=host)

    assert refused.value.code == "grant-beneath-deny"


def test_no_private_area_is_made_in_what_is_denied() -> None:
    host = FakeHost({f"{WORK}/a/b/": "", f"{WORK}/c/": ""})
    ground = ground_of(
        "filesystem:deny:${workspace}/a",
        "filesystem:deny:/home/other",  # granted by nobody: nothing has to be hidden there
        "filesystem:private:${workspace}/a/b",
        "filesystem:private:${workspace}/c",
        "filesystem:private:/home/other/tmp",
        host=host,
    )

    assert f"{WORK}/a/b" not in ground.private
    assert {f"{WORK}/c", "/home/other/tmp"} <= set(ground.private)


def test_a_denial_by_another_name_is_the_same_denial() -> None:
    host = FakeHost({f"{WORK}/real/": "", "/srv/alias": f"-> {WORK}/real"})
    (denied,) = ground_of("filesystem:deny:/srv/alias", host=host).denied

    assert (denied.path, denied.requested) == (f"{WORK}/real", "/srv/alias")


def test_neighbours_with_a_common_beginning_are_different_paths() -> None:
    host = FakeHost({"/data/": "", "/database/secret": ""})
    granted = _access(ground_of("filesystem:read:/data", "filesystem:deny:/database", host=host))

    assert "/data" in granted


def test_a_loop_of_links_is_nothing_that_could_be_granted() -> None:
    host = FakeHost({"/srv/a": "-> b", "/srv/b": "-> a"})

    with pytest.raises(PolicyError) as refused:
        ground_of("filesystem:read:/srv/a", host=host)

    assert refused.value.code == "path-missing"


def test_where_named_sessions_are_reached_is_hidden_whatever_is_granted_around_it() -> None:
    host = FakeHost({"/srv/": "", "/srv/run/corral/": "", "/srv/run/corral/s.sock": ""})
    host.controls = ("/srv/run/corral",)

    around = ground_of("filesystem:read:/srv", host=host)
    elsewhere = ground_of(host=host)

    assert [target.path for target in around.denied] == ["/srv/run/corral"]
    assert Feature.FS_DENY in around.requires
    assert elsewhere.denied == () and Feature.FS_DENY not in elsewhere.requires
    with pytest.raises(PolicyError) as caught:
        ground_of("filesystem:read:/srv/run/corral", host=host)
    assert caught.value.code == "grant-beneath-deny"
