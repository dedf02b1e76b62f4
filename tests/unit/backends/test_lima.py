"""Lima: which machines its probe believes in, what is mounted, and what the guest is told."""

from __future__ import annotations

import json

import pytest

from corral import __version__
from corral.backends import lima
from corral.backends.registry import get_backend
from corral.model.errors import UnenforceableError
from corral.model.feature import Feature
from corral.model.plan import StdioMode
from corral.model.probe import ToolRun
from corral.planning.retries import retry_variables
from corral.policy.compose import build_policy
from corral.policy.remote_request import decode_request
from support.mac import HOME, INSTANCE, LIMACTL, WORKSPACE, MacHost, mac_plan, mac_probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.launch import Launch
    from corral.model.probe import Probe
    from corral.policy.remote_request import RemoteRequest

LISTING, ASKING = LIMACTL
FILES = {f"{HOME}/data/x": "", "/opt/data/x": "", "/private/data/x": "", "/srv/x": ""}


def probe_with(**answers: ToolRun) -> Probe:
    tools = {
        LISTING: answers.get("listing", LIMACTL[LISTING]),
        ASKING: answers.get("asking", LIMACTL[ASKING]),
    }
    return mac_probe("lima", MacHost(tools={"limactl": tools}))


def listing(**changes: object) -> ToolRun:
    return ToolRun(0, json.dumps({**INSTANCE, **changes}) + "\n")


def mounted(*mounts: dict[str, object]) -> ToolRun:
    return listing(config={"mounts": list(mounts)})


def launch_of(*capabilities: str, preset: str = "moderate", answer: ToolRun | None = None, **more) -> Launch:
    tools = {"limactl": {**LIMACTL, **({LISTING: answer} if answer else {})}}
    host = MacHost(FILES, tools=tools, env=more.pop("env", {}))
    probe = mac_probe("lima", host)
    plan = mac_plan(build_policy(preset, capabilities), host, probe, **more)
    return get_backend("lima").lower(plan, probe)


def request_of(*capabilities: str, **more) -> RemoteRequest:
    return decode_request(launch_of(*capabilities, **more).argv[-1])


def test_without_limactl_it_says_what_to_install() -> None:
    probe = mac_probe("lima", MacHost(tools={}))

    assert not probe.available
    assert "brew install lima" in probe.fix


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ToolRun(0, ""), "no instance 'default'"),
        (ToolRun(0, '{"name": "other", "status": "Running"}\n'), "no instance 'default'"),
        (ToolRun(0, "not json\n"), "no instance 'default'"),
        (ToolRun(1, "", "fatal: no home"), "fatal: no home"),
        (ToolRun(-1, "", "no answer within 10 seconds"), "no answer"),
        (listing(status="Stopped"), "not running, but Stopped"),
        (listing(status="Broken"), "not running, but Broken"),
    ],
)
def test_an_instance_that_does_not_run_is_not_started_but_told(answer: ToolRun, reason: str) -> None:
    host = MacHost(tools={"limactl": {**LIMACTL, LISTING: answer}})
    probe = mac_probe("lima", host)

    assert not probe.available
    assert reason in probe.reason
    assert probe.fix == "`limactl start default`"
    assert [argv[1:] for argv in host.asked] == [("list", "--json")]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ToolRun(127, "", "bash: corral: command not found"), "corral: command not found"),
        (ToolRun(0, "[]"), "there is no corral"),
        (ToolRun(0, json.dumps({"corral": "0.0.1", "backends": []})), "corral 0.0.1"),
        (ToolRun(3, json.dumps({"corral": __version__, "backends": []})), "can confine nothing"),
        (
            ToolRun(
                3,
                json.dumps(
                    {
                        "corral": __version__,
                        "backends": [
                            {"backend": name, "available": True, "enforces": ["fs.read"]}
                            for name in ("none", "wasm")
                        ],
                    }
                ),
            ),
            "can confine nothing",
        ),
    ],
)
def test_a_guest_that_cannot_enforce_is_not_used(answer: ToolRun, reason: str) -> None:
    probe = probe_with(asking=answer)

    assert not probe.available
    assert reason in probe.reason
    assert "limactl shell default" in probe.fix


def test_what_depends_on_the_spelling_of_names_is_not_claimed() -> None:
    """The guest's mounts are by name, and `.GIT` is another name of `.git` on most disks of Macs."""
    probe = probe_with()

    assert {Feature.FS_DENY, Feature.FS_PROTECT, Feature.PROC_CONTAINED}.isdisjoint(probe.enforces)
    assert {Feature.FS_READ, Feature.FS_WRITE, Feature.NET_NONE, Feature.SYSCALLS} <= probe.enforces
    assert probe.enforces == lima.CLAIMS, "even of a guest that claims all there is"


