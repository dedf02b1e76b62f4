"""Layers: who counts, what a profile resets, and what a project's file can and cannot do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral.config.configuration import Configuration
from corral.config.find import find_project_files, read_named
from corral.config.load import load_configuration
from corral.config.trust import distrust, is_trusted, trust
from corral.model.errors import ConfigurationError, PolicyError
from corral.model.policy import NetMode
from corral.policy.preset import load_preset
from support.user_files import forget_settings


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own file; it is not there yet."""
    return forget_settings(tmp_path, monkeypatch)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    assert find_project_files(str(directory)) == [], "a file above disturbs this"
    return directory


def load(project: Path, agent: str | None = None) -> Configuration:
    return load_configuration(project, agent=agent)


def test_nothing_said_is_the_default(user: Path, project: Path) -> None:
    configuration = load(project)

    assert configuration.policy == load_preset("moderate")
    assert (configuration.enabled, configuration.backend, configuration.files) == (True, "auto", ())


def test_a_profile_takes_back_what_earlier_layers_granted_and_keeps_what_they_forbade(
    user: Path, project: Path
) -> None:
    user.write_text(
        '[sandbox]\nnetwork = "full"\nreadonly_paths = ["/srv"]\nwaive = ["fs.metadata"]\n'
        'bypass_tools = ["x"]\ndenied_paths = ["${workspace}/.env"]\n'
        'capabilities = ["filesystem:write:/srv", "syscall:deny:chmod"]\n'
        '[sandbox.resources]\nmemory = "1G"\n[agent.a.sandbox]\nprofile = "strict"\n'
    )

    policy = load(project, "a").policy
    paths = {rule.path for rule in policy.fs}

    assert policy.net.mode is NetMode.NONE
    assert "/srv" not in paths and "${workspace}/.env" in paths
    assert (policy.limits.memory_bytes, policy.deny_syscalls) == (1024**3, frozenset({"chmod"}))
    assert (load(project, "a").waived, load(project, "a").bypass_tools) == ((), ())
    assert load(project).policy.net.mode is NetMode.FULL


def test_lists_add_up_and_values_replace(user: Path, project: Path) -> None:
    user.write_text(
        '[sandbox]\nreadonly_paths = ["/srv"]\nnetwork = "full"\n'
        '[agent.a.sandbox]\nreadonly_paths = ["/opt"]\nnetwork = "none"\n'
    )

    policy = load(project, "a").policy

    assert {"/srv", "/opt"} <= {rule.path for rule in policy.fs}
    assert policy.net.mode is NetMode.NONE


