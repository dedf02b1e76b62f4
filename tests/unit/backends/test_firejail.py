"""firejail: what is asked of it, what it is told, and what is refused because it cannot be told."""

from __future__ import annotations

import pytest

from corral.backends.firejail import FirejailBackend
from corral.linux.decode import decode
from corral.linux.spec import ExpectFlag
from corral.model.errors import UnenforceableError
from corral.model.feature import Feature
from corral.model.probe import LaunchTrial, ToolRun
from corral.model.rules.pattern import escape
from support.fake_host import LAUNCHER, FakeHost
from support.golden_cases import REPOSITORY, WORKSPACE, Case, fake_probe, host_of, plan_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.linux.spec import Expect
    from corral.model.launch import Launch
    from corral.model.probe import Probe

BACKEND = FirejailBackend()


def _probe(version: str = "firejail version 0.9.72\n", **facts) -> Probe:
    return BACKEND.probe(FakeHost(tools={"firejail": {"--version": ToolRun(0, version)}}, **facts))


def _lower(case: Case) -> Launch:
    probe = fake_probe("firejail", host_of(case))
    return BACKEND.lower(plan_of(case, probe), probe)


def _profile(launch: Launch) -> list[str]:
    [profile] = [file for file in launch.scratch_files if file.path.endswith("/profile")]
    return profile.content.decode().splitlines()


def _expects(launch: Launch) -> dict[str, Expect]:
    assert launch.spec is not None
    return {expect.path: expect for expect in decode(launch.spec).expects}


def test_a_host_without_it_is_told_how_to_get_it() -> None:
    probe = BACKEND.probe(FakeHost(tools={}))

    assert not probe.available
    assert "no `firejail` on the PATH" in probe.reason
    assert "apt-get install firejail" in probe.fix


@pytest.mark.parametrize(
    "version",
    [
        "firejail version 0.9.70\n",
        "firejail version 0.9.58.2\n",
        "firejail version 0.9.62.4-LTS",
    ],
)
def test_versions_with_known_holes_are_refused(version: str) -> None:
    probe = _probe(version)

    assert not probe.available
    assert "0.9.72 is needed" in probe.reason


@pytest.mark.parametrize("version", ["firejail version 0.9.72\n\nCompile", "x 0.9.74rc1", "x 0.10"])
def test_newer_versions_are_taken(version: str) -> None:
    assert _probe(version).available


@pytest.mark.parametrize("version", ["", "what?"])
def test_one_that_does_not_say_its_version_is_refused(version: str) -> None:
    probe = _probe(version)

    assert not probe.available
    assert "`firejail --version` failed" in probe.reason


def test_a_kernel_without_landlock_is_refused() -> None:
    assert "Landlock ABI 2" in _probe(abi=2).reason


def test_one_that_is_not_set_user_id_is_told_from_the_trial() -> None:
    trial = LaunchTrial(False, "outer", 0, "Error clone: main.c:3094 main: Operation not permitted")

    probe = _probe(outer=trial)

    assert not probe.available
    assert "Operation not permitted" in probe.reason
    assert "chmod u+s" in probe.fix


def test_one_that_made_no_sandbox_is_told_from_the_trial() -> None:
    probe = _probe(outer=LaunchTrial(False, "expect", 1, "/dev is not private"))

    assert not probe.available
    assert "/dev is not private" in probe.reason


def test_the_trial_is_made_of_arguments_and_looks_at_what_was_made() -> None:
    host = FakeHost()

    BACKEND.probe(host)

    [launch] = host.tried
    assert launch.scratch == ""
    assert len(launch.argv) < 100  # firejail takes no more than 127
    assert "--noprofile" in launch.argv
    assert f"--whitelist={LAUNCHER}" in launch.argv
    assert _expects(launch)["/dev"].flags == ExpectFlag.TMPFS