def test_a_claim_of_the_guest_that_this_version_does_not_know_is_none() -> None:
    backend = {"backend": "native", "available": True, "enforces": ["fs.read", "fs.everything"]}
    answer = ToolRun(0, json.dumps({"corral": __version__, "backends": [backend]}))
    probe = probe_with(asking=answer)

    assert Feature.FS_READ in probe.enforces
    assert Feature.FS_WRITE not in probe.enforces


@pytest.mark.parametrize(
    ("mounts", "why"),
    [
        ([], "is not mounted"),
        ([{"location": "/Users/adam", "writable": True}], "is not mounted"),
        ([{"location": HOME, "mountPoint": "/mnt", "writable": True}], "is not mounted"),
        ([{"location": HOME, "writable": False}], "can only be read"),
        ([{"location": HOME}], "can only be read"),
        (
            [{"location": HOME, "writable": True}, {"location": WORKSPACE, "writable": False}],
            "can only be read",
        ),
    ],
)
def test_a_workspace_that_the_guest_does_not_have_is_refused_with_the_way_to_mount_it(mounts, why) -> None:
    with pytest.raises(UnenforceableError) as refused:
        launch_of(answer=mounted(*mounts))

    assert why in refused.value.why
    assert "limactl edit default" in refused.value.fix
    assert WORKSPACE in refused.value.fix


def test_a_workspace_that_is_only_read_may_be_mounted_so() -> None:
    assert launch_of(preset="strict", answer=mounted({"location": HOME, "writable": False}))


@pytest.mark.parametrize("path", ["/srv", "/private/data"])
def test_a_path_that_somebody_names_must_be_mounted_by_its_own_name(path: str) -> None:
    with pytest.raises(UnenforceableError, match="cannot be used in the virtual machine"):
        launch_of(f"filesystem:read:{path}")


def test_what_is_mounted_can_be_granted() -> None:
    assert launch_of("filesystem:read:/opt/data", "filesystem:read:~/data")
    with pytest.raises(UnenforceableError):
        launch_of("filesystem:write:/opt/data")


def test_the_guest_gets_the_whole_policy() -> None:
    capabilities = (
        "memory:limit:512MiB",
        "network:full",
        "syscall:deny:chmod",
        "process:none",
        "time:limit:5s",
    )
    request = request_of(*capabilities)
    policy = build_policy("moderate", capabilities)

    assert request.policy.replace(env=policy.env) == policy
    assert (request.argv, request.cwd, request.workspace) == (("/bin/sh", "-c", "make"), WORKSPACE, WORKSPACE)


def test_home_is_that_of_this_machine_where_somebody_names_it() -> None:
    rules = {rule.path: rule.optional for rule in request_of("filesystem:read:~/data").policy.fs}

    assert rules[f"{HOME}/data"] is False
    assert "~" in request_of().policy.private, "and the guest's own where it is private"


def test_variables_are_those_of_this_machine_but_for_what_the_guest_has_itself() -> None:
    env = request_of("env:set:MODE=test", env={"LANG": "de_DE", "TOKEN": "the secret"}).policy.env

    retries = retry_variables(build_policy("moderate"), frozenset())  # which the guest would set as well
    assert dict(env.fixed) == {"LANG": "de_DE", "MODE": "test", **retries}
    assert env.passed == {"HOME", "LOGNAME", "PATH", "SHELL", "USER"}


def test_what_the_guest_can_hold_as_far_as_it_sees_is_not_waived_there() -> None:
    """The caller has to waive fs.protect, since it is not claimed; the guest keeps it all the same."""
    assert request_of().waived == ()


def test_a_terminal_is_made_by_the_guest() -> None:
    assert request_of(stdio=StdioMode.TERMINAL).terminal is True
    assert request_of().terminal is False


def test_a_command_that_ssh_could_not_take_is_refused() -> None:
    with pytest.raises(UnenforceableError, match="too long"):
        launch_of(argv=("/bin/echo", "x" * 100_000))


def test_another_place_of_instances_is_kept_for_the_run() -> None:
    assert ("LIMA_HOME", "/Volumes/x y") in launch_of(env={"LIMA_HOME": "/Volumes/x y"}).env
    assert "LIMA_HOME" not in dict(launch_of().env)


def test_a_limactl_that_a_command_may_have_made_is_not_used() -> None:
    host = MacHost(FILES)
    probe = mac_probe("lima", host)
    details = (("limactl", f"{WORKSPACE}/bin/limactl"), *probe.details[1:])
    plan = mac_plan(build_policy("moderate"), host, probe)

    with pytest.raises(UnenforceableError, match="is not believed"):
        get_backend("lima").lower(plan, probe.replace(details=details))
