"""Protection: what the host may run later is held, whether or not it exists yet."""

from __future__ import annotations

import pytest

from corral.model.errors import PolicyError
from corral.model.probe import Stat
from corral.planning.protect import find_repositories, protect
from corral.planning.resolve import Resolver, is_beneath
from corral.sandbox import Sandbox
from support.fake_host import FakeHost

WORK = "/home/ann/project"
NAMES = (".git/hooks", ".git/config", ".bashrc")


def protection_of(files: dict[str, str], *, nested: tuple[str, ...] = (), names=NAMES, **settings):
    host = FakeHost(files, **settings)
    return protect(host, Resolver(host), [WORK], names, nested)


def _watched(found) -> set[str]:
    return {f"{directory}/{name}" for directory, name in found.watches}


def test_what_exists_is_shielded_and_what_does_not_is_watched() -> None:
    found = protection_of({f"{WORK}/.git/hooks/": "", f"{WORK}/.git/config": ""})

    assert set(found.shields) == {f"{WORK}/.git/hooks", f"{WORK}/.git/config"}
    assert f"{WORK}/.bashrc" in _watched(found)
    assert set(found.pins) == {f"{WORK}/.git"}


def test_a_missing_parent_is_watched_in_place_of_its_child() -> None:
    assert f"{WORK}/.git" in _watched(protection_of({}))


def test_a_link_is_put_back_and_what_it_leads_to_is_held() -> None:
    found = protection_of({f"{WORK}/.bashrc": "-> dotfiles/bashrc", f"{WORK}/dotfiles/bashrc": ""})

    assert found.watches[WORK, ".bashrc"].link_text == "dotfiles/bashrc"
    assert f"{WORK}/dotfiles/bashrc" in found.shields


_OWN = "/home/ann/.gitconfig"


@pytest.mark.parametrize(
    ("files", "shielded", "watched"),
    [
        ({_OWN: f"-> {WORK}/gitconfig", f"{WORK}/gitconfig": ""}, "gitconfig", ""),
        ({_OWN: "-> project/gitconfig"}, "", "gitconfig"),
        ({"/home/ann/.config/git": f"-> {WORK}/git", f"{WORK}/git/config": ""}, "git/config", ""),
        ({_OWN: f"[include]\npath = {WORK}/more\n", f"{WORK}/more": ""}, "more", ""),
        ({_OWN: '[includeIf "gitdir:/x/"]\npath = project/more\n'}, "", "more"),
        ({_OWN: "[init]\ntemplateDir = ~/project/new\n", f"{WORK}/new/": ""}, "new", ""),
        ({_OWN: "[init]\ntemplateDir = ~/project/new\n"}, "", "new"),
        ({_OWN: "[core]\npager = ~/project/page -x\n", f"{WORK}/page": ""}, "page", ""),
        ({_OWN: "[core]\nfsmonitor = tools/watch\n", f"{WORK}/tools/watch": ""}, "tools/watch", ""),
        ({"/home/ann/.bashrc": "-> project/rc", f"{WORK}/rc": ""}, "rc", ""),
    ],
)
def test_the_callers_own_settings_are_held_where_they_lie_in_the_workspace(
    files: dict[str, str], shielded: str, watched: str
) -> None:
    """Who keeps such files in a repository works in it, too."""
    found = protection_of(files)

    assert not shielded or f"{WORK}/{shielded}" in found.shields
    assert not watched or f"{WORK}/{watched}" in _watched(found)


def test_a_link_through_another_link_is_followed_as_the_kernel_does() -> None:
    """`a/../b`, where a is a link: the kernel goes up from where a leads to."""
    found = protection_of(
        {
            f"{WORK}/.git": "-> a/../b",
            f"{WORK}/a": "-> sub/deep",
            f"{WORK}/sub/deep/": "",
            f"{WORK}/sub/b/hooks/": "",
            f"{WORK}/b/": "",
        }
    )

    assert any(is_beneath(f"{WORK}/sub/b/hooks", path) for path in found.shields)