def test_named_domains_take_the_place_of_the_whole_web(user: Path, project: Path) -> None:
    user.write_text(
        '[sandbox]\nnetwork = "limited"\nallow_domains = ["a.org", "b.org:8080"]\ndeny_domains = ["c.org"]\n'
        '[agent.x.sandbox]\nnetwork = "limited"\n'
    )

    for agent in (None, "x"):  # saying `limited` once more opens nothing
        net = load(project, agent).policy.net
        assert net.allow == {"http:a.org", "https:a.org", "tcp:b.org:8080"}
        assert net.deny == {"c.org"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("enabled", "false"),
        ("backend", '"none"'),
        ("profile", '"unrestricted"'),
        ("profile", '"permissive"'),
        ("network", '"full"'),
        ("allow_domains", '["a.org"]'),
        ("image", '"evil/image"'),
        ("readonly_paths", '["/srv"]'),
        ("readwrite_paths", '["~"]'),
        ("waive", '["fs.read"]'),
        ("bypass_tools", '["sh"]'),
        ("environment.pass", '["GITHUB_TOKEN"]'),
        ("environment.pass", '["*"]'),
        ("environment.set", '{ LD_PRELOAD = "./evil.so" }'),
        ("mounts.persist_caches", "true"),
        ("capabilities", '["filesystem:read:/etc"]'),
        ("capabilities", '["env:set:BASH_ENV=x"]'),
        ("capabilities", '["module:call:x"]'),
        ("resources.time", '"9h"'),
    ],
)
def test_a_project_cannot_widen(user: Path, project: Path, key: str, value: str) -> None:
    user.write_text('[sandbox.resources]\ntime = "1m"\n')
    before = load(project)
    (project / "corral.toml").write_text(f"sandbox.{key} = {value}\n")

    after = load(project)

    assert [cut.setting.key.name for cut in after.cuts][:1] == [key]
    assert after.policy <= before.policy
    assert (after.enabled, after.backend, after.image) == (True, "auto", "")
    assert (after.waived, after.bypass_tools, after.persists_caches) == ((), (), False)
    assert after.policy.env.fixed == before.policy.env.fixed


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("profile", '"strict"'),
        ("mounts.workspace_writable", "false"),
        ("denied_paths", '["${workspace}/x"]'),
        ("resources.time", '"1s"'),
        ("capabilities", '["process:none"]'),
        ("capabilities", '["syscall:deny:chmod", "filesystem:protect:x"]'),
        ("readonly_paths", '["${workspace}/vendor"]'),
    ],
)
def test_a_project_can_narrow(user: Path, project: Path, key: str, value: str) -> None:
    before = load(project)
    (project / "corral.toml").write_text(f"sandbox.{key} = {value}\n")

    after = load(project)

    assert after.cuts == ()
    assert after.policy <= before.policy and not before.policy <= after.policy


def test_a_project_may_confine_what_the_user_does_not(user: Path, project: Path) -> None:
    user.write_text("[sandbox]\nenabled = false\n")
    (project / "corral.toml").write_text("[sandbox]\nenabled = true\n")

    assert load(project).enabled


def test_a_project_may_choose_a_backend_where_the_user_did_not(user: Path, project: Path) -> None:
    (project / "corral.toml").write_text('[sandbox]\nbackend = "landlock"\n')
    assert load(project).backend == "landlock"

    user.write_text('[sandbox]\nbackend = "native"\n')
    assert load(project).backend == "native"


def test_all_files_on_the_way_up_narrow(user: Path, project: Path) -> None:
    below = project / "a" / "b"
    below.mkdir(parents=True)
    (project / "corral.toml").write_text('[sandbox.resources]\ntime = "5s"\n')
    (project / "a" / "corral.json").write_text('{"sandbox": {"resources": {"pids": 9}}}')
    (below / "pyproject.toml").write_text('[tool.corral.sandbox.resources]\ntime = "9s"\n')

    configuration = load(below)

    assert (configuration.policy.limits.wall_seconds, configuration.policy.limits.pids) == (5.0, 9)


def test_a_pyproject_that_does_not_speak_of_corral_is_not_read(user: Path, project: Path) -> None:
    (project / "pyproject.toml").write_text("this is not TOML")

    assert load(project).files == ()


def test_a_strangers_file_does_not_count(user: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "corral.toml").write_text("[sandbox]\nenabled = true\n")
    assert len(find_project_files(str(project))) == 1
    real = os.fstat

    class Stranger:
        def __init__(self, status: os.stat_result) -> None:
            self.st_uid, self.st_mode, self.st_size = 4242, status.st_mode, status.st_size

    monkeypatch.setattr(os, "fstat", lambda descriptor: Stranger(real(descriptor)))
    assert find_project_files(str(project)) == []


def test_trust_is_by_path_and_content(user: Path, project: Path) -> None:
    file = project / "corral.toml"
    file.write_text('[sandbox]\nnetwork = "full"\n')
    found = read_named(str(file), is_project=True)
    trust(found)
    assert is_trusted(found) and load(project).policy.net.mode is NetMode.FULL
    assert not is_trusted(found.replace(path="/elsewhere/corral.toml"))
    assert not is_trusted(found.replace(text=found.text + "\n"))
    assert distrust(found.path) and not distrust(found.path)
    assert load(project).policy.net.mode is NetMode.NONE


