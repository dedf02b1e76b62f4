"""What a command leaves for git to act on is removed; what the host had there stays."""

from __future__ import annotations

import os
import shutil
import socket

import pytest

from corral.git_check.check import RepositoryCheck
from corral.git_check.scope import scope_of
from corral.model.errors import SetupError
from corral.model.plan import WatchedName
from support.git_repository import CONFIG, EVIL, make_repository, put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LINKS = [
    *("COMMIT_EDITMSG", "FETCH_HEAD", "index.lock", "logs/HEAD", "logs/refs/heads/main", "logs/refs"),
    *(
        "refs/heads",
        "refs/heads/x",
        "objects/ab",
        "objects/pack",
        "objects/info/commit-graph",
        "info/exclude",
    ),
    *(
        "rebase-merge",
        "rebase-merge/onto",
        "worktrees",
        "worktrees/x",
        "worktrees/x/logs/HEAD",
        "info/exclude",
    ),
]
STATES = [
    ("rebase-merge/git-rebase-todo", "pick 1\nexec ./evil\n"),
    ("rebase-merge/strategy", "x/../evil"),
    ("rebase-apply/apply-opt", "'--build-fake-ancestor=/x'"),
    ("sequencer/opts", "[options]\n\tstrategy = x/../evil\n"),
    ("worktrees/x/rebase-merge/git-rebase-todo", "exec ./evil\n"),
    ("worktrees/x/commondir", "/out\n"),
    ("worktrees/x/gitdir", "/out/.git\n"),
    ("worktrees/x/config.worktree", CONFIG + EVIL),
    ("remotes/origin", "URL: ./evil\n"),
    ("branches/origin", "./evil\n"),
    ("gitweb/lighttpd", "#!/bin/sh\n"),
    ("refs/heads/x", "ref: hooks/post-commit\n"),
    ("refs/heads/x", "ref: refs/../../../out/new".ljust(40) + "\n"),  # as long as the name of an object
    ("worktrees/x/gitdir", "/out\0/.git\n"),
    ("MERGE_RR", "1234\t../out/key\0"),
    ("MERGE_RR", "1234\taway/key\0"),
    ("index", "not an index"),
    ("BISECT_NAMES", " 'a' $(evil)\n"),
]


def test_a_repository_at_rest_stays_as_it_is(check: RepositoryCheck) -> None:
    assert check.sweep() == ()
    assert check.take_violations() == ()


@pytest.mark.parametrize("name", LINKS)
def test_no_link_is_left(check: RepositoryCheck, git: Path, name: str, tmp_path: Path) -> None:
    link = git / name
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.is_dir():
        shutil.rmtree(link)
    link.symlink_to(tmp_path)

    assert check.sweep() == ()
    assert not link.is_symlink()
    assert [found.subject for found in check.take_violations()] == [str(link)]


def test_no_object_is_a_link(check: RepositoryCheck, git: Path) -> None:
    (git / "objects/ab").mkdir()
    (git / "objects/ab/cd").symlink_to("/x")
    (git / "objects/ab/ef").touch()

    assert check.sweep() == ()
    assert os.listdir(git / "objects/ab") == ["ef"]


@pytest.mark.parametrize(
    "name",
    [
        *("0001-fix.patch", "v2-0001-fix.patch", "src/0001-fix.patch", "10000-fix.patch", "1", "src/12"),
        *("git-diagnostics-2026-01-01-0000.zip", ".gitmodules", "src/.gitmodules"),
    ],
)
def test_no_link_waits_under_a_name_that_git_writes(check: RepositoryCheck, place: Path, name: str) -> None:
    (place / "src").mkdir()
    (place / name).symlink_to("/x")
    for other in ("1-fix", "1a", "v1", ".gitignore", "git-diagnostics"):
        (place / other).symlink_to("/x")

    assert check.sweep() == ()
    assert not (place / name).is_symlink()
    assert [found.subject for found in check.take_violations()] == [str(place / name)]


@pytest.mark.parametrize("name", [".gitignore", ".mailmap", "src/.gitattributes", "src/.gitmodules"])
def test_git_waits_for_no_pipe(check: RepositoryCheck, place: Path, name: str) -> None:
    (place / "src").mkdir()
    os.mkfifo(place / name)
    os.mkfifo(place / "pipe")

    assert check.sweep() == ()
    assert not (place / name).exists() and (place / "pipe").exists()