def test_root_is_not_promised_that_modes_stay() -> None:
    assert Feature.FS_METADATA in _probe(uid=1000).enforces
    assert Feature.FS_METADATA not in _probe(uid=0).enforces
    assert Feature.FS_METADATA in dict(_probe(uid=0).approximates)


def test_nobody_is_promised_the_size_of_private_areas_or_a_limit_without_groups() -> None:
    probe = _probe()

    lacking = {Feature.LIMIT_DISK, Feature.LIMIT_DISK_FILES, Feature.LIMIT_MEMORY, Feature.LIMIT_PIDS}
    assert not lacking & probe.enforces


def test_it_is_told_that_this_is_a_container() -> None:
    """Otherwise it may run the program without any sandbox; and nothing of the caller's passes on."""
    assert _lower(Case("git", files=REPOSITORY)).env == (("container", "docker"),)


def test_the_launcher_is_started_without_a_shell() -> None:
    """After `--` firejail starts the user's shell with the rest as its script."""
    argv = _lower(Case("git", files=REPOSITORY)).argv

    assert "--" not in argv
    assert argv[-3:] == (LAUNCHER, "--control", "3")
    assert "--keep-fd=3" in argv


def test_the_network_is_left_only_where_it_is_granted() -> None:
    assert "--net=none" in _lower(Case("none")).argv
    assert "--net=none" not in _lower(Case("full", capabilities=("network:full",))).argv


def test_everything_in_the_root_directory_is_hidden_but_what_is_granted() -> None:
    profile = _profile(_lower(Case("git", files={**REPOSITORY, "/srv/data/x": "", "/link": "-> srv"})))

    assert "blacklist /*" in profile
    assert "noblacklist /srv" not in profile
    assert "noblacklist /link" in profile  # it would have its target hidden
    assert profile.index("noblacklist /usr") < profile.index("blacklist /*")


def test_what_is_granted_in_parts_is_bound_into_a_tmpfs() -> None:
    launch = _lower(Case("git", files=REPOSITORY))
    profile, expects = _profile(launch), _expects(launch)

    assert {"whitelist /etc/passwd", "read-only /etc/passwd"} <= set(profile)
    assert expects["/etc"].flags == ExpectFlag.TMPFS
    assert expects["/etc/passwd"].flags == ExpectFlag.READ_ONLY | ExpectFlag.MOUNT_POINT
    assert expects["/etc/passwd"].inode
    assert f"whitelist {WORKSPACE}" in profile
    assert expects[WORKSPACE].flags == ExpectFlag.MOUNT_POINT
    assert expects["/usr"].flags == ExpectFlag.READ_ONLY


def test_what_is_protected_is_bound_read_only_and_pinned_shallow_to_deep() -> None:
    launch = _lower(Case("git", files=REPOSITORY))
    profile, expects = _profile(launch), _expects(launch)

    git = profile.index(f"read-write {WORKSPACE}/.git")
    assert profile[git - 1] == f"read-only {WORKSPACE}/.git"
    assert git < profile.index(f"read-only {WORKSPACE}/.git/hooks")
    assert expects[f"{WORKSPACE}/.git"].flags == ExpectFlag.MOUNT_POINT
    hooks = expects[f"{WORKSPACE}/.git/hooks"]
    assert hooks.flags == ExpectFlag.READ_ONLY | ExpectFlag.MOUNT_POINT


def test_what_is_denied_is_covered_and_must_be_something_else() -> None:
    files = {**REPOSITORY, f"{WORKSPACE}/secrets/key": ""}
    launch = _lower(Case("deny", files=files, capabilities=("filesystem:deny:${workspace}/secrets",)))
    path = f"{WORKSPACE}/secrets"

    assert {f"blacklist {path}", f"read-only {path}"} <= set(_profile(launch))
    assert _expects(launch)[path].flags == ExpectFlag.OTHER | ExpectFlag.READ_ONLY
    assert _expects(launch)[path].inode


