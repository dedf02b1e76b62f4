"""Seatbelt: what its probe believes, what its launches say, and which profiles it refuses to write."""

from __future__ import annotations

import pytest

from corral.backends import seatbelt
from corral.backends._sbpl import Seat, build_profile, fold, quote
from corral.backends.registry import get_backend
from corral.model.errors import UnenforceableError
from corral.model.feature import Feature
from corral.model.launch import Front
from corral.model.plan import ProxyPlace, StdioMode
from corral.model.policy import FsAccess, FsRule, Policy
from corral.model.probe import ToolRun
from corral.model.rules.pattern import escape
from corral.policy.compose import build_policy
from support.fake_host import FakeHost
from support.mac import (
    HOME,
    PROFILES,
    REPOSITORY,
    SANDBOX_EXEC,
    SCRATCH,
    WORKSPACE,
    MacHost,
    mac_plan,
    mac_probe,
)
from support.sbpl import Profile, Request, UnknownWord, parse, unparse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.model.launch import Launch
    from corral.model.probe import Probe

ALLOWED, DENIED = SANDBOX_EXEC["sandbox-exec"].values()


def launch_of(*capabilities: str, host: MacHost | None = None, preset: str = "moderate", **more) -> Launch:
    host = host or MacHost(REPOSITORY)
    probe = mac_probe("seatbelt", host)
    plan = mac_plan(build_policy(preset, capabilities), host, probe, **more)
    return get_backend("seatbelt").lower(plan, probe)


def text_of(launch: Launch) -> str:
    assert launch.profile is not None
    return launch.profile.content.decode()


def profile_of(*capabilities: str, **more) -> Profile:
    return Profile(text_of(launch_of(*capabilities, **more)))


def probe_with(control: ToolRun, denied: ToolRun) -> Probe:
    answers = dict(zip(SANDBOX_EXEC["sandbox-exec"], (control, denied), strict=True))
    return mac_probe("seatbelt", MacHost(tools={"sandbox-exec": answers}))


def test_it_needs_a_mac() -> None:
    probe = get_backend("seatbelt").probe(FakeHost())

    assert not probe.available
    assert probe.reason == "it needs macOS"


def test_the_probe_asks_no_program_but_the_systems_own() -> None:
    host = MacHost()
    mac_probe("seatbelt", host)

    assert {argv[0] for argv in host.asked} == {"/usr/bin/sandbox-exec"}
    assert len(host.asked) == 2


@pytest.mark.parametrize(
    ("control", "denied", "reason"),
    [
        (ToolRun(71, "", "sandbox_apply: Operation not permitted"), DENIED, "Operation not permitted"),
        (ToolRun(-1, "", "no answer within 10 seconds"), DENIED, "no answer"),
        (ALLOWED, ALLOWED, "did not keep"),
        (ALLOWED, ToolRun(1, "127.0.0.1 localhost\n", "not permitted"), "did not keep"),
        (ALLOWED, ToolRun(0, "", ""), "did not keep"),
        (ALLOWED, ToolRun(-1, "", "No such file or directory"), "did not keep"),
        (ALLOWED, ToolRun(65, "", "sandbox-exec: syntax error"), "did not keep"),
    ],
)
def test_a_sandbox_that_was_not_seen_to_deny_is_not_used(control, denied, reason) -> None:
    probe = probe_with(control, denied)

    assert not probe.available
    assert reason in probe.reason
    assert probe.enforces == frozenset()


def test_root_is_promised_less() -> None:
    user, root = mac_probe("seatbelt"), mac_probe("seatbelt", MacHost(uid=0))

    assert user.enforces - root.enforces == {Feature.PRIVILEGES, Feature.TERMINAL}
    assert user.enforces == seatbelt.CLAIMS
    assert [features for features, _ in seatbelt.CONDITIONS] == [user.enforces - root.enforces]


@pytest.mark.parametrize(
    "feature",
    [
        *(Feature.PROC_HIDDEN, Feature.PROC_CONTAINED, Feature.SYSCALLS, Feature.NET_EXCEPT),
        *(Feature.LIMIT_MEMORY, Feature.LIMIT_CPU, Feature.LIMIT_CPU_TIME),
        *(Feature.LIMIT_PIDS, Feature.LIMIT_DISK),
    ],
)
def test_what_seatbelt_cannot_do_is_not_claimed(feature: Feature) -> None:
    assert feature not in mac_probe("seatbelt").enforces


def test_a_list_of_system_calls_is_refused_even_if_the_filter_is_waived() -> None:
    with pytest.raises(UnenforceableError) as refused:
        launch_of("syscall:deny:chmod")

    assert refused.value.lacking == {Feature.SYSCALLS}
    assert "chmod" in refused.value.why


