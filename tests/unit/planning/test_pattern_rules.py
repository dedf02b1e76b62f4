"""Patterns on a host: what fulfils them is found and held, and what cannot be held is refused."""

from __future__ import annotations

import pytest

from corral.model.errors import PolicyError
from corral.model.feature import Feature
from corral.model.plan import Command
from corral.model.policy import FsAccess
from corral.planning import patterns
from corral.planning.build import build
from corral.planning.decide import decide_path
from corral.planning.resolved_policy import resolve_policy
from corral.policy.compose import build_policy
from support.fake_host import FakeHost

WORK = "/home/ann/project"
FILES = {
    f"{WORK}/sec/a.pem": "key",
    f"{WORK}/sec/b.txt": "",
    f"{WORK}/deep/down/c.pem": "key",
    f"{WORK}/dir.pem/inside": "",
    "/data/k/key": "",
    "/etc/ssl/certs/ca.pem": "",
}


def plan_of(*capabilities: str, host: FakeHost | None = None, preset: str = "moderate"):
    host = host or FakeHost(FILES)
    policy = build_policy(preset, capabilities)
    resolved = resolve_policy(policy, WORK, host)
    return build(policy, Command(("true",), WORK), resolved, host, run_id="1")


def _denied(plan) -> set[str]:
    return {target.path.removeprefix(f"{WORK}/") for target in plan.resolved.denied}


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ("*.pem", {"sec/a.pem", "deep/down/c.pem", "dir.pem"}),
        ("${workspace}/*.pem", {"dir.pem"}),
        ("${workspace}/sec/*.pem", {"sec/a.pem"}),
        (f"{WORK}/**/down/*", {"deep/down/c.pem"}),
        ("**/*.pem/", {"dir.pem"}),
        ("~/project/[ds]*", {"sec", "deep", "dir.pem"}),
        ("/etc/**/*.pem", {"/etc/ssl/certs/ca.pem"}),
    ],
)
def test_what_fulfils_a_denied_pattern_is_hidden(rule: str, found: set[str]) -> None:
    plan = plan_of(f"filesystem:deny:{rule}")

    assert _denied(plan) == found
    assert Feature.FS_DENY in plan.requires
    assert plan.notes == ()


def test_directories_above_a_match_stay_in_their_places() -> None:
    pins = {pin.path for pin in plan_of("filesystem:deny:*.pem").pins}

    assert {f"{WORK}/sec", f"{WORK}/deep", f"{WORK}/deep/down"} <= pins


def test_a_floating_pattern_spares_what_programs_need() -> None:
    host = FakeHost({**FILES, "/data/x.pem": ""})

    assert _denied(plan_of("filesystem:deny:*.pem", "filesystem:read:/data", host=host)) >= {"/data/x.pem"}
    assert "/etc/ssl/certs/ca.pem" not in _denied(plan_of("filesystem:deny:*.pem", host=host))


def test_a_denial_that_hides_nothing_is_said_and_held() -> None:
    plan = plan_of("filesystem:deny:*.key", "filesystem:deny:${workspace}/none", "filesystem:deny:/nowhere/x")

    assert [note.split()[0] for note in plan.notes] == ["${workspace}/none", "**/*.key"]
    assert set(plan.resolved.idle) == {"**/*.key", "${workspace}/none", "/nowhere/x"}
    assert Feature.FS_DENY in plan.requires
    assert [search.path for search in plan.searches] == [WORK]


@pytest.mark.parametrize("rule", ["/homes/*/project/*.pem", "/homes/**/*.pem", "/hom[e]s/a*/proj*/sec/*.pem"])
def test_a_pattern_that_would_have_to_go_through_a_link_is_said_to_hide_nothing(rule: str) -> None:
    host = FakeHost({**FILES, "/homes/ann": "-> /home/ann", "/homes/bob": "-> /nowhere"})

    plan = plan_of(f"filesystem:deny:{rule}", host=host)

    assert _denied(plan) == set()
    assert len(plan.notes) == 1
    assert plan.notes[0].startswith(f"{rule} is denied, and hides nothing: /homes/ann is a link")


def test_a_pattern_for_what_nobody_is_granted_is_nothing_to_speak_of() -> None:
    host = FakeHost({**FILES, "/homes/bob": "-> /nowhere", "/homes/eve/x": ""})

    assert plan_of("filesystem:deny:/homes/*/project/*.pem", host=host).notes == ()


