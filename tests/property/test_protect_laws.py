"""Laws of protection: whatever a tree looks like, no protected name is dropped."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from corral.model.plan import PathKind
from corral.planning.protect import Protection, protect
from corral.planning.resolve import Resolver, is_beneath
from support.examples import examples
from support.trees import ROOT, hosts

NAMES = (".git/hooks", ".git/config", "config", "a/b", "hooks")
names = st.frozensets(st.sampled_from(NAMES), min_size=1)


def _is_held(protection: Protection, path: str) -> bool:
    """Covered by a shield, or something at or above it is watched."""
    shielded = any(is_beneath(path, shield) for shield in protection.shields)
    return shielded or any(is_beneath(path, f"{directory}/{name}") for directory, name in protection.watches)


@given(hosts, names)
def test_every_protected_name_is_shielded_or_watched(host, protected) -> None:
    found = protect(host, Resolver(host), [ROOT], protected, ())

    assert [name for name in protected if not _is_held(found, f"{ROOT}/{name}")] == []


@examples(400)
@given(hosts, names)
def test_what_a_protected_name_leads_to_is_held_as_well(host, protected) -> None:
    """A hook directory that is a link: the host runs what lies at its end."""
    found = protect(host, Resolver(host), [ROOT], protected, ())
    for name in protected:
        real = Resolver(host).resolve(f"{ROOT}/{name}")
        if real.kind is not PathKind.MISSING and is_beneath(real.path, ROOT) and real.path != ROOT:
            assert _is_held(found, real.path), (name, real.path)


@given(hosts, names, st.sampled_from(["/w/a", "/w/b", "/w/.git", "/elsewhere"]))
def test_another_writable_root_never_removes_a_shield(host, protected, extra) -> None:
    stat = host.lstat(extra)
    if stat is None or not stat.is_directory:
        return
    before = protect(host, Resolver(host), [ROOT], protected, ())
    after = protect(host, Resolver(host), [ROOT, extra], protected, ())

    assert set(before.shields) <= set(after.shields)
    assert set(before.watches) <= set(after.watches)


@given(hosts, names, names)
def test_protecting_more_never_protects_less(host, protected, more) -> None:
    before = protect(host, Resolver(host), [ROOT], protected, ())
    after = protect(host, Resolver(host), [ROOT], protected | more, ())

    assert set(before.shields) <= set(after.shields)
    assert set(before.watches) <= set(after.watches)


@given(hosts, names)
def test_a_shield_is_on_something_and_a_watch_on_nothing_or_a_link(host, protected) -> None:
    found = protect(host, Resolver(host), [ROOT], protected, ())

    for shield in found.shields.values():
        stat = host.lstat(shield.target.path)
        assert stat is not None
        assert (stat.device, stat.inode) == (shield.target.device, shield.target.inode)
        assert not stat.is_link
    for watch in found.watches.values():
        stat = host.lstat(f"{watch.directory}/{watch.name}")
        assert stat is None or (stat.is_link and watch.link_text)


@given(hosts, names)
def test_every_directory_above_a_protected_path_is_pinned(host, protected) -> None:
    """Or else it could be renamed away, and another put in its place."""
    found = protect(host, Resolver(host), [ROOT], protected, ())
    held = [*found.shields, *(directory + "/" + name for directory, name in found.watches)]
    for path in held:
        parent = path.rpartition("/")[0]
        while parent not in {ROOT, "", "/elsewhere"} and is_beneath(parent, ROOT):
            assert parent in found.pins or parent in found.shields, (path, parent)
            parent = parent.rpartition("/")[0]