def test_what_is_neither_file_nor_directory_is_not_left(check: RepositoryCheck, git: Path) -> None:
    os.mkfifo(git / "COMMIT_EDITMSG")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(git / "fsmonitor--daemon.ipc"))

    assert check.sweep() == ()
    assert not (git / "COMMIT_EDITMSG").exists()
    assert not (git / "fsmonitor--daemon.ipc").exists()


@pytest.mark.parametrize(("name", "text"), STATES)
def test_what_git_would_act_on_is_not_left(check: RepositoryCheck, git: Path, name: str, text: str) -> None:
    put(git / name, text)

    assert check.sweep() == ()
    assert not (git / name).exists() or text not in (git / name).read_text()
    assert [found.subject for found in check.take_violations()] == [str(git / name)]
    assert check.take_violations() == ()


@pytest.mark.parametrize(("name", "text"), STATES)
def test_what_the_host_had_there_stays(
    checking: Callable[..., RepositoryCheck], git: Path, name: str, text: str
) -> None:
    put(git / name, text)
    check = checking(str(git.parent))
    check.begin()

    assert check.sweep() == ()
    assert (git / name).read_text() == text
    assert check.take_violations() == ()


def test_a_rebase_of_the_users_may_go_on_and_have_no_new_step(
    checking: Callable[..., RepositoryCheck], git: Path
) -> None:
    todo = git / "rebase-merge/git-rebase-todo"
    put(todo, "pick 1\nexec make\npick 2\nexec make test\n")
    check = checking(str(git.parent))
    check.begin()

    todo.write_text("pick 2\nexec make test\n")
    assert check.sweep() == () and todo.exists()
    todo.write_text("pick 2\nexec make test ; evil\n")
    assert check.sweep() == () and not todo.exists()


def test_a_rebase_of_another_command_is_left_to_it(check: RepositoryCheck, git: Path) -> None:
    todo = git / "rebase-merge/git-rebase-todo"
    put(todo, "exec make\n")
    (git / "COMMIT_EDITMSG").symlink_to("/x")

    assert check.sweep(is_at_work=True) == ()
    assert todo.exists() and not (git / "COMMIT_EDITMSG").is_symlink()
    assert check.sweep() == ()
    assert not todo.exists()


def test_hooks_and_settings_that_are_held_are_the_hosts(check: RepositoryCheck, git: Path) -> None:
    put(git / "hooks/pre-commit", "#!/bin/sh\n")
    put(git / "config", CONFIG + EVIL)
    make_repository(git / "modules/x", CONFIG + EVIL)

    assert check.sweep() == ()
    assert check.take_violations() == ()


def test_the_rest_of_a_submodules_git_directory_is_looked_at(check: RepositoryCheck, git: Path) -> None:
    make_repository(git / "modules/a/b")
    (git / "modules/a/b/index").symlink_to("/x")

    assert check.sweep() == ()
    assert not (git / "modules/a/b/index").is_symlink()


def test_a_directory_that_is_made_a_repository_keeps_nothing_that_git_would_run(
    check: RepositoryCheck, place: Path
) -> None:
    made = make_repository(place / "src", CONFIG + EVIL)
    put(made / "hooks/pre-commit", "#!/bin/sh\n")

    assert check.sweep() == ()
    assert (made / "config").read_text() == CONFIG
    assert not (made / "hooks/pre-commit").exists()


@pytest.mark.parametrize("text", ["/out\n", "../../away\n", "../../x\n", "", '"/o\\165t"\n', "x" * (5 << 20)])
def test_objects_are_looked_for_nowhere_else(check: RepositoryCheck, git: Path, text: str) -> None:
    put(git / "objects/info/alternates", text)

    assert check.sweep() == ()
    assert not (git / "objects/info/alternates").exists()


def test_no_directory_of_objects_waits_to_be_renamed(check: RepositoryCheck, git: Path) -> None:
    (git / "objects/stage").mkdir()

    assert check.sweep() == ()
    assert not (git / "objects/stage").exists()


