"""Laws of Seatbelt profiles: an evaluator that knows nothing of the generator decides as the policy does."""

from __future__ import annotations

import itertools
import posixpath

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from corral.backends.registry import get_backend
from corral.model.decision import Reason
from corral.model.errors import PolicyError
from corral.model.feature import Feature
from corral.model.plan import PathKind
from corral.model.policy import FsAccess, FsRule, NetMode, NetPolicy, Policy
from corral.planning.decide import decide_path
from corral.planning.resolve import Resolver, is_beneath
from support.examples import examples
from support.mac import HOME, WORKSPACE, MacHost, mac_plan, mac_probe
from support.sbpl import Profile, Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.plan import Plan

NAMES = ("a", "b", ".git", "hooks", "config")
TOPS = (WORKSPACE, f"{HOME}/other", "/data", "/data/c")
CHANGES = ("data", "mode", "owner", "times", "flags", "xattr")
MOVES = ("create", "unlink")
#: What the documents say can always be read: the system's own libraries, and what starts a command.
ALWAYS_READABLE = (
    *("/usr/lib", "/System/Library", "/System/Cryptexes", "/System/Volumes/Preboot/Cryptexes"),
    *("/Library/Apple", "/private/var/db/dyld", "/private/var/db/timezone"),
)
ALWAYS_READABLE_FILES = {"/", "/bin/sh", "/bin/bash", "/bin/dash", "/private/etc/localtime"}
SYSTEM_LINKS = {"/tmp", "/var", "/etc", "/private/var/select/sh"}

_parts = st.lists(st.sampled_from(NAMES), max_size=4)
paths = st.builds(lambda top, parts: posixpath.join(top, *parts), st.sampled_from(TOPS), _parts)
#: Every path that is three names deep or less, and some that are deeper.
_WANTED = tuple(
    posixpath.join(top, *parts)
    for top in TOPS
    for depth in range(3)
    for parts in itertools.product(NAMES, repeat=depth)
)
_FEW = examples(40)
_SOME = examples(70)
_texts = st.one_of(st.none(), st.just("text"), paths.map(lambda path: f"-> {path}"))
_entries = st.dictionaries(paths, _texts, max_size=10)
_rules = st.builds(FsRule, paths, st.sampled_from(FsAccess), st.just(True))
_protected = st.frozensets(st.sampled_from([".git/hooks", ".git/config", "a", "b/hooks"]), max_size=3)
policies = st.builds(
    Policy,
    fs=st.lists(_rules, min_size=1, max_size=7).map(tuple),
    private=st.frozensets(st.one_of(st.sampled_from(["/tmp", HOME, "/data/a"]), paths), max_size=3),
    protect=_protected,
    net=st.builds(NetPolicy, st.sampled_from([NetMode.NONE, NetMode.FULL])),
    spawn=st.booleans(),
)


def _host(entries: dict[str, str | None]) -> MacHost:
    host = MacHost({f"{top}/": "" for top in TOPS})
    for path, text in sorted(entries.items(), key=lambda item: len(item[0])):
        above = path
        while (above := posixpath.dirname(above)) not in TOPS and above != "/":
            stat = host.lstat(above)
            if stat is not None and not stat.is_directory:
                break
        else:
            if host.lstat(path) is None:
                host.add(f"{path}/" if text is None else path, text or "")
    return host


hosts = st.builds(_host, _entries)


def planned(policy: Policy, host: MacHost) -> tuple[Plan, Profile]:
    probe = mac_probe("seatbelt", host)
    try:
        plan = mac_plan(policy, host, probe)
    except PolicyError:
        assume(False)
        raise
    return plan, Profile(get_backend("seatbelt").lower(plan, probe).profile.content.decode())


def may(plan: Plan, host: MacHost, path: str, *, writes: bool) -> bool:
    """What the policy says about something of the host; a private area has nothing of it."""
    decision = decide_path(plan, host, path, writes=writes)
    return decision.allowed and decision.reason is not Reason.PRIVATE


def real(host: MacHost, more: list[str]) -> set[str]:
    """Where paths lead: the kernel asks about that. Beneath a file there is no question."""
    resolver = Resolver(host)
    found = {resolver.resolve(path).path for path in (*_WANTED, *more)}
    return {path for path in found if not any(_is_file(host, above) for above in _above(path))}


def _above(path: str) -> Iterator[str]:
    while path != "/":
        path = posixpath.dirname(path)
        yield path


def _is_file(host: MacHost, path: str) -> bool:
    stat = host.lstat(path)
    return stat is not None and not stat.is_directory


def has_to_stay(plan: Plan, path: str) -> bool:
    """Moved away, it would take something stricter along, or a whole grant."""
    pinned = {pin.path for pin in plan.pins}
    return path in pinned or path in {grant.target.path for grant in plan.resolved.grants}