def test_what_two_patterns_deny_leaves_neither_idle() -> None:
    assert plan_of("filesystem:deny:*.pem", "filesystem:deny:${workspace}/sec/*.pem").notes == ()


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        (("filesystem:read:/data/k", "filesystem:deny:/data/*"), "grant-beneath-deny"),
        (("filesystem:read:/data/k/key", "filesystem:deny:**/key"), "grant-beneath-deny"),
        (("filesystem:read:/data/*.csv",), "pattern-grants"),
        (("filesystem:deny:${workspace}/link/*.pem",), "pattern-through-link"),
        (("filesystem:deny:${workspace}/app/[id]",), "pattern-ambiguous"),
        (("filesystem:read:${workspace}/app/[id]",), "pattern-ambiguous"),
        (("filesystem:protect:app/[id]",), "pattern-ambiguous"),
        (("filesystem:deny:[id]",), "pattern-ambiguous"),
        (("filesystem:deny:/proc/cpuinf?",), "deny-structural"),
        (("filesystem:deny:/dev/ur*",), "deny-structural"),
        (("filesystem:deny:/d*",), "deny-structural"),
        (("filesystem:deny:/d*/x",), "deny-structural"),
        (("filesystem:deny:/[op]*/**/x",), "deny-structural"),
        (("filesystem:deny:/*",), "deny-structural"),
        (("filesystem:deny:/kernel/c*",), "deny-structural"),
    ],
)
def test_what_cannot_be_held_is_refused(rules: tuple[str, ...], code: str) -> None:
    host = FakeHost({**FILES, f"{WORK}/link": "-> sec", f"{WORK}/app/[id]/page": "", f"{WORK}/[id]": ""})
    host.add("/kernel", "-> proc")

    with pytest.raises(PolicyError) as refused:
        plan_of(*rules, host=host)

    assert refused.value.code == code


@pytest.mark.parametrize("rule", ["/*/ssl/*.pem", "/**/*.pem", "/da*", "*.pem", "/processes/*", "/de[!v]*"])
def test_a_pattern_that_is_not_meant_for_proc_and_dev_is_taken(rule: str) -> None:
    plan_of(f"filesystem:deny:{rule}")


def test_a_grant_of_a_preset_that_a_pattern_denies_is_left_out() -> None:
    granted = {grant.target.path for grant in plan_of("filesystem:deny:/us?").resolved.grants}

    assert not any(path.startswith("/usr") for path in granted)


@pytest.mark.parametrize(("most", "what"), [("MOST_NAMES", "names"), ("MOST_MATCHES", "paths")])
def test_too_much_to_look_at_is_refused_in_words(monkeypatch, most: str, what: str) -> None:
    monkeypatch.setattr(patterns, most, 1)

    with pytest.raises(PolicyError) as refused:
        plan_of("filesystem:deny:*.pem")

    assert refused.value.code == "pattern-too-much"
    assert what in refused.value.why


def test_a_link_that_fulfils_a_pattern_stands_for_what_it_leads_to() -> None:
    host = FakeHost(
        {f"{WORK}/real/key": "", f"{WORK}/l.pem": "-> real/key", f"{WORK}/gone.pem": "-> no/where"}
    )
    plan = plan_of("filesystem:deny:*.pem", host=host)
    held = {(watch.name, watch.link_text) for watch in plan.watches}

    assert _denied(plan) == {"real/key"}
    assert {("l.pem", "real/key"), ("gone.pem", "no/where")} <= held


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ("protect:*.txt", {"sec/b.txt"}),
        ("protect:sec/*", {"sec/b.txt", "sec/a.pem"}),
        ("protect:/*.txt", set()),
        ("read:${workspace}/**/*.txt", {"sec/b.txt"}),
        ("read:*.txt", {"sec/b.txt"}),
    ],
)
def test_what_fulfils_a_protected_pattern_is_shielded(rule: str, found: set[str]) -> None:
    plan = plan_of(f"filesystem:{rule}")
    shields = {shield.target.path.removeprefix(f"{WORK}/") for shield in plan.shields}

    assert shields == found
    assert Feature.FS_PROTECT in plan.requires
    assert {glob.text for search in plan.searches for glob in search.globs}


def test_a_protected_pattern_of_a_wider_policy_holds_in_what_a_narrower_one_leaves() -> None:
    host = FakeHost(FILES)
    wide = build_policy("moderate", ("filesystem:protect:deep/*/c*",))
    narrow = build_policy("strict", ("filesystem:write:${workspace}/deep",))
    policy = wide & narrow
    plan = build(policy, Command(("true",), WORK), resolve_policy(policy, WORK, host), host, run_id="1")

    assert f"{WORK}/deep/down/c.pem" in {shield.target.path for shield in plan.shields}


def test_why_speaks_of_patterns() -> None:
    host = FakeHost(FILES)
    plan = plan_of("filesystem:deny:*.pem", "filesystem:protect:*.sh", "filesystem:read:*.md", host=host)

    def decided(path: str, *, writes: bool = False) -> tuple[bool, str]:
        decision = decide_path(plan, host, f"{WORK}/{path}", writes=writes)
        return decision.allowed, decision.rule

    assert decided("sec/a.pem") == (False, "**/*.pem")
    assert decided("not/yet.pem") == (False, "**/*.pem")
    assert decided("dir.pem/inside") == (False, "**/*.pem")
    assert decided("run.sh", writes=True) == (False, "**/*.sh")
    assert decided("x/README.md", writes=True) == (False, "**/*.md")
    assert decided("sec/b.txt", writes=True)[0]


def test_a_path_with_a_star_is_granted_by_its_name() -> None:
    host = FakeHost({"/data/a*b/x": "", "/data/aXb/x": ""})
    granted = {
        grant.target.path for grant in plan_of(r"filesystem:read:/data/a\*b", host=host).resolved.grants
    }

    assert "/data/a*b" in granted
    assert "/data/aXb" not in granted


