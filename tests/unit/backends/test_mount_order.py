"""The order of the launcher's mounts: what a cover hides is mounted before it, and stays."""

from __future__ import annotations

import pytest

from corral.backends.registry import get_backend
from corral.linux.decode import decode
from corral.linux.spec import ExpectFlag, MountFlag, MountKind
from corral.model.errors import UnenforceableError
from support.golden_cases import REPOSITORY, WORKSPACE, Case, fake_probe, host_of, plan_of

TYPE_CHECKING = False
if TYPE_CHECKING:
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