@_SOME
@given(policies, hosts, st.lists(paths, max_size=3))
def test_what_can_be_read_and_executed_is_what_the_policy_grants(policy, host, wanted) -> None:
    plan, profile = planned(policy, host)
    links = {link.path for link in plan.resolved.links}
    for path in real(host, wanted) - links:
        expected = may(plan, host, path, writes=False)

        assert profile.allows(Request("file-read-data", path)) == expected, path
        assert profile.allows(Request("file-read-xattr", path)) == expected, path
        assert profile.allows(Request("process-exec", path)) == expected, path
        assert profile.allows(Request("file-map-executable", path)) == expected, path


@_SOME
@given(policies, hosts, st.lists(paths, max_size=3))
def test_what_can_be_written_is_what_the_policy_grants(policy, host, wanted) -> None:
    plan, profile = planned(policy, host)
    for path in real(host, wanted):
        expected = may(plan, host, path, writes=True)

        for change in CHANGES:
            assert profile.allows(Request(f"file-write-{change}", path)) == expected, (change, path)
        for move in MOVES:
            allowed = expected and not has_to_stay(plan, path)
            assert profile.allows(Request(f"file-write-{move}", path)) == allowed, (move, path)
        for never in ("file-link", "file-clone", "file-mount", "file-write-setugid", "file-write-mount"):
            assert not profile.allows(Request(never, path))


@_FEW
@given(policies, hosts, st.lists(paths, max_size=3))
def test_the_status_of_a_path_is_shown_only_on_the_way_to_a_grant(policy, host, wanted) -> None:
    plan, profile = planned(policy, host)
    ends = [grant.target.path for grant in plan.resolved.grants] + [link.path for link in plan.resolved.links]
    for path in real(host, wanted):
        on_the_way = any(is_beneath(end, path) for end in ends)
        expected = may(plan, host, path, writes=False) or on_the_way

        assert profile.allows(Request("file-read-metadata", path)) == expected, path


@_FEW
@given(policies, hosts, st.lists(paths, max_size=3))
def test_nothing_that_is_held_can_be_moved_away_with_what_is_above_it(policy, host, wanted) -> None:
    """Whatever may be renamed holds nothing stricter: else that would be as open as its new place."""
    plan, profile = planned(policy, host)
    movable = [path for path in real(host, wanted) if profile.allows(Request("file-write-unlink", path))]
    held = [shield.target.path for shield in plan.shields] + [target.path for target in plan.resolved.denied]
    held += [posixpath.join(watch.directory, watch.name) for watch in plan.watches]
    held += [grant.target.path for grant in plan.resolved.grants]
    held = [path for path in held if host.lstat(posixpath.dirname(path)) is not None]

    assert [(path, other) for path in movable for other in held if is_beneath(other, path)] == []


_VARIANTS = st.sampled_from([str.upper, str.title, str.swapcase, lambda text: text.replace("k", "\u212a")])


@_FEW
@given(policies, hosts, st.sets(_VARIANTS, min_size=1), _parts)
def test_another_spelling_of_what_is_held_is_not_written_either(policy, host, variants, below) -> None:
    """Most disks of Macs do not tell cases apart: `.Git/HOOKS` is the directory that git runs."""
    plan, profile = planned(policy, host)
    held = [shield.target.path for shield in plan.shields] + [target.path for target in plan.resolved.denied]
    held += [posixpath.join(watch.directory, watch.name) for watch in plan.watches]
    for path in held:
        parent, name = posixpath.split(path)
        for variant in variants:
            for end in ((), tuple(below)):
                other = posixpath.join(parent, variant(name), *end)
                assert not profile.allows(Request("file-write-create", other)), other
                assert not profile.allows(Request("file-write-unlink", other)), other


@_FEW
@given(
    policies, hosts, st.sampled_from(["93.184.216.34:443", "localhost:22", "127.0.0.1:8080", "10.0.0.1:53"])
)
def test_the_network_is_there_in_full_or_not_at_all(policy, host, address) -> None:
    plan, profile = planned(policy, host)
    full = plan.resolved.net.mode is NetMode.FULL

    assert profile.allows(Request("network-outbound", remote=address)) == full
    assert profile.allows(Request("network-bind", local=address)) == full
    assert profile.allows(Request("network-inbound", local=address)) == full
    for socket in ("/private/var/run/docker.sock", f"{WORKSPACE}/a", "/private/tmp/agent.1"):
        assert not profile.allows(Request("network-outbound", socket)), (
            "a path leads to whoever listens there"
        )


@_FEW
@given(policies, hosts)
def test_processes_stay_among_themselves(policy, host) -> None:
    plan, profile = planned(policy, host)

    assert profile.allows(Request("process-fork")) == plan.resolved.spawn
    for operation in ("signal", "process-info-pidinfo", "process-info-listpids"):
        assert profile.allows(Request(operation, target="self"))
        assert profile.allows(Request(operation, target="same-sandbox"))
        assert not profile.allows(Request(operation, target="others"))