def test_of_pyproject_only_the_table_counts_for_trust(user: Path, project: Path) -> None:
    file = project / "pyproject.toml"
    file.write_text('[tool.corral.sandbox]\nnetwork = "full"\n')
    trust(read_named(str(file), is_project=True))
    file.write_text('[project]\nname = "x"\n[tool.corral.sandbox]\nnetwork = "full" # still\n')
    assert load(project).policy.net.mode is NetMode.FULL
    file.write_text('[tool.corral.sandbox]\nnetwork = "full"\nwaive = ["fs.read"]\n')
    assert load(project).policy.net.mode is NetMode.NONE


def test_what_an_untrusted_file_forbids_holds_against_a_trusted_one(user: Path, project: Path) -> None:
    below = project / "sub"
    below.mkdir()
    (below / "corral.toml").write_text('[sandbox]\nnetwork = "full"\n')
    trust(read_named(str(below / "corral.toml"), is_project=True))
    assert load(below).policy.net.mode is NetMode.FULL
    (project / "corral.toml").write_text('[sandbox]\nnetwork = "none"\n')
    assert load(below).policy.net.mode is NetMode.NONE


@pytest.mark.parametrize(
    "off", ['profile = "unrestricted"', "enabled = false", 'backend = "none"', 'runtime = "none"']
)
@pytest.mark.parametrize("on", ['profile = "strict"', "enabled = true", 'backend = "native"'])
def test_whoever_asks_for_a_sandbox_later_gets_one(user: Path, project: Path, off: str, on: str) -> None:
    user.write_text(f"[sandbox]\n{off}\n[agent.a.sandbox]\n{on}\n")
    assert (load(project).enabled, load(project).backend) == (False, "none")
    assert load(project, "a").enabled and load(project, "a").backend != "none"

    user.write_text(f"[sandbox]\n{off}\n")
    (project / "corral.toml").write_text(f"[sandbox]\n{on}\n")
    assert load(project).enabled and load(project).backend != "none"


def test_what_a_project_asks_for_without_a_sandbox_is_told_as_not_followed(user: Path, project: Path) -> None:
    user.write_text("[sandbox]\nenabled = false\n")
    (project / "corral.toml").write_text('[sandbox]\ndenied_paths = ["${workspace}/x"]\n')

    assert not load(project).enabled
    assert [cut.setting.key.name for cut in load(project).cuts] == ["denied_paths"]


def test_a_backend_beside_enabled_does_not_switch_it_on(user: Path, project: Path) -> None:
    user.write_text('[sandbox]\nenabled = false\nruntime = "native"\nprofile = "permissive"\n')

    assert not load(project).enabled


def test_a_profile_keeps_the_tighter_of_two_limits(user: Path, project: Path) -> None:
    user.write_text('[sandbox.resources]\ntime = "1h"\npids = 9\n[agent.a.sandbox]\nprofile = "aicode"\n')

    limits = load(project, "a").policy.limits

    assert (limits.wall_seconds, limits.pids) == (30.0, 9)


def test_a_project_cannot_raise_the_limits_of_a_profile_that_comes_later(
    user: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "corral.toml").write_text('[sandbox.resources]\ntime = "12h"\npids = 9\nmemory = "500G"\n')
    below = project / "sub"
    below.mkdir()
    (below / "corral.toml").write_text("[sandbox.resources]\npids = 30\n")
    monkeypatch.setenv("CORRAL_PROFILE", "aicode")

    limits = load(below).policy.limits

    assert (limits.wall_seconds, limits.pids, limits.memory_bytes) == (30.0, 9, 512 * 1024**2)


