"""The plan of one command: environment, required features, refusals."""

from __future__ import annotations

import pytest

from corral.git_formats.config import read_config
from corral.model.errors import PolicyError
from corral.model.feature import RUNNER_FEATURES, Feature
from corral.model.plan import Command, TrialLayers
from corral.planning import git
from corral.planning.build import Nested, build, find_held
from corral.planning.resolved_policy import resolve_policy
from corral.policy.compose import build_policy
from corral.policy.preset import PRESETS
from support.fake_host import FakeHost

WORK = "/home/ann/project"


def plan_of(*capabilities: str, argv=("true",), preset="moderate", host=None, waived=frozenset()):
    host = host or FakeHost()
    policy = build_policy(preset, capabilities)
    resolved = resolve_policy(policy, WORK, host)
    return build(policy, Command(tuple(argv), WORK), resolved, host, run_id="0" * 16, waived=waived)


@pytest.mark.parametrize("argv", [(), ("",)])
def test_an_empty_command_is_refused(argv) -> None:
    with pytest.raises(PolicyError) as refused:
        plan_of(argv=argv)

    assert refused.value.code == "empty-command"


def test_an_argument_with_a_nul_byte_is_refused() -> None:
    with pytest.raises(PolicyError) as refused:
        plan_of(argv=("echo", "a\0b"))

    assert refused.value.code == "nul-in-argument"


def test_the_environment_holds_what_is_permitted_and_what_is_set() -> None:
    host = FakeHost(env={"TOKEN": "the secret", "LC_ALL": "C"})
    env = dict(plan_of("env:set:MODE=x", host=host).env)

    assert "TOKEN" not in env
    assert (env["LC_ALL"], env["MODE"], env["CORRAL_SANDBOX"], env["PWD"]) == ("C", "x", "1", WORK)
    assert (env["HOME"], env["TMPDIR"]) == ("/home/ann", "/tmp")


NPM, NPM_PAUSE, PIP = "npm_config_fetch_retries", "npm_config_fetch_retry_maxtimeout", "PIP_RETRIES"


@pytest.mark.parametrize(
    ("capabilities", "waived", "expected"),
    [
        ((), (), {NPM: "0", PIP: "0"}),
        (("network:https:example.org",), (), {NPM_PAUSE: "5000"}),
        (("network:full",), (), {}),
        ((), (Feature.NET_NONE,), {}),
        (("env:set:PIP_RETRIES=7",), (), {NPM: "0", PIP: "7"}),
        (("env:pass:PIP_RETRIES",), (), {NPM: "0", PIP: "3"}),
        (("env:pass:npm_config_*",), (), {PIP: "0"}),
    ],
)
def test_clients_do_not_wait_for_a_network_that_is_not_there(capabilities, waived, expected) -> None:
    """The user's own word about it counts, where it reaches the command."""
    host = FakeHost(env={"PIP_RETRIES": "3"})
    env = dict(plan_of(*capabilities, host=host, waived=frozenset(waived)).env)

    assert {name: env[name] for name in (NPM, NPM_PAUSE, PIP) if name in env} == expected


@pytest.mark.parametrize(
    ("capability", "feature"),
    [
        ("memory:limit:1g", Feature.LIMIT_MEMORY),
        ("cpu:limit:50%", Feature.LIMIT_CPU),
        ("pids:limit:9", Feature.LIMIT_PIDS),
        ("time:limit:9s", Feature.LIMIT_WALL),
        ("output:limit:1k", Feature.LIMIT_OUTPUT),
        ("file:limit:1k", Feature.LIMIT_FILE_SIZE),
        ("files:limit:99", Feature.LIMIT_OPEN_FILES),
        ("disk:limit:1g", Feature.LIMIT_DISK),
        ("disk:files:9", Feature.LIMIT_DISK_FILES),
        ("network:limited", Feature.NET_PORTS),
        ("network:https:example.org", Feature.NET_DOMAINS),
        ("filesystem:deny:${workspace}/x", Feature.FS_DENY),
    ],
)
def test_what_is_asked_for_is_required(capability: str, feature: Feature) -> None:
    assert feature in plan_of(capability).requires
    assert feature not in plan_of().requires


def test_every_feature_is_required_by_some_policy() -> None:
    """One that nobody can require would promise something that is never checked."""
    required = {feature for preset in PRESETS for feature in plan_of(preset=preset).requires}
    required |= plan_of(
        "memory:limit:1g", "cpu:limit:1", "pids:limit:9", "disk:limit:1g", "filesystem:deny:${workspace}/x"
    ).requires
    required |= plan_of("disk:files:9").requires
    required |= plan_of("network:https:example.org", "cpu:time:1s", "process:none").requires
    required |= plan_of("network:limited", "traffic:limit:1g", "traffic:rate:1m").requires
    required |= plan_of("network:full", "network:deny:example.org").requires
    required |= plan_of("feature:require:proc.identity", host=FakeHost(uid=0)).requires
    on_trial = plan_of()
    command = on_trial.command.replace(trial=TrialLayers("/work", "/state/upper", "/state/work"))
    required |= on_trial.replace(command=command).requires

    assert required == set(Feature)