def test_what_is_writable_in_a_readable_directory_is_made_so_again() -> None:
    files = {"/data/in/x": "", "/data/out/": ""}
    capabilities = ("filesystem:read:/data", "filesystem:write:/data/out")
    launch = _lower(Case("nested", files=files, capabilities=capabilities))
    profile = _profile(launch)

    assert profile.index("read-only /data") < profile.index("read-write /data/out")
    assert _expects(launch)["/data/out"].flags == ExpectFlag.MOUNT_POINT
    assert "whitelist /data/out" not in profile


def test_the_workspace_in_a_private_home_is_writable_beneath_a_readable_directory() -> None:
    launch = _lower(Case("nested", files=REPOSITORY, capabilities=("filesystem:read:/home",)))
    profile = _profile(launch)

    assert profile.index("read-only /home") < profile.index(f"read-write {WORKSPACE}")
    assert f"whitelist {WORKSPACE}" in profile
    assert _expects(launch)["/home/ann"].flags == ExpectFlag.TMPFS


def test_a_private_area_in_what_is_granted_must_be_there() -> None:
    files = {**REPOSITORY, "/data/own/": ""}
    capabilities = ("filesystem:write:/data", "filesystem:private:/data/own")
    launch = _lower(Case("area", files=files, capabilities=capabilities))

    assert "tmpfs /data/own" in _profile(launch)
    assert _expects(launch)["/data/own"].flags == ExpectFlag.TMPFS


@pytest.mark.parametrize(("rule", "cover"), [("deny", "blacklist"), ("private", "tmpfs")])
def test_what_a_cover_hides_is_held_before_it_and_must_be_there(rule: str, cover: str) -> None:
    git = f"{WORKSPACE}/.git"
    launch = _lower(Case("held", files=REPOSITORY, capabilities=(f"filesystem:{rule}:{git}",)))

    profile, expects = _profile(launch), _expects(launch)
    for name in ("config", "hooks"):
        assert profile.index(f"read-only {git}/{name}") < profile.index(f"{cover} {git}")
        assert expects[f"{git}/{name}"].flags == ExpectFlag.BENEATH
    assert expects[git].flags == (
        ExpectFlag.TMPFS if rule == "private" else ExpectFlag.OTHER | ExpectFlag.READ_ONLY
    )


def test_what_is_denied_beneath_a_denial_is_held_before_it() -> None:
    files = {**REPOSITORY, f"{WORKSPACE}/a/b/c": "the secret"}
    capabilities = (f"filesystem:deny:{WORKSPACE}/a", f"filesystem:deny:{WORKSPACE}/a/b/c")
    launch = _lower(Case("held", files=files, capabilities=capabilities))

    covers = [line for line in _profile(launch) if line.startswith(f"blacklist {WORKSPACE}/a")]
    assert covers == [f"blacklist {WORKSPACE}/a/b/c", f"blacklist {WORKSPACE}/a"]
    assert _expects(launch)[f"{WORKSPACE}/a/b/c"].flags == ExpectFlag.BENEATH


def test_a_temporary_directory_that_holds_a_grant_is_kept() -> None:
    capabilities = ("filesystem:write:/var/tmp/job",)
    kept = _lower(Case("kept", files={"/var/tmp/job/": ""}, capabilities=capabilities))

    assert "--keep-var-tmp" in kept.argv
    assert "whitelist /var/tmp" not in _profile(kept)
    assert "--keep-var-tmp" not in _lower(Case("git", files=REPOSITORY)).argv


def test_a_link_is_made_again_only_if_what_it_leads_to_is_granted() -> None:
    files = {
        "/data/one/granted/x": "",
        "/data/one/more": "",
        "/data/current": "-> one",
        "/data/short": "-> one/granted",
    }
    capabilities = ("filesystem:read:/data/current/granted", "filesystem:read:/data/short")
    profile = _profile(_lower(Case("links", files=files, capabilities=capabilities)))

    assert "whitelist /data/one/granted" in profile
    assert "whitelist /data/short" in profile
    assert "whitelist /data/current" not in profile  # firejail would bind all of /data/one