@_FEW
@given(policies, hosts)
def test_what_no_policy_grants_nobody_has(policy, host) -> None:
    """Set-user-id programs, services, shared memory, devices, settings of the machine, other processes."""
    _, profile = planned(policy, host)
    for operation in (
        *("forbidden-exec-sugid", "mach-priv-task-port", "mach-task-name", "mach-register", "system-socket"),
        *("ipc-posix-shm-read-data", "ipc-posix-sem", "ipc-sysv-shm", "ipc-sysv-sem", "ipc-sysv-msg"),
        *("iokit-open", "iokit-get-properties", "nvram-get", "nvram-set", "job-creation", "lsopen"),
        *("appleevent-send", "system-privilege", "user-preference-write", "sysctl-write", "pseudo-tty"),
    ):
        assert not profile.allows(Request(operation)), operation
    for name in ("kern.proc.all", "kern.procargs2", "kern.proc.pid.1", "net.routetable.0", "security.mac"):
        assert not profile.allows(Request("sysctl-read", name=name))
    for name in (
        "com.apple.coreservices.launchservicesd",
        "com.apple.securityd.xpc",
        "com.apple.pasteboard.1",
    ):
        assert not profile.allows(Request("mach-lookup", name=name))
    assert profile.allows(Request("sysctl-read", name="hw.ncpu"))


@_FEW
@given(
    policies,
    hosts,
    st.sampled_from([*ALWAYS_READABLE, "/usr", "/System", "/private/var/db", "/Users"]),
    _parts,
)
def test_of_the_system_only_what_programs_are_made_of_is_always_readable(policy, host, top, parts) -> None:
    _, profile = planned(policy, host)
    path = posixpath.join(top, *parts)
    assume(not path.startswith("/Users/"))
    expected = any(is_beneath(path, tree) for tree in ALWAYS_READABLE)

    assert profile.allows(Request("file-read-data", path)) == expected
    assert not profile.allows(Request("file-write-data", path))
    assert not profile.allows(Request("file-read-data", f"/System/Volumes/Data{path}"))
    for file in ALWAYS_READABLE_FILES | SYSTEM_LINKS:
        assert profile.allows(Request("file-read-data", file))


@_FEW
@given(policies, hosts, _parts)
def test_the_scratch_directory_is_the_runs_own_and_stays(policy, host, parts) -> None:
    plan, profile = planned(policy, host)
    launch = get_backend("seatbelt").lower(plan, mac_probe("seatbelt", host))
    private = bool(plan.resolved.private)
    path = posixpath.join(launch.scratch, "x", *parts)

    assert profile.allows(Request("file-read-data", path)) == private
    for change in (*CHANGES, *MOVES):
        assert profile.allows(Request(f"file-write-{change}", path)) == private
    assert not profile.allows(Request("file-write-unlink", launch.scratch))
    assert profile.allows(Request("file-write-create", launch.started))
    for change in ("unlink", "mode", "flags"):
        assert not profile.allows(Request(f"file-write-{change}", launch.started))
    assert not profile.allows(Request("file-read-data", f"{launch.scratch}1/x"))


def test_the_laws_are_tried_on_policies_that_need_everything() -> None:
    """Else they would hold for want of examples."""
    seen: set[Feature] = set()
    kinds: set[PathKind] = set()

    @settings(max_examples=150)
    @given(policies, hosts)
    def look(policy, host) -> None:
        plan, _ = planned(policy, host)
        seen.update(plan.requires)
        kinds.update(target.kind for target in plan.resolved.denied)
        kinds.update(grant.target.kind for grant in plan.resolved.grants)

    look()

    assert seen >= {Feature.FS_DENY, Feature.FS_PROTECT, Feature.FS_PRIVATE, Feature.PROC_SINGLE}
    assert kinds == set(PathKind)


@pytest.mark.parametrize("port", [8080, 49152])
def test_with_a_gateway_its_port_is_all_there_is(port: int) -> None:
    from corral.backends._sbpl import Seat, build_profile

    host = MacHost()
    policy = Policy(net=NetPolicy(NetMode.LIMITED, frozenset({"https:example.org"})))
    plan = mac_plan(policy, host, mac_probe("seatbelt", host))
    profile = Profile(build_profile(plan, Seat("/s", "/s/started", private=False, proxy_port=port)))
    without = Profile(build_profile(plan, Seat("/s", "/s/started", private=False)))

    assert profile.allows(Request("network-outbound", remote=f"127.0.0.1:{port}"))
    assert not profile.allows(Request("network-outbound", remote=f"127.0.0.1:{port + 1}"))
    assert not profile.allows(Request("network-outbound", remote=f"93.184.216.34:{port}"))
    assert not profile.allows(Request("network-bind", local=f"127.0.0.1:{port}"))
    assert not without.allows(Request("network-outbound", remote=f"127.0.0.1:{port}"))