def test_a_path_that_a_pattern_stands_for_by_its_own_name_is_not_ambiguous() -> None:
    host = FakeHost({f"{WORK}/a*": "", f"{WORK}/ab": ""})

    assert _denied(plan_of("filesystem:deny:${workspace}/a*", host=host)) == {"a*", "ab"}
    assert _denied(plan_of(r"filesystem:deny:${workspace}/a\*", host=host)) == {"a*"}


def test_a_workspace_with_a_star_is_no_pattern() -> None:
    place = "/home/ann/a*[b]"
    host = FakeHost({f"{place}/k.pem": "", "/home/ann/aXb/k.pem": ""}, cwd=place)
    resolved = resolve_policy(build_policy("moderate", ("filesystem:deny:${workspace}/*.pem",)), place, host)

    assert [target.path for target in resolved.denied] == [f"{place}/k.pem"]


def _met(*capabilities: str, host: FakeHost, narrow: str = "sec"):
    """The plan of a policy that is narrowed to one directory of the workspace."""
    inner = build_policy("strict", (f"filesystem:write:${{workspace}}/{narrow}",))
    inner = inner.replace(fs=tuple(rule for rule in inner.fs if rule.path != "${workspace}"))
    policy = build_policy("moderate", capabilities) & inner
    return build(policy, Command(("true",), WORK), resolve_policy(policy, WORK, host), host, run_id="1")


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ("**/sec/*.pem", {"sec/a.pem"}),
        ("${workspace}/sec/*.pem", {"sec/a.pem"}),
        ("*.key", {"sec/b.txt"}),
        ("${workspace}/*.key", {"sec/b.txt"}),
    ],
)
def test_what_a_wider_policy_denies_by_names_and_links_above_stays_denied(rule: str, found: set[str]) -> None:
    host = FakeHost({**FILES, f"{WORK}/l.key": "-> sec/b.txt"})

    assert _denied(_met(f"filesystem:deny:{rule}", host=host)) == found


def _shielded(plan) -> set[str]:
    return {shield.target.path.removeprefix(f"{WORK}/") for shield in plan.shields}


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ("protect:*.sh", {"sec/b.txt"}),
        ("protect:/*.sh", {"sec/b.txt"}),
        ("protect:**/sec/*.pem", {"sec/a.pem"}),
        ("read:*.sh", {"sec/b.txt"}),
        ("read:${workspace}/*.sh", {"sec/b.txt"}),
        ("read:**/sec/*.pem", {"sec/a.pem"}),
        ("read:${workspace}/sec/*.pem", {"sec/a.pem"}),
    ],
)
def test_patterns_begin_above_a_writable_path_inside_another_grant(rule: str, found: set[str]) -> None:
    host = FakeHost({**FILES, f"{WORK}/run.sh": "-> sec/b.txt"})
    inside = plan_of("filesystem:write:${workspace}/sec", f"filesystem:{rule}", host=host, preset="strict")

    assert _shielded(inside) == found
    assert _shielded(_met(f"filesystem:{rule}", host=host)) == found


@pytest.mark.parametrize("rule", ["se?", "${workspace}/se?"])
def test_a_grant_inside_another_one_that_fulfils_a_read_only_pattern_is_read(rule: str) -> None:
    plan = plan_of("filesystem:write:${workspace}/sec", f"filesystem:read:{rule}", preset="strict")
    writable = {grant.target.path for grant in plan.resolved.grants if grant.access is FsAccess.WRITE}

    assert f"{WORK}/sec" not in writable


def test_a_writable_path_that_a_link_makes_protected_is_refused() -> None:
    host = FakeHost({**FILES, f"{WORK}/l.d": "-> sec"})

    with pytest.raises(PolicyError) as refused:
        plan_of("filesystem:write:${workspace}/sec", "filesystem:read:*.d", host=host, preset="strict")

    assert refused.value.code == "grant-protected"


@pytest.mark.parametrize("name", ["k.pem", "d" * 250 + "/k.pem"])
def test_what_lies_deeper_than_a_path_can_be_long_is_refused(name: str) -> None:
    deep = "/".join(["d" * 250] * 16)
    depth = 4094 - len(f"{WORK}/{deep}/")
    host = FakeHost({f"{WORK}/{deep}/{'e' * (depth - 2)}/{name}": ""})

    with pytest.raises(PolicyError) as refused:
        plan_of("filesystem:deny:*.pem", host=host)

    assert refused.value.code == "pattern-too-much"


def test_a_read_only_pattern_is_not_given_up_with_what_is_protected() -> None:
    host = FakeHost(FILES)
    policy = build_policy("moderate", ("filesystem:read:*.txt",))
    resolved = resolve_policy(policy, WORK, host)

    with pytest.raises(PolicyError) as refused:
        build(
            policy,
            Command(("true",), WORK),
            resolved,
            host,
            run_id="1",
            waived=frozenset({Feature.FS_PROTECT}),
        )

    assert refused.value.code == "contradiction"
