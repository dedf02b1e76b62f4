"""The ground: which paths a policy opens on this host, and which it refuses to."""

from __future__ import annotations

import pytest

from corral.model.errors import PolicyError
from corral.model.feature import Feature
from corral.model.plan import Link, PathKind
from corral.model.policy import FsAccess, FsRule, Policy
from corral.model.probe import Stat
from corral.planning.refuse import find_second_names
from corral.planning.resolved_policy import resolve_policy
from corral.policy.compose import build_policy
from corral.policy.preset import PRESETS
from support.fake_host import FakeHost

WORK = "/home/ann/project"


def resolved_of(*capabilities: str, host: FakeHost | None = None, preset: str = "moderate"):
    return resolve_policy(build_policy(preset, capabilities), WORK, host or FakeHost())


def _access(resolved) -> dict[str, FsAccess]:
    return {grant.target.path: grant.access for grant in resolved.grants}


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
    granted = _access(resolved_of(host=host, preset=preset))

    assert not any(path in granted for path in ("/run", "/run/systemd", "/run/docker.sock"))


@pytest.mark.parametrize(
    "path", ["/", "/proc", "/proc/1", "/dev", "/dev/sda", "/run", "/var/run/x", "/run/user"]
)
def test_what_would_hand_out_the_host_is_refused(path: str) -> None:
    host = FakeHost({"/proc/1/": "", "/dev/sda": "", "/var/run/x/": "", "/run/user/": ""})

    with pytest.raises(PolicyError) as refused:
        resolved_of(f"filesystem:read:{path}", host=host)

    assert refused.value.code == "grant-too-wide"


@pytest.mark.parametrize("path", ["~", "/home", "/home/ann"])
def test_the_home_and_what_is_above_it_cannot_be_written(path: str) -> None:
    with pytest.raises(PolicyError) as refused:
        resolved_of(f"filesystem:write:{path}")

    assert refused.value.code == "grant-too-wide"


def test_a_link_to_something_too_wide_is_refused_by_where_it_leads() -> None:
    host = FakeHost({"/srv/root": "-> /", "/srv/home": "-> /home/ann"})

    for path in ("/srv/root", "/srv/home"):
        with pytest.raises(PolicyError):
            resolved_of(f"filesystem:write:{path}", host=host)


def test_a_socket_cannot_be_granted() -> None:
    host = FakeHost({"/srv/docker.sock": ""}, sockets=frozenset({"/srv/docker.sock"}))

    with pytest.raises(PolicyError, match="socket"):
        resolved_of("filesystem:read:/srv/docker.sock", host=host)


@pytest.mark.parametrize("text", ["${workspace}x", "${workspace}-old"])
def test_workspace_is_a_whole_component(text: str) -> None:
    """By concatenation it would be a directory beside the workspace."""
    host = FakeHost({f"{WORK}x/": "", f"{WORK}-old/": ""})
    policy = Policy(fs=(FsRule(text, FsAccess.WRITE),))

    with pytest.raises(PolicyError):
        resolve_policy(policy, WORK, host)


def test_a_path_that_was_asked_for_has_to_exist() -> None:
    with pytest.raises(PolicyError) as refused:
        resolved_of("filesystem:read:/nowhere")

    assert (refused.value.code, refused.value.ran) == ("path-missing", False)


def test_what_a_preset_names_may_be_missing() -> None:
    assert "/nix/store" not in _access(resolved_of())


def test_links_on_the_way_to_a_grant_are_kept() -> None:
    assert Link("/bin", "usr/bin") in resolved_of().links


def test_a_denial_outside_of_every_grant_needs_nothing() -> None:
    assert resolved_of("filesystem:deny:/root").denied == ()


def test_a_denial_that_is_missing_is_kept_as_missing() -> None:
    (denied,) = resolved_of("filesystem:deny:${workspace}/later").denied

    assert (denied.path, denied.kind) == (f"{WORK}/later", PathKind.MISSING)


def test_a_grant_beneath_a_denial_is_refused() -> None:
    host = FakeHost({f"{WORK}/a/b/": ""})

    with pytest.raises(PolicyError) as refused:
        resolved_of("filesystem:deny:${workspace}/a", "filesystem:write:${workspace}/a/b", host=host)

    assert refused.value.code == "grant-beneath-deny"


def test_no_private_area_is_made_in_what_is_denied() -> None:
    host = FakeHost({f"{WORK}/a/b/": "", f"{WORK}/c/": ""})
    resolved = resolved_of(
        "filesystem:deny:${workspace}/a",
        "filesystem:deny:/home/other",  # granted by nobody: nothing has to be hidden there
        "filesystem:private:${workspace}/a/b",
        "filesystem:private:${workspace}/c",
        "filesystem:private:/home/other/tmp",
        host=host,
    )

    assert f"{WORK}/a/b" not in resolved.private
    assert {f"{WORK}/c", "/home/other/tmp"} <= set(resolved.private)


def test_a_denial_by_another_name_is_the_same_denial() -> None:
    host = FakeHost({f"{WORK}/real/": "", "/srv/alias": f"-> {WORK}/real"})
    (denied,) = resolved_of("filesystem:deny:/srv/alias", host=host).denied

    assert (denied.path, denied.requested) == (f"{WORK}/real", "/srv/alias")