@pytest.mark.parametrize("name", ["sub", "a/b/c", "vendor/lib/.hidden"])
def test_a_repository_that_was_made_keeps_nothing_that_git_would_run(
    check: RepositoryCheck, place: Path, name: str
) -> None:
    made = make_repository(place / name / ".git", CONFIG + EVIL + "[user]\n\tname = x\n")
    put(made / "hooks/post-checkout", "#!/bin/sh\n")
    make_repository(made / "modules/x", CONFIG + EVIL)

    assert check.sweep() == ()
    assert (made / "config").read_text() == CONFIG + "[user]\n\tname = x\n"
    assert os.listdir(made / "hooks") == ["pre-commit.sample"]
    assert "fsmonitor" not in (made / "modules/x/config").read_text()


def test_a_submodule_of_one_that_was_made_keeps_its_place(check: RepositoryCheck, place: Path) -> None:
    made = make_repository(place / "sub/.git")
    (place / "sub/x").mkdir()
    inside, outside = "\tworktree = ../../../x\n", "\tworktree = ../../../../../out\n"
    for name, setting in (("x", inside), ("y", outside)):
        make_repository(made / "modules" / name, CONFIG + setting)
    put(place / "sub/x/.git", "gitdir: ../.git/modules/x\n")

    assert check.sweep() == ()
    assert (made / "modules/x/config").read_text() == CONFIG + inside
    assert (place / "sub/x/.git").exists()
    assert (made / "modules/y/config").read_text() == CONFIG


@pytest.mark.parametrize(
    "text",
    [
        *(
            "gitdir: /out\n",
            "gitdir: ../away/out\n",
            "gitdir:\n",
            "x",
            "gitdir: a\0b\n",
            "gitdir: ../.git\n",
            "gitdir: ../.data\n",
            "gitdir: ../.git/info/x\n",
            "gitdir: ../.git/worktrees/x/evil\n",
            "gitdir: ../.git/modules/a\n",  # it names another worktree
            "gitdir: ../.git/modules/b \n",
        ),
        "gitdir: ../away/../work/.git\n",  # behind a link, `..` leads elsewhere than it seems
    ],
)
def test_a_pointer_leads_nowhere_else(check: RepositoryCheck, git: Path, place: Path, text: str) -> None:
    """Only to the git directory of a worktree, or of a submodule, that names the place of the pointer."""
    (place / "other").mkdir()
    for hidden in (place / ".data", git / "info/x", git / "worktrees/x/evil", git / "modules/b "):
        make_repository(hidden)
    make_repository(git / "modules/a", CONFIG + "\tworktree = ../../../other\n")
    put(place / "sub/.git", text)

    assert check.sweep() == ()
    assert not (place / "sub/.git").exists()


def test_whatever_leads_to_what_is_held_it_stays_the_hosts(
    check: RepositoryCheck, git: Path, place: Path
) -> None:
    """Neither its content nor its number changes: a mount is on it."""
    put(git / "config", CONFIG + EVIL)
    before = (git / "config").stat().st_ino
    put(place / "sub/.git", "gitdir: ../.git\n")
    (place / "g").symlink_to(".git")

    assert check.sweep() == ()
    assert (git / "config").read_text() == CONFIG + EVIL
    assert (git / "config").stat().st_ino == before


def test_a_worktree_of_a_repository_that_was_made_is_left(check: RepositoryCheck, place: Path) -> None:
    made = make_repository(place / "clone/.git", CONFIG + EVIL)
    put(place / "wt/.git", f"gitdir: {made}/worktrees/wt\n")
    for name, text in (("gitdir", f"{place}/wt/.git\n"), ("commondir", "../..\n"), ("HEAD", "0" * 40)):
        put(made / "worktrees/wt" / name, text)

    assert check.sweep() == ()
    assert [found.subject for found in check.take_violations()] == [str(made / "config")]
    assert sorted(os.listdir(made / "worktrees/wt")) == ["HEAD", "commondir", "gitdir"]


