"""What leads git elsewhere than it leads corral: links of a process, two readings of a text, long paths."""

from __future__ import annotations

import contextlib
import os

import pytest

from corral.git_check.check import RepositoryCheck
from corral.git_check.scope import scope_of
from corral.model.errors import SetupError
from support.git_repository import CONFIG, EVIL, make_index, make_repository, put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


FILE, GITLINK, DIRECTORY = 0o100644, 0o160000, 0o40000


def make_submodule(git: Path, name: str = "m", worktree: str = "../../../sub") -> Path:
    """One whose git directory names the directory `sub` of the workspace."""
    (git.parent / "sub").mkdir(exist_ok=True)
    return make_repository(git / "modules" / name, f"{CONFIG}\tworktree = {worktree}\n")


@pytest.mark.parametrize("way", ["../.git/modules/m", "/proc/self/cwd/.git/modules/m"])
def test_no_pointer_is_a_link(
    check: RepositoryCheck, git: Path, place: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Also not one that leads, for who looks, to what names this very worktree."""
    make_submodule(git)
    (place / "sub/.git").symlink_to(way)
    monkeypatch.chdir(place)

    assert check.sweep() == ()
    assert not (place / "sub/.git").is_symlink()


def test_no_pointer_leads_through_a_link_of_a_process(
    check: RepositoryCheck, git: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`..` behind it leads each process elsewhere."""
    make_submodule(git)
    (place / "sub/inner").mkdir()
    (place / "sub/here").symlink_to("/proc/self/cwd")
    put(place / "sub/.git", "gitdir: here/../../.git/modules/m\n")
    monkeypatch.chdir(place / "sub/inner")

    assert check.sweep() == ()
    assert not (place / "sub/.git").exists()


@pytest.mark.parametrize("above", ["modules/a", "modules/a/b", "worktrees/w/modules/a"])
def test_no_head_hides_the_git_directory_of_a_submodule(
    check: RepositoryCheck, place: Path, above: str
) -> None:
    """To git a directory with a HEAD, but without objects and refs, is a part of a submodule's name."""
    made = make_repository(place / "sub/.git")
    put(made / above / "HEAD", "ref: refs/heads/main\n")
    hidden = make_repository(made / above / "c/d", CONFIG + EVIL)
    put(hidden / "hooks/post-checkout", "#!/bin/sh\n")

    assert check.sweep() == ()
    assert (hidden / "config").read_text() == CONFIG
    assert os.listdir(hidden / "hooks") == ["pre-commit.sample"]


@pytest.mark.parametrize("inside", ["b", "info/b", "objects/info/b", "refs/b", "logs/refs/b"])
def test_a_git_directory_in_that_of_a_submodule_keeps_nothing_that_git_would_run(
    check: RepositoryCheck, place: Path, inside: str
) -> None:
    made = make_repository(place / "sub/.git")
    hidden = make_repository(make_repository(made / "modules/a") / inside, CONFIG + EVIL)

    assert check.sweep() == ()
    assert (hidden / "config").read_text() == CONFIG


def test_no_directory_is_among_objects(check: RepositoryCheck, git: Path) -> None:
    make_repository(git / "objects/ab/hidden")

    assert check.sweep() == ()
    assert os.listdir(git / "objects/ab") == []


@pytest.mark.parametrize(
    "setting",
    [
        "\tworktree = ../../../su\tb\n",  # older git reads a blank there
        "\tworktree = ../../../sub\n\tworktree = ../../../other\n",
    ],
)
def test_a_submodule_has_one_worktree_for_every_git(
    check: RepositoryCheck, place: Path, setting: str
) -> None:
    made = make_repository(place / "top/.git")
    module = make_repository(made / "modules/m", CONFIG + setting)
    for name in ("sub", "su\tb", "su b", "other"):
        put(place / "top" / name / ".git", "gitdir: ../.git/modules/m\n")

    assert check.sweep() == ()
    assert (module / "config").read_text().rstrip() == CONFIG.rstrip()


@pytest.mark.parametrize("depth", [1, 20])
def test_a_directory_that_git_has_left_out_is_not_there_however_long_its_path_is(
    check: RepositoryCheck, git: Path, place: Path, depth: int
) -> None:
    """Too long where it begins at the root, short enough where git begins."""
    parts = ["z" * (200 if depth > 1 else 1)] * depth
    here = os.open(place, os.O_RDONLY)
    for part in parts:
        os.mkdir(part, dir_fd=here)
        inner = os.open(part, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    (git / "index").write_bytes(make_index(("/".join(parts) + "/", DIRECTORY)))

    assert check.sweep() == ()
    assert not (git / "index").exists()


def test_a_directory_that_git_has_left_out_and_that_is_gone_may_stay_so(
    check: RepositoryCheck, git: Path
) -> None:
    (git / "index").write_bytes(make_index(("out/", DIRECTORY)))

    assert check.sweep() == ()
    assert check.take_violations() == ()


@pytest.mark.parametrize("mode", [FILE, GITLINK])
@pytest.mark.parametrize("place_of_link", ["docs", "a/b/c/d/e/f/g/h/docs", "node_modules/docs"])
@pytest.mark.parametrize("target", ["/out", "UP/..", "UP/away", "UP/.git", "/proc/self/cwd/src", "UP"])
def test_no_link_stands_where_the_index_has_a_directory(
    check: RepositoryCheck, git: Path, place: Path, target: str, place_of_link: str, mode: int
) -> None:
    """Git removes what is at its end. `UP` is the top, which is no way out."""
    link = place / place_of_link
    (place / "src").mkdir()
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target.replace("UP", "/".join([".", *[".."] * place_of_link.count("/")])))
    (git / "index").write_bytes(
        make_index((f"{place_of_link}/sub" + ("/x" if mode == FILE else ""), mode), ("x", FILE))
    )

    assert check.sweep() == ()
    assert link.is_symlink() == (target == "UP")
    assert (git / "index").exists()


@pytest.mark.parametrize("version", [2, 4])
def test_no_link_stands_in_the_place_of_a_submodule(
    check: RepositoryCheck, git: Path, place: Path, version: int
) -> None:
    (place / "m").symlink_to("/out")
    (git / "index").write_bytes(make_index(("m", GITLINK), version=version))

    assert check.sweep() == ()
    assert not (place / "m").is_symlink()


def test_a_link_that_the_host_had_in_the_place_of_a_directory_stays_while_it_leads_there(
    checking: Callable[..., RepositoryCheck], git: Path, place: Path
) -> None:
    (place / "docs").symlink_to("way/out")
    (place / "way").symlink_to("/elsewhere")
    (git / "index").write_bytes(make_index(("docs/x", FILE)))
    check = checking(str(place))
    check.begin()

    assert check.sweep() == () and (place / "docs").is_symlink()
    (place / "way").unlink()
    (place / "way").symlink_to("/home")
    assert check.sweep() == () and not (place / "docs").is_symlink()


@pytest.fixture
def as_ordinary_user() -> Iterator[None]:
    """For what the mode of a directory keeps nobody else from."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(61_238)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def lent(tmp_path: Path, git: Path) -> Iterator[Path]:
    """The git directory, in a workspace that belongs to such a user."""
    if os.geteuid() == 0:
        above = tmp_path
        while above != above.parent:
            above.chmod(above.stat().st_mode | 0o011)
            above = above.parent
        for path in (tmp_path, *tmp_path.rglob("*")):
            os.chown(path, 61_238, -1, follow_symlinks=False)
    yield git


@pytest.mark.parametrize("mode", [0o000, 0o100, 0o200, 0o400, 0o600])
def test_a_closed_directory_hides_nothing_in_a_git_directory(
    lent: Path, as_ordinary_user: None, check: RepositoryCheck, mode: int
) -> None:
    (lent / "zzz/d").mkdir(parents=True)
    for name in ("COMMIT_EDITMSG", "zzz/link", "zzz/d/link"):
        (lent / name).symlink_to("/x")
    (lent / "zzz").chmod(mode)

    assert check.sweep() == ()
    assert sum(found.subject.endswith(("MSG", "link")) for found in check.take_violations()) == 3


def test_what_was_found_before_a_look_failed_is_taken_away(
    check: RepositoryCheck, git: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (git / "FETCH_HEAD").symlink_to("/x")

    def fail(*_: object, **__: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("corral.git_check.directory.GitDirectory._objects", fail)
    with pytest.raises(SetupError):
        check.sweep()

    assert not (git / "FETCH_HEAD").is_symlink()


@pytest.mark.parametrize("mode", [0o000, 0o100, 0o400])
def test_a_closed_directory_hides_no_repository(
    lent: Path, as_ordinary_user: None, check: RepositoryCheck, mode: int
) -> None:
    made = make_repository(lent.parent / "d/e/.git", CONFIG + EVIL)
    (lent.parent / "d").chmod(mode)

    assert check.sweep() == ()
    assert (made / "config").read_text() == CONFIG


def test_what_the_host_has_closed_stays_closed(
    lent: Path, as_ordinary_user: None, checking: Callable[..., RepositoryCheck]
) -> None:
    (lent.parent / "own").mkdir(mode=0)
    check = checking(str(lent.parent))
    check.begin()

    assert check.sweep() == ()
    assert (lent.parent / "own").stat().st_mode & 0o777 == 0
    (lent / "closed").mkdir(mode=0)
    with pytest.raises(SetupError, match="look at what is in it"):
        checking(str(lent.parent)).begin()
    assert (lent / "closed").stat().st_mode & 0o777 == 0


@pytest.mark.parametrize("end", ["/.git ", " ", ""])
def test_a_worktree_that_is_gone_is_named_as_git_names_it(
    check: RepositoryCheck, git: Path, place: Path, tmp_path: Path, end: str
) -> None:
    """Git takes blanks off, and writes into what a link of that name leads to (`git worktree repair`)."""
    put(git / "worktrees/x/commondir", "../..\n")
    put(git / "worktrees/x/gitdir", f"{place}/gone{end}\n")
    (place / "gone").symlink_to(tmp_path)

    assert check.sweep() == ()
    assert not (git / "worktrees/x/gitdir").exists()


@pytest.mark.parametrize("way", ["old", "target/old"])
def test_no_link_stands_where_the_host_has_registered_a_worktree(
    checking: Callable[..., RepositoryCheck], git: Path, place: Path, tmp_path: Path, way: str
) -> None:
    """The worktree was deleted by hand. What names it is held by a mount: only the link can be taken."""
    put(git / "worktrees/x/commondir", "../..\n")
    put(git / "worktrees/x/gitdir", f"{place}/{way}/.git\n")
    (place / way).parent.mkdir(exist_ok=True)
    check = checking(str(place))
    check.begin()
    (place / way).symlink_to(tmp_path)

    assert check.sweep() == ()
    assert not (place / way).is_symlink()


@pytest.mark.parametrize("way", ["directory", "pointer"])
def test_no_link_stands_where_a_repository_around_has_a_directory(
    make_plan, place: Path, tmp_path: Path, way: str
) -> None:
    """Of the larger repository the workspace is a part: its index cannot be written, and is read."""
    around = make_repository(tmp_path / (".git" if way == "directory" else "store"))
    if way == "pointer":
        put(tmp_path / ".git", "gitdir: store\n")
    entries = [("other/f", FILE), ("work/own/f", FILE), ("work/src/lib/f", FILE)]
    (around / "index").write_bytes(make_index(*entries))
    (place / "src").mkdir()
    (place / "own").symlink_to(tmp_path)
    check = RepositoryCheck(scope_of(make_plan(writable=(str(place),), worktrees=(str(place),))), "")
    check.begin()
    (place / "src/lib").symlink_to(tmp_path)

    assert check.sweep() == ()
    assert not (place / "src/lib").is_symlink()
    assert (place / "own").is_symlink()


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("stage", [0, 2])
def test_a_path_in_conflict_is_no_link(
    check: RepositoryCheck, git: Path, place: Path, tmp_path: Path, version: int, stage: int
) -> None:
    """`git rerere` writes the file, through a link as well; nothing writes one that is not in conflict so."""
    data = bytearray(make_index(("file", FILE), version=version))
    data[12 + 40 + 20] |= stage << 4
    (git / "index").write_bytes(data)
    (place / "file").symlink_to(tmp_path / "outside")

    assert check.sweep() == ()
    assert (place / "file").is_symlink() == (stage == 0)


@pytest.mark.parametrize(
    ("value", "place_of_hook"), [("mine", "mine"), ("./a/../mine", "mine"), ("..", ""), ("./objects", "")]
)
def test_hooks_of_a_bare_repository_are_where_it_says(
    checking: Callable[..., RepositoryCheck], git: Path, place: Path, value: str, place_of_hook: str
) -> None:
    """Of the host's own; where a setting leads further up, nothing there is touched."""
    bare = make_repository(place / "far/own.git", f"{CONFIG}\thooksPath = {value}\n")
    own, beside = bare / "mine/post-receive", bare.parent / "beside"
    put(own, "own")
    put(beside, "x")
    check = checking(str(place))
    check.begin()
    put(bare / "mine/pre-receive", "x")
    put(bare / "objects/ab/object", "x")
    put(bare.parent / "new", "x")

    assert check.sweep() == ()
    assert (bare / "mine/pre-receive").exists() == (not place_of_hook)
    assert own.exists() and beside.exists() and (bare.parent / "new").exists()
    assert (bare / "objects/ab/object").exists()


@pytest.mark.parametrize("name", ["origin", "upstream", "origin.git"])
@pytest.mark.parametrize("is_link", [True, False])
def test_no_remote_is_a_way_to_another_repository(
    check: RepositoryCheck, place: Path, tmp_path: Path, name: str, *, is_link: bool
) -> None:
    if is_link:
        (place / name).symlink_to(tmp_path)
    else:
        put(place / name, f"gitdir: {tmp_path}\n")
    put(place / "upstream.git", "of a project: no pointer")

    assert check.sweep() == ()
    assert not os.path.lexists(place / name)
    assert (place / "upstream.git").exists()


@pytest.fixture
def folding(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the file system folded names: whatever is not there is looked up by another spelling."""

    def spelled(path: str, place: int | None) -> str:
        above, name = os.path.split(path)
        above = spelled(above, place) if above not in {"", "/"} else above
        if place is None and not above:
            return path
        with contextlib.suppress(OSError):
            where = plain["open"](above or ".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=place)
            try:
                names = os.listdir(where)
            finally:
                os.close(where)
            if name not in names:
                name = next((one for one in names if one.casefold() == name.casefold()), name)
        return os.path.join(above, name)

    def fold(name: str) -> None:
        def folded(path: object, *values: object, **keys: object) -> object:
            try:
                return plain[name](path, *values, **keys)
            except FileNotFoundError:
                place = keys.get("dir_fd", keys.get("src_dir_fd"))
                if not isinstance(path, str):
                    raise
                return plain[name](spelled(path, place), *values, **keys)  # type: ignore[arg-type]

        monkeypatch.setattr(os, name, folded)

    plain = {name: getattr(os, name) for name in ("open", "stat", "lstat", "readlink", "rename", "unlink")}
    for name in plain:
        fold(name)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("config", "CONFIG"),
        ("config", "con\ufb01g"),  # a ligature, which some fold to two letters
        ("hooks", "Hooks"),
        ("../.git", "../.GIT"),
        ("rebase-merge", "REBASE-merge"),
    ],
)
@pytest.mark.usefixtures("folding")
def test_no_other_spelling_hides_what_git_finds(
    check: RepositoryCheck, place: Path, old: str, new: str
) -> None:
    made = make_repository(place / "sub/.git", CONFIG + EVIL)
    put(made / "hooks/post-checkout", "x")
    put(made / "rebase-merge/strategy", "evil")
    os.rename(made / old, (made / new) if "/" not in new else place / "sub/.GIT")
    now = place / "sub" / (".GIT" if "/" in new else ".git")

    assert check.sweep() == ()
    texts = [path.read_text() for path in now.rglob("*") if path.is_file()]
    assert not any(EVIL in text or text in {"x", "evil"} for text in texts)