def test_neighbours_with_a_common_beginning_are_different_paths() -> None:
    host = FakeHost({"/data/": "", "/database/secret": ""})
    granted = _access(resolved_of("filesystem:read:/data", "filesystem:deny:/database", host=host))

    assert "/data" in granted


def test_a_loop_of_links_is_nothing_that_could_be_granted() -> None:
    host = FakeHost({"/srv/a": "-> b", "/srv/b": "-> a"})

    with pytest.raises(PolicyError) as refused:
        resolved_of("filesystem:read:/srv/a", host=host)

    assert refused.value.code == "path-missing"


def test_where_named_sessions_are_reached_is_hidden_whatever_is_granted_around_it() -> None:
    host = FakeHost({"/srv/": "", "/srv/run/corral/": "", "/srv/run/corral/s.sock": ""})
    host.controls = ("/srv/run/corral",)

    around = resolved_of("filesystem:read:/srv", host=host)
    elsewhere = resolved_of(host=host)

    assert [target.path for target in around.denied] == ["/srv/run/corral"]
    assert Feature.FS_DENY in around.requires
    assert elsewhere.denied == () and Feature.FS_DENY not in elsewhere.requires
    with pytest.raises(PolicyError) as caught:
        resolved_of("filesystem:read:/srv/run/corral", host=host)
    assert caught.value.code == "grant-beneath-deny"


@pytest.mark.parametrize(
    "rule",
    [
        "~/.gitconfig",
        "~/.git*",
        "~/.*",
        "/home/*/.gitconfig",
        "**/.gitconfig",
        "/home/ann/dotfiles",  # where it really lies
        "~/dot*",
    ],
)
def test_what_a_policy_denies_of_the_callers_git_configuration_is_in_no_private_home(rule: str) -> None:
    files = {
        "/home/ann/.gitconfig": "-> dotfiles/git",
        "/home/ann/dotfiles/git": "[user]\n\tname = Ann\n\temail = ann@example.com\n",
    }

    (shown,) = resolved_of(host=FakeHost(files)).private_files
    assert b"Ann" in shown.content
    assert resolved_of(f"filesystem:deny:{rule}", host=FakeHost(files)).private_files == ()


def test_of_two_git_configurations_the_one_that_is_not_denied_is_shown() -> None:
    files = {
        "/home/ann/.config/git/config": "[user]\n\tname = Ann\n",
        "/home/ann/.gitconfig": "[user]\n\temail = ann@example.com\n",
    }

    (shown,) = resolved_of("filesystem:deny:~/.config/git", host=FakeHost(files)).private_files
    assert b"ann@example.com" in shown.content
    assert b"Ann" not in shown.content


class _LinkedHost(FakeHost):
    """A host on which some files are one."""

    one: tuple[str, ...] = ()

    def lstat(self, path: str) -> Stat | None:
        stat = super().lstat(self.one[0] if path in self.one else path)
        return stat.replace(names=len(self.one)) if stat is not None and path in self.one else stat


def _linked(*names: str) -> FakeHost:
    host = _LinkedHost(dict.fromkeys((*names, "/data/x", f"{WORK}/alone"), "text"))
    host.one = names
    return host


@pytest.mark.parametrize("access", ["read", "deny"])
def test_a_file_with_a_second_name_that_no_rule_has_is_refused(access: str) -> None:
    host = _linked(f"{WORK}/f", f"{WORK}/second")
    rule, other = (f"filesystem:{access}:${{workspace}}/{name}" for name in ("f", "second"))

    with pytest.raises(PolicyError) as refused:
        resolved_of(rule, host=host)

    assert refused.value.code == "hard-linked"
    resolved_of(rule, other, host=host)
    resolved_of(f"filesystem:{access}:${{workspace}}/alone", host=host)


@pytest.mark.parametrize("access", ["read", "deny"])
def test_a_second_name_that_the_host_gives_a_file_later_is_noticed(access: str) -> None:
    host = _LinkedHost({f"{WORK}/f": "text", f"{WORK}/second": "text"})
    rule = f"filesystem:{access}:${{workspace}}/f"
    resolved = resolved_of(rule, "filesystem:deny:${workspace}/s?x", host=host)
    assert find_second_names(resolved, host) == frozenset()

    host.one = (f"{WORK}/f", f"{WORK}/second")

    assert find_second_names(resolved, host) == {f"{WORK}/f"}


def test_a_denied_file_outside_of_what_is_granted_has_no_name_inside_either() -> None:
    with pytest.raises(PolicyError) as refused:
        resolved_of("filesystem:deny:/data/key", host=_linked("/data/key", f"{WORK}/second"))

    assert refused.value.code == "hard-linked"


def test_what_is_read_where_nothing_is_written_may_have_second_names() -> None:
    """As files of a package store have."""
    resolved_of("filesystem:read:/data/key", host=_linked("/data/key", "/data/second"))
    resolved_of(
        "filesystem:read:${workspace}/f", host=_linked(f"{WORK}/f", f"{WORK}/second"), preset="strict"
    )