@pytest.mark.parametrize("name", [".git", "repository.git"])
def test_a_root_that_is_a_git_directory_is_looked_at(
    checking: Callable[..., RepositoryCheck], place: Path, name: str
) -> None:
    """Bare, or the repository of the linked worktree that is the workspace."""
    shutil.rmtree(place)
    make_repository(place)
    status = place.stat()
    identity = (status.st_dev, status.st_ino)
    watch = WatchedName(str(place), str(place), *identity, ".git", ".git/hooks", is_repository=True)
    check = checking(str(place), watches=(watch,))
    check.begin()
    (place / "FETCH_HEAD").symlink_to("/x")
    put(place / "worktrees/x/rebase-merge/git-rebase-todo", "exec ./evil\n")

    assert check.sweep() == ()
    assert not (place / "FETCH_HEAD").is_symlink()
    assert not (place / "worktrees/x/rebase-merge/git-rebase-todo").exists()
    assert len(check.take_violations()) == 2


def test_a_store_that_lies_apart_is_looked_at(checking: Callable[..., RepositoryCheck], place: Path) -> None:
    store = make_repository(place / "store", CONFIG + EVIL)
    put(place / ".git", "gitdir: store\n")
    check = checking(str(place))
    check.begin()
    (store / "COMMIT_EDITMSG").symlink_to("/x")

    assert check.sweep() == ()
    assert not (store / "COMMIT_EDITMSG").is_symlink()
    assert (store / "config").read_text() == CONFIG + EVIL  # held by mounts: the host's own


def test_no_name_of_a_configuration_is_another_files(check: RepositoryCheck, place: Path) -> None:
    made = make_repository(place / "sub/.git")
    os.link(made / "config", made / "COMMIT_EDITMSG")
    put(made / "rebase-merge/git-rebase-todo", "pick 1\n")
    os.link(made / "rebase-merge/git-rebase-todo", made / "SQUASH_MSG")

    assert check.sweep() == ()
    assert (made / "config").stat().st_nlink == 1
    assert not (made / "rebase-merge/git-rebase-todo").exists()


def test_what_was_looked_at_while_commands_ran_is_looked_at_again(
    check: RepositoryCheck, git: Path, monkeypatch
) -> None:
    """A page that is mapped changes without a new time: only what was there before is known by its time."""
    put(git / "rebase-merge/strategy", "ort\n")
    assert check.sweep() == ()
    put(git / "rebase-merge/strategy", "evil\n")
    monkeypatch.setattr(
        "corral.untrusted_files.unchanged.stamp_of", lambda _: (1, 1, 1)
    )  # nothing has a new time

    assert check.sweep() == ()
    assert not (git / "rebase-merge/strategy").exists()


def test_a_directory_without_an_end_is_not_left(check: RepositoryCheck, git: Path) -> None:
    deep = git / "refs" / "/".join("x" * 200)
    deep.mkdir(parents=True)

    assert check.sweep() == ()
    assert not deep.exists()


def test_what_a_failed_look_has_missed_is_not_the_hosts_own(
    check: RepositoryCheck, git: Path, monkeypatch
) -> None:
    (git / "COMMIT_EDITMSG").symlink_to("/x")
    with monkeypatch.context() as broken:
        broken.setattr(RepositoryCheck, "_remove", lambda *_: int(""))
        with pytest.raises(SetupError):
            check.sweep()
    check.begin()

    assert check.sweep() == ()
    assert not (git / "COMMIT_EDITMSG").is_symlink()


def test_hooks_that_every_worktree_has_by_the_users_configuration_are_not_left(
    place: Path, tmp_path: Path, make_plan
) -> None:
    plan = make_plan(writable=(str(place),), worktrees=(str(place),)).replace(hook_directories=(".githooks",))
    check = RepositoryCheck(scope_of(plan), str(tmp_path / "quarantine"))
    check.begin()
    make_repository(place / "sub/.git")
    put(place / "sub/.githooks/post-checkout", "#!/bin/sh\n")

    assert check.sweep() == ()
    assert os.listdir(place / "sub/.githooks") == []


@pytest.mark.parametrize("directory", [".git", ".git/modules/m", "sub/.git"])
def test_hooks_that_git_would_run_in_its_own_directory_are_not_left(
    git: Path, place: Path, tmp_path: Path, make_plan, directory: str
) -> None:
    """There it is when it receives what is pushed."""
    plan = make_plan(writable=(str(place),), worktrees=(str(place),)).replace(hook_directories=(".githooks",))
    check = RepositoryCheck(scope_of(plan), str(tmp_path / "quarantine"))
    check.begin()
    if directory != ".git":
        make_repository(place / directory)
    put(place / directory / ".githooks/post-receive", "#!/bin/sh\n")

    assert check.sweep() == ()
    assert os.listdir(place / directory / ".githooks") == []


