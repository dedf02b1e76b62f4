"""The order of the launcher's mounts: what a cover hides is mounted before it, and stays."""

from __future__ import annotations

import random

import pytest

from corral.backends._inner import without_covered
from corral.backends.registry import get_backend
from corral.linux.decode import decode
from corral.linux.spec import ExpectFlag, MountFlag, MountKind, PathRule
from corral.model.errors import UnenforceableError
from support.golden_cases import REPOSITORY, WORKSPACE, Case, fake_probe, host_of, plan_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from corral.linux.spec import Mount, Spec

GIT = f"{WORKSPACE}/.git"
NESTED = {
    **REPOSITORY,
    f"{WORKSPACE}/src/module/.git/config": "[core]\n",
    f"{WORKSPACE}/src/module/.git/hooks/": "",
    f"{WORKSPACE}/src/module/secret": "the secret",
}
both = pytest.mark.parametrize("backend", ["native", "bubblewrap"])


def _spec(backend: str, *capabilities: str) -> Spec:
    case = Case("order", files=NESTED, capabilities=capabilities)
    probe = fake_probe(backend, host_of(case))
    launch = get_backend(backend).lower(plan_of(case, probe), probe)
    assert launch.spec is not None
    return decode(launch.spec)


def _beneath(mounts: tuple[Mount, ...], top: str) -> list[str]:
    """Paths of the mounts at a path and beneath it, in order."""
    return [mount.target for mount in mounts if f"{mount.target}/".startswith(f"{top}/")]


@both
@pytest.mark.parametrize(("rule", "kinds"), [("deny", {"MASK"}), ("private", {"AREA", "TMPFS"})])
def test_a_cover_comes_after_what_is_held_beneath_it(backend: str, rule: str, kinds: set[str]) -> None:
    spec = _spec(backend, f"filesystem:{rule}:{GIT}")

    assert _beneath(spec.mounts, GIT) == [f"{GIT}/config", f"{GIT}/hooks", GIT]
    assert {mount.kind.name for mount in spec.mounts if mount.target == GIT} <= kinds
    assert all(
        MountFlag.READ_ONLY in mount.flags for mount in spec.mounts if mount.target.startswith(f"{GIT}/")
    )


@both
def test_what_is_held_beneath_two_covers_comes_before_both(backend: str) -> None:
    top = f"{WORKSPACE}/src"
    spec = _spec(backend, f"filesystem:deny:{top}", f"filesystem:deny:{top}/module/.git")

    assert _beneath(spec.mounts, top) == [
        f"{top}/module",
        f"{top}/module/.git/config",
        f"{top}/module/.git/hooks",
        f"{top}/module/.git",
        top,
    ]


@both
def test_a_denial_in_a_private_area_is_held_beneath_it(backend: str) -> None:
    top = f"{WORKSPACE}/src"
    spec = _spec(backend, f"filesystem:private:{top}", f"filesystem:deny:{top}/module/secret")

    order = _beneath(spec.mounts, top)
    assert order.index(f"{top}/module") < order.index(f"{top}/module/secret") < order.index(top)
    assert order[-1] == top


@both
def test_what_no_cover_hides_goes_from_shallow_to_deep(backend: str) -> None:
    spec = _spec(backend, f"filesystem:deny:{WORKSPACE}/src/module/secret")

    depths = [mount.target.count("/") for mount in spec.mounts]
    assert depths == sorted(depths)


@both
def test_a_private_area_is_not_a_protected_directory_that_has_its_place(backend: str) -> None:
    spec = _spec(backend, f"filesystem:private:{GIT}/hooks")

    [hooks] = [mount for mount in spec.mounts if mount.target == f"{GIT}/hooks"]
    assert hooks.kind in {MountKind.AREA, MountKind.TMPFS}


def test_what_is_granted_in_a_private_area_is_mounted_upon_it_and_held_beneath() -> None:
    spec = _spec("native", f"filesystem:private:{GIT}", f"filesystem:read:{GIT}/hooks")

    assert _beneath(spec.mounts, GIT) == [f"{GIT}/config", f"{GIT}/hooks", GIT, f"{GIT}/hooks"]


def test_bubblewrap_is_not_told_of_an_area_that_the_launcher_makes_and_the_launcher_looks_at_it() -> None:
    case = Case("area", files=NESTED, capabilities=(f"filesystem:private:{GIT}", "disk:limit:50MB"))
    probe = fake_probe("bubblewrap", host_of(case))
    launch = get_backend("bubblewrap").lower(plan_of(case, probe), probe)
    assert launch.spec is not None
    spec = decode(launch.spec)

    assert GIT not in launch.argv
    assert [expect.flags for expect in spec.expects if expect.path == GIT] == [ExpectFlag.TMPFS]
    sizes = {launch.argv[at + 1] for at, word in enumerate(launch.argv) if word == "--size"}
    assert {str(mount.size) for mount in spec.mounts if mount.target == GIT} == sizes


def test_bubblewrap_refuses_a_grant_in_an_area_in_what_is_writable() -> None:
    with pytest.raises(UnenforceableError) as refused:
        _spec("bubblewrap", f"filesystem:private:{GIT}", f"filesystem:read:{GIT}/hooks")

    assert "cannot make the private area" in str(refused.value)


def _kinds(*capabilities: str) -> dict[str, str]:
    return {mount.target: mount.kind.name for mount in _spec("native", *capabilities).mounts}


def test_files_of_etc_are_copied_into_the_root_and_directories_bound() -> None:
    kinds = _kinds()

    assert kinds["/etc/hosts"] == kinds["/etc/passwd"] == "COPY"
    assert kinds["/etc/alternatives"] == "BIND"


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ("filesystem:private:/etc", "BIND"),  # a copy there could be written
        ("filesystem:read:/etc/hosts", "BIND"),  # somebody has named it, and may write it meanwhile
        ("filesystem:write:/etc/hosts", "BIND"),
    ],
)
def test_what_may_be_written_or_is_named_is_not_copied(rule: str, kind: str) -> None:
    assert _kinds(rule)["/etc/hosts"] == kind


def test_rules_that_are_left_out_permit_nothing_else() -> None:
    """For every path of every rule, what all rules above it permit together is the same."""
    names = ["/", "/a", "/a/b", "/a/b/c", "/ab", "/d"]
    for number in range(4000):
        chance = random.Random(number)
        rules = tuple(PathRule(chance.randrange(1, 8), chance.choice(names)) for _ in range(6))

        left = without_covered(rules)

        assert [_permitted(path, left) for path in names] == [_permitted(path, rules) for path in names]
        assert all(rule.rights & ~_permitted(rule.path, set(left) - {rule}, above=True) for rule in left)


def test_what_lies_in_an_area_that_commands_change_has_a_rule_of_its_own() -> None:
    """Whoever closes or moves the way there is found out when the rule is made."""
    rules = (PathRule(7, "/tmp"), PathRule(7, "/tmp/work"), PathRule(7, "/tmp/work/below"))

    assert without_covered(rules, {"/tmp"}) == rules[:2]
    assert without_covered(rules) == rules[:1]


def _permitted(path: str, rules: Iterable[PathRule], *, above: bool = False) -> int:
    found = 0
    for rule in rules:
        if rule.path == "/" or f"{path}/".startswith(f"{rule.path}/"):
            found |= rule.rights if not (above and rule.path == path) else 0
    return found