def test_the_profile_is_a_file_where_no_command_writes() -> None:
    """Neither in the directory of temporary files nor by a name that anybody can know."""
    launch = launch_of()

    assert launch.argv[:3] == ("/usr/bin/sandbox-exec", "-f", f"{PROFILES}/corral-0123456789abcdef.sb")
    assert launch.profile.path == launch.argv[2]
    assert launch.profile.mode == 0o600
    assert not profile_of().allows(Request("file-read-data", path=launch.profile.path))
    assert not profile_of().allows(Request("file-write-data", path=launch.profile.path))
    assert [file.path for file in launch.scratch_files] == [f"{launch.scratch}/.gitconfig"]
    assert launch.spec is None


def test_home_and_temporary_files_are_in_a_directory_that_nobody_can_guess() -> None:
    launch = launch_of()
    env = dict(launch.env)

    assert launch.scratch == f"{SCRATCH}/corral-0123456789abcdef"
    assert env["HOME"] == env["TMPDIR"] == launch.scratch


def test_without_private_areas_home_is_not_redirected_and_nothing_in_the_directory_can_be_written() -> None:
    host = MacHost()
    probe = mac_probe("seatbelt", host)
    launch = get_backend("seatbelt").lower(mac_plan(Policy(), host, probe), probe)
    profile = Profile(text_of(launch))

    assert dict(launch.env)["HOME"] == HOME
    assert not profile.allows(Request("file-write-create", f"{launch.scratch}/x"))
    assert profile.allows(Request("file-write-create", launch.started))


def test_limits_of_each_process_are_set_before_the_sign_is_given() -> None:
    script = launch_of("files:limit:256", "file:limit:100MiB").argv[5].splitlines()

    assert script[:3] == ["ulimit -c 0", "ulimit -n 256 || exit 125", "ulimit -f 102400 || exit 125"]
    assert script.index(': >"$0" || exit 125') > 2
    assert script[-1] == 'exec "$@"'


def test_terminals_are_for_runs_that_have_one() -> None:
    captured, terminal = profile_of(), profile_of(stdio=StdioMode.TERMINAL)
    inside = Request("file-read-data", "/dev/ttys004", extensions=frozenset({"com.apple.sandbox.pty"}))

    for operation in ("pseudo-tty", "file-ioctl"):
        asked = Request(operation, "/dev/ttys004")
        assert terminal.allows(asked)
        assert not captured.allows(asked)
    assert terminal.allows(inside)
    assert not captured.allows(inside)
    assert not terminal.allows(Request("file-read-data", "/dev/ttys004")), "the caller's own, by its name"
    assert not terminal.allows(Request("file-write-data", "/dev/ttys004"))


def test_a_second_name_of_the_whole_disk_is_no_way_around() -> None:
    """/System/Volumes/Data holds everything once more."""
    profile = profile_of("filesystem:read:/System")

    assert profile.allows(Request("file-read-data", "/System/Library/x"))
    assert not profile.allows(Request("file-read-data", f"/System/Volumes/Data{HOME}/.ssh/id_ed25519"))


def test_a_private_area_is_hidden_by_the_name_that_it_really_has() -> None:
    profile = profile_of("filesystem:read:/private")

    assert profile.allows(Request("file-read-data", "/private/etc/hosts"))
    assert not profile.allows(Request("file-read-data", "/private/tmp/x"))
    assert not profile.allows(Request("file-read-data", "/private/var/tmp/x"))


def test_a_denied_path_that_is_spelled_otherwise_than_the_disk_does_is_denied() -> None:
    """The file system takes `Secrets` for `secrets`, and the planner cannot know."""
    profile = profile_of("filesystem:deny:${workspace}/Secrets")

    for name in ("Secrets", "secrets", "SECRETS", "\u017fecrets"):
        assert not profile.allows(Request("file-read-data", f"{WORKSPACE}/{name}/key")), name
        assert not profile.allows(Request("file-write-data", f"{WORKSPACE}/{name}/key")), name
    assert profile.allows(Request("file-read-data", f"{WORKSPACE}/secretary"))


@pytest.mark.parametrize(
    ("name", "others"),
    [
        (".envrc", [".ENVRC", ".EnvRc"]),
        ("hooks", ["HOOKS", "hoo\u212as", "hook\u017f", "HOO\u212a\u017f"]),
        ("class", ["cla\u00df", "CLA\u1e9e"]),
        ("profile", ["pro\ufb01le"]),
        ("office", ["o\ufb03ce"]),
        ("first", ["fir\ufb06", "fir\ufb05"]),
        ("caf\u00e9", ["cafe\u0301", "CAFE\u0301", "CAF\u00c9"]),
        ("cafe\u0301", ["caf\u00e9", "CAF\u00c9"]),
        ("a+b(c)[d]", ["A+B(C)[D]"]),
        ("na\u00efve.x", ["nai\u0308ve.X"]),
    ],
)
def test_every_name_that_a_disk_takes_for_another_is_found(name: str, others: list[str]) -> None:
    pattern = quote(f"^/w/{fold(name)}$")
    profile = Profile(f"(version 1)(deny default)(allow file-write-data (regex {pattern}))")

    for other in (name, *others):
        assert profile.allows(Request("file-write-data", f"/w/{other}")), other
    assert not profile.allows(Request("file-write-data", f"/w/{name}x"))
    assert not profile.allows(Request("file-write-data", f"/w/x{name}"))


