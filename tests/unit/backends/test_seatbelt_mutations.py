"""A profile from which anything is removed is found out: each rule counts, and the evaluator can fail."""

from __future__ import annotations

import posixpath

import pytest

from corral.backends.registry import get_backend
from corral.model.decision import Reason
from corral.model.plan import StdioMode
from corral.model.policy import NetMode
from corral.planning.decide import decide_path
from corral.policy.compose import build_policy
from support.mac import HOME, REPOSITORY, WORKSPACE, MacHost, mac_plan, mac_probe
from support.sbpl import Profile, Request, parse, unparse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from corral.model.plan import Plan
    from support.sbpl import Form

FILES = {
    **REPOSITORY,
    f"{WORKSPACE}/secrets/key": "",
    f"{WORKSPACE}/lib/fixed/x": "",
    f"{WORKSPACE}/lib/area/": "",
    f"{HOME}/shared/area/": "",
    "/data/link": f"-> {HOME}/shared",
    "/data/file": "text",
}
CAPABILITIES = (
    "filesystem:deny:${workspace}/secrets",
    "filesystem:deny:${workspace}/later",
    "filesystem:read:${workspace}/lib/fixed",
    "filesystem:private:${workspace}/lib/area",
    f"filesystem:private:{HOME}/shared/area",
    "filesystem:read:/data/link",
    "filesystem:write:/data/file",
    "network:full",
)
HOST = MacHost(FILES)
PROBE = mac_probe("seatbelt", HOST)
PLAN = mac_plan(build_policy("moderate", CAPABILITIES), HOST, PROBE, stdio=StdioMode.TERMINAL)
LAUNCH = get_backend("seatbelt").lower(PLAN, PROBE)
TEXT = LAUNCH.profile.content.decode()
SYSTEM = {"/", "/usr/lib", "/usr/lib/x", "/tmp", "/bin/sh", "/dev/null", "/dev/fd/3", "/data/link"}
SYSTEM_METADATA = {"/Users", HOME, "/data", "/dev", "/private", f"{HOME}/shared"}


def _paths(plan: Plan) -> Iterator[str]:
    held = [shield.target.path for shield in plan.shields] + [target.path for target in plan.resolved.denied]
    held += [posixpath.join(watch.directory, watch.name) for watch in plan.watches]
    held += [pin.path for pin in plan.pins] + [grant.target.path for grant in plan.resolved.grants]
    held += [area for area in plan.resolved.private if area.startswith("/Users/")]
    for path in (*held, LAUNCH.scratch):
        yield path
        stat = HOST.lstat(path)
        if stat is None or stat.is_directory:
            yield f"{path}/inner"


def expected(operation: str, path: str) -> bool:
    """What the policy says, for the paths of this case."""
    own = path.startswith(f"{LAUNCH.scratch}/") or path == LAUNCH.scratch
    moves = operation in {"file-write-create", "file-write-unlink"}
    if path == LAUNCH.started:
        return operation in {"file-read-data", "process-exec", "file-write-create", "file-write-data"}
    if own:
        return not operation.startswith("file-write") or path != LAUNCH.scratch
    if path in SYSTEM:
        is_device = path.startswith("/dev/")
        executes = path in {"/", "/bin/sh", "/usr/lib", "/usr/lib/x"}
        return (
            operation == "file-read-data"
            or (executes and operation == "process-exec")
            or (is_device and operation == "file-write-data")
        )
    writes = operation.startswith("file-write")
    decision = decide_path(PLAN, HOST, path, writes=writes)
    stays = {pin.path for pin in PLAN.pins} | {grant.target.path for grant in PLAN.resolved.grants}
    return decision.allowed and decision.reason is not Reason.PRIVATE and not (moves and path in stays)


def battery() -> list[tuple[Request, bool]]:
    """Everything that is asked, and the right answers."""
    moves = ("file-write-create", "file-write-unlink")
    operations = ("file-read-data", "process-exec", "file-write-data", *moves)
    asked = [
        (Request(operation, path), expected(operation, path))
        for path in sorted({*_paths(PLAN), *SYSTEM, LAUNCH.started, "/private/etc/passwd", f"{HOME}/.ssh/id"})
        for operation in operations
    ]
    asked += [(Request("file-read-metadata", path), True) for path in sorted(SYSTEM_METADATA)]
    full = PLAN.resolved.net.mode is NetMode.FULL
    asked += [(Request("network-outbound", remote="93.184.216.34:443"), full)]
    asked += [(Request("network-outbound", "/private/var/run/mDNSResponder"), full)]
    asked += [(Request(f"network-{name}", local="127.0.0.1:80"), full) for name in ("bind", "inbound")]
    asked += [(Request("process-fork"), PLAN.resolved.spawn)]
    for name in ("signal", "process-info-pidinfo"):
        asked += [(Request(name, target=target), target != "others") for target in ("self", "others")]
    asked += [(Request("sysctl-read", name=name), name == "hw.ncpu") for name in ("hw.ncpu", "kern.proc.all")]
    asked += [(Request("mach-lookup", name="com.apple.system.opendirectoryd.libinfo"), True)]
    asked += [(Request(name), False) for name in ("nvram-get", "ipc-sysv-shm", "forbidden-exec-sugid")]
    inside = frozenset({"com.apple.sandbox.pty"})
    asked += [(Request("pseudo-tty"), True), (Request("file-ioctl", "/dev/ttys001"), True)]
    asked += [(Request("file-ioctl", "/dev/ptmx"), True), (Request("file-write-data", "/dev/ptmx"), True)]
    asked += [(Request("file-read-data", "/dev/ttys001", extensions=inside), True)]
    return [*asked, (Request("file-read-data", "/dev/ttys001"), False)]


BATTERY = battery()


def wrong_answers(text: str) -> list[Request]:
    profile = Profile(text)
    found = []
    for request, answer in BATTERY:
        try:
            right = profile.allows(request) == answer
        except AssertionError:
            right = False
        if not right:
            found.append(request)
    return found


def without_each_rule() -> list[str]:
    forms = parse(TEXT)
    return [
        "".join(map(unparse, (*forms[:number], *forms[number + 1 :])))
        for number in range(1, len(forms))
        if forms[number] != ["deny", "default"]
    ]


def without_each_exception(form: Form) -> Iterator[Form]:
    """The form with one `require-not` less, in every way."""
    if not isinstance(form, list):
        return
    for number, part in enumerate(form):
        before, after = form[:number], form[number + 1 :]
        if isinstance(part, list) and part[:1] == ["require-not"]:
            yield [*before, *after]
        else:
            yield from ([*before, changed, *after] for changed in without_each_exception(part))


EXCEPTIONS = ["".join(map(unparse, changed)) for changed in without_each_exception(parse(TEXT))]


def test_the_whole_profile_answers_everything_rightly() -> None:
    assert wrong_answers(TEXT) == []


@pytest.mark.parametrize("number", range(len(without_each_rule())))
def test_a_rule_that_is_missing_is_noticed(number: int) -> None:
    assert wrong_answers(without_each_rule()[number]) != [], unparse(parse(TEXT)[number + 1])


def test_an_exception_that_is_missing_is_noticed() -> None:
    assert len(EXCEPTIONS) > 40
    assert [number for number, text in enumerate(EXCEPTIONS) if wrong_answers(text) == []] == []


def test_a_profile_that_allows_everything_is_noticed() -> None:
    allowing = wrong_answers("(version 1)(allow default)")

    assert len(allowing) > len(BATTERY) / 4


def test_a_denial_that_became_a_grant_is_noticed() -> None:
    assert wrong_answers(TEXT.replace("(deny default)", "(allow default)")) != []