def test_the_nearest_trusted_file_has_the_last_word_with_and_without_a_user_file(
    user: Path, project: Path
) -> None:
    below = project / "sub"
    below.mkdir()
    for directory, mode in ((project, "full"), (below, "none")):
        (directory / "corral.toml").write_text(f'[sandbox]\nnetwork = "{mode}"\n')
        trust(read_named(str(directory / "corral.toml"), is_project=True))

    assert load(below).policy.net.mode is NetMode.NONE
    user.write_text("[sandbox]\n")
    assert load(below).policy.net.mode is NetMode.NONE


def test_an_agents_own_domains_take_the_place_of_the_network_of_all(user: Path, project: Path) -> None:
    user.write_text('[sandbox]\nnetwork = "full"\n[agent.x.sandbox]\nallow_domains = ["b.org"]\n')

    assert load(project, "x").policy.net.allow == {"http:b.org", "https:b.org"}


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ('network = "full"\nallow_domains = ["a.org"]', 'line 2, column 1: network = "full" and allow'),
        ('allow_domains = ["a.org"]\nnetwork = "none"', 'line 3, column 1: network = "none" and allow'),
        ('network = "full"\ncapabilities = ["network:https:a.org"]', "network:https:a.org has no effect"),
        ('profile = "permissive"\ncapabilities = ["network:tcp:a.org:1"]', "`full` permits every host"),
    ],
)
def test_hosts_and_a_network_with_all_or_nothing_contradict_each_other(
    user: Path, project: Path, said: str, place: str
) -> None:
    user.write_text(f"[sandbox]\n{said}\n")

    with pytest.raises(ConfigurationError) as refused:
        load(project)

    assert place in refused.value.render()


def test_variables_may_not_contradict_each_other(
    user: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORRAL_NETWORK", "full")
    monkeypatch.setenv("CORRAL_ALLOW_DOMAINS", "a.org")

    with pytest.raises(ConfigurationError) as refused:
        load(project)

    assert "CORRAL_NETWORK" in refused.value.render()


def test_a_project_chooses_no_backend_where_something_is_waived(user: Path, project: Path) -> None:
    user.write_text('[sandbox]\nwaive = ["fs.metadata"]\n')
    (project / "corral.toml").write_text('[sandbox]\nbackend = "landlock"\n')

    assert load(project).backend == "auto"


def test_a_configuration_that_cannot_be_reached_is_not_taken_for_none(user: Path, project: Path) -> None:
    user.symlink_to(project / "nowhere")
    with pytest.raises(PolicyError) as refused:
        load(project)
    assert refused.value.code == "configuration-file"


def test_two_user_files_are_not_clear(user: Path, project: Path) -> None:
    user.write_text("")
    user.with_suffix(".json").write_text("{}")

    with pytest.raises(PolicyError) as refused:
        load(project)
    assert refused.value.code == "two-files"


def test_the_environment_comes_after_the_project(
    user: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "corral.toml").write_text('[sandbox]\nprofile = "strict"\n[sandbox.resources]\npids = 9\n')
    monkeypatch.setenv("CORRAL_NETWORK", "full")
    assert load(project).policy.net.mode is NetMode.FULL
    monkeypatch.setenv("CORRAL_PROFILE", "moderate")
    fresh = load(project).policy
    assert fresh.limits.pids == 9  # the caller's new beginning keeps the project's limits
    assert fresh.replace(name="", limits=load_preset("moderate").limits) <= load_preset("permissive")
    monkeypatch.setenv("CORRAL_AGENT", "nobody")
    with pytest.raises(PolicyError):
        load(project)


def test_a_value_says_where_it_comes_from(user: Path, project: Path) -> None:
    user.write_text('[sandbox]\nnetwork = "full"\n')
    (project / "corral.toml").write_text('\n[sandbox.resources]\ntime = "5s"\n')
    configuration = load(project)

    origins = {str(capability): str(origin) for capability, origin in configuration.clauses()}

    assert origins["network:full"] == f"{user}:2:1"
    assert origins["time:limit:5s"] == f"{project}/corral.toml:3:1"
    assert origins["filesystem:write:${workspace}"] == "moderate.caps:5:1"