def test_the_host_network_waives_nothing_else() -> None:
    assert plan_of().requires - plan_of("network:full").requires == {Feature.NET_NONE}


def test_a_denied_host_is_required_in_the_host_network_as_well() -> None:
    assert Feature.NET_EXCEPT in plan_of("network:full", "network:deny:example.org").requires


@pytest.mark.parametrize("ceiling", ["traffic:limit:1g", "traffic:rate:1m"])
def test_a_ceiling_for_traffic_is_required_where_there_is_any(ceiling: str) -> None:
    of_traffic = {Feature.LIMIT_TRAFFIC, Feature.LIMIT_TRAFFIC_RATE}

    assert len(plan_of("network:limited", ceiling).requires & of_traffic) == 1
    assert plan_of("network:full", ceiling).requires & (of_traffic | {Feature.NET_EXCEPT}) == {
        Feature.NET_EXCEPT
    }
    assert not plan_of("network:none", ceiling).requires & of_traffic


def test_what_the_runner_enforces_is_required_like_the_rest() -> None:
    assert RUNNER_FEATURES <= plan_of(preset="strict").requires


def test_a_denial_in_a_directory_that_does_not_exist_yet_is_refused() -> None:
    """The command could make the directory, and nobody watches there."""
    with pytest.raises(PolicyError) as refused:
        plan_of("filesystem:deny:${workspace}/not/yet")

    assert refused.value.code == "deny-unreachable"


def test_waived_protection_is_not_planned() -> None:
    plan = plan_of(waived=frozenset({Feature.FS_PROTECT}))

    assert (plan.shields, plan.watches) == ((), ())
    assert Feature.FS_PROTECT in plan.requires


def test_a_denied_link_that_leads_nowhere_is_left_as_it_is() -> None:
    """It is the caller's; the guard must not take it for something that the command planted."""
    plan = plan_of("filesystem:deny:${workspace}/x", host=FakeHost({f"{WORK}/x": "-> x"}))
    (watch,) = [watch for watch in plan.watches if watch.name == "x"]

    assert watch.link_text == "x"


def test_a_plan_reads_each_git_configuration_once(monkeypatch: pytest.MonkeyPatch) -> None:
    repositories = tuple(f"{WORK}/{name}" for name in ("a", "b", "b/c"))
    files = {f"{place}/.git/config": f"[user]\n\tname = {place}\n" for place in (WORK, *repositories)}
    files |= {"/home/ann/.gitconfig": "[core]\n\thooksPath = .team\n"}
    host = FakeHost(files)
    policy = build_policy("moderate", ())
    resolved = resolve_policy(policy, WORK, host)
    read: list[bytes] = []
    monkeypatch.setattr(git, "read_config", lambda data: read.append(data) or read_config(data))

    held = find_held(policy, resolved, host, nested=Nested(repositories))

    assert sorted(filter(None, read)) == sorted(text.encode() for text in files.values())
    assert {f"{place}/.git/config" for place in repositories} <= {one.target.path for one in held.shields}


def test_a_plan_has_a_stamp_of_every_file_that_says_what_git_would_run() -> None:
    files = {
        f"{WORK}/.git/config": "[include]\n\tpath = more\n",
        f"{WORK}/.git/more": "[core]\n",
        "/home/ann/.gitconfig": "[include]\n\tpath = ~/mine\n",
        "/home/ann/mine": "[core]\n\thooksPath = .team\n",
    }
    missing = (f"{WORK}/.git/config.worktree", "/home/ann/.config/git/config")
    host = FakeHost(files)
    readings = {stamp.path: stamp for stamp in plan_of(host=host).readings}

    assert [readings[path] for path in (*files, *missing)] == [host.stamp(p) for p in (*files, *missing)]
    assert all(readings[path].size for path in files) and not any(readings[path].inode for path in missing)
    assert plan_of(host=host, waived=frozenset({Feature.FS_PROTECT})).readings == ()


def test_what_only_the_host_can_make_is_not_taken_away_from_it() -> None:
    """A log of corral's own comes into being while a command runs that may write around it."""
    state, shown = f"{WORK}/state/corral", f"{WORK}/shown"
    host = FakeHost({f"{WORK}/": "", f"{state}/": "", f"{shown}/": ""}, corral_files=(state,))
    host.controls = (f"{state}/audit", f"{shown}/audit")

    watched = {f"{watch.directory}/{watch.name}" for watch in plan_of(host=host).watches}
    assert f"{shown}/audit" in watched
    assert f"{state}/audit" not in watched