def test_a_worktree_that_was_added_is_left(check: RepositoryCheck, git: Path, place: Path) -> None:
    put(place / "wt/.git", f"gitdir: {git}/worktrees/wt\n")
    for name, text in (("gitdir", f"{place}/wt/.git\n"), ("commondir", "../..\n"), ("HEAD", "0" * 40)):
        put(git / "worktrees/wt" / name, text)

    assert check.sweep() == ()
    assert check.take_violations() == ()


@pytest.mark.parametrize(
    "harm", ["missing", "wrong", "closed", "no objects", "no refs", "refs is a file", "objects is a file"]
)
def test_git_is_not_led_to_a_repository_further_up(check: RepositoryCheck, git: Path, harm: str) -> None:
    if harm == "missing":
        (git / "HEAD").unlink()
    elif harm == "wrong":
        (git / "HEAD").write_text("x")
    elif harm == "closed":
        (git / "refs").chmod(0)
    elif harm.endswith("file"):
        shutil.rmtree(git / harm.partition(" ")[0])
        (git / harm.partition(" ")[0]).touch(0o755)
    else:
        shutil.rmtree(git / harm.removeprefix("no "))

    assert check.sweep() == ()
    assert (git / "HEAD").read_text() == "ref: refs/heads/main\n"
    assert (git / "objects").is_dir() and (git / "refs").stat().st_mode & 0o700 == 0o700


def test_a_directory_that_was_closed_is_looked_into(check: RepositoryCheck, git: Path) -> None:
    (git / "logs/HEAD").symlink_to("/x")
    put(git / "rebase-merge/strategy", "evil")
    (git / "rebase-merge/strategy").chmod(0)
    (git / "logs").chmod(0o300)

    assert check.sweep() == ()
    assert not (git / "logs/HEAD").is_symlink() and not (git / "rebase-merge/strategy").exists()


def test_what_is_taken_away_is_kept(check: RepositoryCheck, git: Path, tmp_path: Path) -> None:
    put(git / "remotes/origin", "URL: x")

    check.sweep()

    assert (tmp_path / "quarantine/git/0-origin").read_text() == "URL: x"


def test_a_flood_is_told_in_few_words(check: RepositoryCheck, git: Path) -> None:
    for number in range(200):
        (git / f"refs/heads/{number}").symlink_to("/x")

    assert check.sweep() == ()
    assert os.listdir(git / "refs/heads") == []
    *told, last = check.take_violations()
    assert len(told) == 32 and "168 more findings" in last.detail
    assert check.take_violations() == ()


def test_what_cannot_be_looked_at_is_an_error(check: RepositoryCheck, monkeypatch) -> None:
    def fail(*_: object, **__: object) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("corral.git_check.look.open_directory", fail)

    with pytest.raises(SetupError) as before:
        check.begin()
    with pytest.raises(SetupError) as after:
        check.sweep()
    assert (before.value.ran, after.value.ran) == (False, True)


def test_one_at_the_top_may_be_made_and_is_looked_at_meanwhile(
    checking: Callable[..., RepositoryCheck], place: Path
) -> None:
    status = place.stat()
    identity = (status.st_dev, status.st_ino)
    watch = WatchedName(str(place), str(place), *identity, ".git", ".git/hooks", is_repository=True)
    check = checking(str(place), watches=(watch,))
    check.begin()
    check.glance()
    assert not check.is_made_at_the_top()

    made = make_repository(place / ".git", CONFIG + EVIL)
    check.glance()

    assert check.is_made_at_the_top()
    assert (made / "config").read_text() == CONFIG
    assert check.found_at_the_top == 1


def test_the_link_by_which_git_init_tries_links_is_left_to_it(check: RepositoryCheck, git: Path) -> None:
    (git / "tAbC123").symlink_to("testing")
    (git / "tAbC124").symlink_to("/testing")

    assert check.sweep(is_at_work=True) == ()
    assert (git / "tAbC123").is_symlink() and not (git / "tAbC124").is_symlink()
    assert check.sweep() == ()
    assert not (git / "tAbC123").is_symlink()