def test_the_home_is_in_the_scratch_directory_beside_the_profile() -> None:
    launch = _lower(Case("git", files=REPOSITORY))
    assert launch.spec is not None
    home = dict(decode(launch.spec).env)["HOME"]

    assert home == f"{launch.scratch}/home"
    assert f"whitelist {home}" in _profile(launch)
    paths = [file.path for file in launch.scratch_files]
    assert paths[:2] == [f"{launch.scratch}/profile", home]
    assert f"{home}/.gitconfig" in paths


def test_files_of_the_kernel_are_not_compared_by_a_device_that_is_new() -> None:
    launch = _lower(Case("sys", files={"/sys/devices/system/cpu/": ""}))
    assert launch.spec is not None
    lock = decode(launch.spec).landlock
    assert lock is not None

    [rule] = [rule for rule in lock.paths if rule.path == "/sys/devices/system"]
    assert rule.inode == 0
    assert "whitelist /sys/devices/system" not in _profile(launch)
    assert ExpectFlag.READ_ONLY in _expects(launch)["/sys"].flags


@pytest.mark.parametrize(
    "name",
    [
        *("a,b", "a;b", "a*b", "a?b", "a[b", "a]b", "a{b", "a#b", "a%b", "a&b", "a!b", "a^b", "a\\b", 'a"b'),
        *("a'b", "a`b", "a$b", "a|b", "a<b", "a..b", "a  b", "b ", "a\tb", "a\nb", "a" * 4000),
    ],
)
def test_what_a_profile_cannot_say_is_refused(name: str) -> None:
    with pytest.raises(UnenforceableError, match="firejail cannot be given"):
        grant = f"filesystem:read:/data/{escape(name)}"
        _lower(Case("odd", files={f"/data/{name}/x": ""}, capabilities=(grant,)))


@pytest.mark.parametrize("name", ["a b", "a-b_c+d=e@f~", "(1)", "ünï", "a:b", "a.b"])
def test_what_a_profile_can_say_is_said(name: str) -> None:
    case = Case("even", files={f"/data/{name}/x": ""}, capabilities=(f"filesystem:read:/data/{name}",))

    assert f"whitelist /data/{name}" in _profile(_lower(case))


def test_the_sandbox_ends_with_the_launcher_where_the_command_could_end_it() -> None:
    """Below ABI 6 the command may signal the launcher, which is not PID 1."""
    case = Case("git", files=REPOSITORY)
    older = FakeHost(case.files, cwd=WORKSPACE, abi=5)
    probe = BACKEND.probe(older)

    assert "--deterministic-shutdown" in BACKEND.lower(plan_of(case, probe), probe).argv
    assert "--deterministic-shutdown" not in _lower(case).argv


def test_an_open_network_needs_a_kernel_that_keeps_abstract_sockets_away() -> None:
    case = Case("full", files=REPOSITORY, capabilities=("network:full",))
    probe = BACKEND.probe(FakeHost(case.files, cwd=WORKSPACE, abi=5))

    with pytest.raises(UnenforceableError, match="abstract sockets"):
        BACKEND.lower(plan_of(case, probe), probe)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("Error clone: main.c:3094 main: Operation not permitted", "may not make namespaces"),
        ("Error: Firejail needs to be SUID.", "no privileges"),
        ("Error: the user is not allowed to use Firejail.", "may not use firejail"),
        ("Error: networking feature is disabled in Firejail configuration file", "settings forbid"),
        ("Error: invalid whitelist path /usr/x", "cannot show one of the granted paths"),
        ("Error: no suitable /x/corral-launch executable found", "launcher cannot be seen"),
    ],
)
def test_its_words_are_understood(words: str, message: str) -> None:
    outer = _lower(Case("git", files=REPOSITORY)).outer
    assert outer is not None

    [failure, *_] = [failure for failure in outer.failures if failure.needle in words]
    assert message in failure.message