def test_a_link_that_leads_out_and_back_in_is_followed() -> None:
    found = protection_of(
        {
            f"{WORK}/.git": "-> /srv/alias",
            "/srv/alias": f"-> {WORK}/real",
            f"{WORK}/real/hooks/": "",
        }
    )

    assert any(is_beneath(f"{WORK}/real/hooks", path) for path in found.shields)


def test_hooks_that_a_configuration_names_are_held() -> None:
    found = protection_of(
        {f"{WORK}/.git/config": "[core]\nhooksPath = tools/hooks\n", f"{WORK}/tools/hooks/": ""}
    )

    assert f"{WORK}/tools/hooks" in found.shields


def test_a_nested_repository_is_held_as_well() -> None:
    found = protection_of({f"{WORK}/vendor/lib/.git/hooks/": ""}, nested=(f"{WORK}/vendor/lib",))

    assert f"{WORK}/vendor/lib/.git/hooks" in found.shields
    assert {f"{WORK}/vendor", f"{WORK}/vendor/lib", f"{WORK}/vendor/lib/.git"} <= set(found.pins)


def test_corrals_own_files_are_held_when_they_lie_in_the_workspace() -> None:
    files = {f"{WORK}/.venv/lib/corral/": ""}
    found = protection_of(files, corral_files=(f"{WORK}/.venv/lib/corral", "/opt/corral"))

    assert f"{WORK}/.venv/lib/corral" in found.shields
    assert "/opt/corral" not in found.shields


def test_the_pointer_of_a_linked_worktree_cannot_be_changed() -> None:
    """`.git` is a file there; whoever writes it chooses the repository, and its hooks."""
    assert f"{WORK}/.git" in protection_of({f"{WORK}/.git": "gitdir: /elsewhere"}).shields


def test_no_repository_can_be_made_of_the_workspace_itself() -> None:
    assert f"{WORK}/HEAD" in _watched(protection_of({}))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_repositories_are_found_below_the_workspace(depth: int) -> None:
    place = "/".join([WORK, *["d"] * depth])
    host = FakeHost({f"{place}/.git/": ""})

    assert find_repositories(host, Resolver(host), WORK, print, print) == (place,)


def test_dependencies_are_not_searched() -> None:
    host = FakeHost({f"{WORK}/node_modules/x/.git/": ""})

    assert find_repositories(host, Resolver(host), WORK, print, print) == ()


class ClosedHost(FakeHost):
    """A host on which one directory is closed even to its owner, and what is in it is unknown."""

    closed = f"{WORK}/shut"

    def lstat(self, path: str) -> Stat | None:
        found = super().lstat(path)
        if path.startswith(f"{self.closed}/"):
            return Stat(False, False, 0, 0, is_unknown=True)
        return found.replace(is_closed=True) if found is not None and path == self.closed else found


def test_a_closed_directory_is_held_as_a_whole_and_named() -> None:
    """A repository may lie in it, and whoever runs inside could open it."""
    plan = Sandbox("moderate", workspace=WORK, host=ClosedHost({f"{WORK}/shut/": ""})).explain(("true",)).plan

    assert f"{WORK}/shut" in {shield.target.path for shield in plan.shields}
    assert any(note.startswith(f"{WORK}/shut is closed") for note in plan.notes)


@pytest.mark.parametrize("closed", ["", "/.git"])
def test_where_something_protected_must_be_looked_at_a_closed_directory_is_refused(closed: str) -> None:
    host = ClosedHost({f"{WORK}/.git/hooks/": ""})
    host.closed = WORK + closed

    with pytest.raises(PolicyError, match=f"{host.closed} cannot be protected") as refused:
        Sandbox("moderate", workspace=WORK, host=host).explain(("true",))

    assert refused.value.code == "closed-directory"