@pytest.mark.parametrize("name", ["\u65e5\u672c", "\u00fcbung.txt", "r\u00e9sum\u00e9.pdf", "notes", "heads"])
def test_ordinary_names_can_be_made_beside_protected_ones(name: str) -> None:
    assert profile_of().allows(Request("file-write-create", f"{WORKSPACE}/{name}"))


@pytest.mark.parametrize(
    "path", ['/a "quoted"', "/back\\slash", "/new\nline", "/tab\tbed", "/n\u00e9e", "/(literal)", "/;x"]
)
def test_a_path_is_quoted_so_that_it_means_itself(path: str) -> None:
    forms = parse(f"(allow file-read* (literal {quote(path)}))")

    assert forms == [["allow", "file-read*", ["literal", path]]]


@pytest.mark.parametrize("path", ["/bell\a", "/escape\x1b[0m", "/delete\x7f", "/not-utf8\udcff"])
def test_a_path_that_has_no_words_is_refused(path: str) -> None:
    host = MacHost({f"{path}/": ""})
    probe = mac_probe("seatbelt", host)
    plan = mac_plan(Policy(fs=(FsRule(escape(path), FsAccess.READ),)), host, probe)

    with pytest.raises(UnenforceableError, match="cannot be named"):
        get_backend("seatbelt").lower(plan, probe)


def test_a_policy_that_no_program_could_be_given_is_refused() -> None:
    files = {f"/data/{number}-{'x' * 200}/": "" for number in range(4000)}
    host = MacHost(files)
    probe = mac_probe("seatbelt", host)
    rules = tuple(FsRule(path.rstrip("/"), FsAccess.READ) for path in files)

    with pytest.raises(UnenforceableError, match="too large"):
        get_backend("seatbelt").lower(mac_plan(Policy(fs=rules), host, probe), probe)


def test_a_rule_without_a_path_is_no_rule() -> None:
    """`(allow file-read*)` would allow everything."""
    host = MacHost()
    plan = mac_plan(Policy(), host, mac_probe("seatbelt", host))
    text = build_profile(plan, Seat("/s", "/s/started", private=False))
    bare = [form for form in parse(text) if form[0] == "allow" and not isinstance(form[-1], list)]

    assert bare == []


@pytest.mark.parametrize(
    "text",
    [
        "(version 1)(allow file-read-everything)",
        '(version 1)(allow file-read* (somewhere "/x"))',
        '(version 1)(allow file-read* (subpath "/x/"))',
        '(version 1)(allow network-outbound (remote ip "10.0.0.1:80"))',
        '(version 1)(allow file-read* (literal "/x\\q"))',
        "(version 2)(deny default)",
        "(version 1)(deny default",
        "(version 1)(deny default))",
    ],
)
def test_the_evaluator_refuses_what_it_does_not_know(text: str) -> None:
    with pytest.raises(UnknownWord):
        Profile(text)


def test_the_evaluator_knows_both_readings_of_the_order() -> None:
    special, wide = '(allow file-write-data (subpath "/w"))', '(deny file-write* (subpath "/w"))'
    later = Profile(f"(version 1)(deny default){special}{wide}")

    with pytest.raises(AssertionError, match="the order of the rules matters"):
        later.allows(Request("file-write-data", "/w/x"))


def test_what_deny_default_leaves_open_is_known_to_the_evaluator() -> None:
    profile = Profile("(version 1)(deny default)")

    assert profile.allows(Request("process-info-listpids"))
    assert profile.allows(Request("iokit-get-properties"))
    assert not profile.allows(Request("file-read-data", "/"))


def test_forms_are_the_same_after_being_written_and_read() -> None:
    text = text_of(launch_of())

    assert parse("".join(map(unparse, parse(text)))) == parse(text)


def test_a_limited_network_is_one_port_of_this_machine_that_programs_are_told_of() -> None:
    host = MacHost(REPOSITORY)
    probe = mac_probe("seatbelt", host)
    plan = mac_plan(build_policy("moderate", ("network:https:api.example.com",)), host, probe)
    launch = get_backend("seatbelt").lower(plan.replace(proxy=ProxyPlace(45123, "token")), probe)

    assert text_of(launch).count("(remote ip ") == 1
    assert '(remote ip "localhost:45123")' in text_of(launch)
    assert dict(launch.env)["https_proxy"] == "http://corral:token@127.0.0.1:45123"
    assert launch.gateway is not None and launch.gateway.front is Front.PROXY
    assert {Feature.NET_PORTS, Feature.NET_DOMAINS} <= set(launch.enforced)
    assert Feature.NET_NONE not in launch.enforced
