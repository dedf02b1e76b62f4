"""Unfinished work of git: what git itself leaves is accepted, what would make it run or write more is not."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest

from corral.git_formats.sequencer import is_state, unsafe_state

IDENTITY = {f"GIT_{who}_{what}": "A O'Brien" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
OBJECT = b"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


class Repository:
    """A repository of the real git, with two branches that do not go together."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.git("init", "-q", "-b", "main")
        self.commit("first", a="1", b="1")
        self.git("checkout", "-qb", "side")
        self.commit("side one", a="side")
        self.commit("side two", c="side")
        self.commit("side three", b="side")
        self.git("checkout", "-q", "main")
        self.commit("main one", a="main")

    def git(self, *arguments: str, fails: bool = False, **variables: str) -> None:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.path),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_EDITOR": "true",
        }
        whole = ("git", "-C", str(self.path), *arguments)
        done = subprocess.run(whole, env={**env, **IDENTITY, **variables}, check=False, capture_output=True)
        assert bool(done.returncode) is fails, done.stderr

    def commit(self, message: str, **files: str) -> None:
        for name, content in files.items():
            (self.path / name).write_text(content + "\n", encoding="utf-8")
        self.git("add", ".")
        self.git("commit", "-qm", message)

    def states(self) -> dict[str, bytes]:
        """Every file of the git directory that is judged, by its name."""
        top = self.path / ".git"
        files = {str(path.relative_to(top)): path for path in top.rglob("*") if path.is_file()}
        return {name: path.read_bytes() for name, path in files.items() if is_state(name)}

    def wrong(self) -> dict[str, str]:
        return {name: why for name, data in self.states().items() if (why := unsafe_state(name, data))}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


class TestRealStates:
    def test_a_repository_at_rest(self, repository: Repository) -> None:
        assert {name for name in repository.states() if not name.startswith("refs/")} == {"HEAD"}
        assert repository.wrong() == {}

    @pytest.mark.parametrize(
        "options",
        [
            (),
            ("--signoff", "--committer-date-is-author-date"),
            ("-s", "recursive", "-Xpatience", "-Xfind-renames=40", "-Xignore-space-change", "--no-ff"),
            ("--rerere-autoupdate", "-v"),
            ("--apply",),
            ("--apply", "--whitespace=fix", "-C2", "--ignore-date", "-q"),
        ],
    )
    def test_a_rebase_that_stopped_at_a_conflict(
        self, repository: Repository, options: tuple[str, ...]
    ) -> None:
        repository.git("checkout", "-q", "side")
        repository.git("rebase", *options, "main", fails=True)

        assert any(name.startswith(("rebase-merge/", "rebase-apply/")) for name in repository.states())
        assert repository.wrong() == {}

    def test_a_rebase_that_stopped_to_edit(self, repository: Repository) -> None:
        repository.git("checkout", "-q", "side")
        (repository.path / "c").write_text("not committed\n", encoding="utf-8")
        edit = "sed -i -e '1s/^pick/edit/' -e '2s/^pick/r/' -e '3s/^pick/fixup -C/' -e '3abreak'"
        options = ("-i", "--autostash", "-sort", "-Xpatience", "-Xdiff-algorithm=minimal", "--update-refs")
        repository.git("rebase", *options, "main~1", GIT_SEQUENCE_EDITOR=edit)

        assert {"rebase-merge/autostash", "rebase-merge/strategy_opts"} <= set(repository.states())
        assert repository.wrong() == {}

    def test_a_rebase_of_merges(self, repository: Repository) -> None:
        repository.git("checkout", "-qb", "top", "main~1")
        repository.commit("other", d="1")
        repository.git("merge", "-q", "--no-edit", "side")
        repository.git("branch", "middle", "HEAD^2~1")
        edit = "sed -i -e '$aedit HEAD' -e '/^merge/abreak'"
        options = ("-i", "--rebase-merges", "--update-refs", "--root")
        repository.git("rebase", *options, GIT_SEQUENCE_EDITOR=edit)
        states = repository.states()

        assert b"label" in states["rebase-merge/done"]
        assert {"rebase-merge/refs-to-delete", "rebase-merge/update-refs"} <= set(states)
        assert repository.wrong() == {}

    @pytest.mark.parametrize("command", ["cherry-pick", "revert"])
    def test_a_series_of_picks_that_stopped(self, repository: Repository, command: str) -> None:
        options = ("--signoff", "--strategy=ort", "-Xhistogram", "-Xrename-threshold=50%")
        picked = "main~1..side" if command == "cherry-pick" else "side~3..side"
        repository.git(command, *options, picked, fails=True)

        assert {"sequencer/todo", "sequencer/opts", "sequencer/head"} <= set(repository.states())
        assert repository.wrong() == {}

    def test_patches_of_which_one_does_not_apply(self, repository: Repository, tmp_path: Path) -> None:
        repository.git("format-patch", "-q", "-o", str(tmp_path / "mail"), "main~1..side")
        patches = sorted(map(str, (tmp_path / "mail").iterdir()))
        options = (
            "-3",
            "--whitespace=nowarn",
            "--exclude=x y",
            "--directory=sub",
            "-p1",
            "--reject",
            "--scissors",
        )
        repository.git("am", *options, *patches, fails=True)

        assert b"'--exclude=x y'" in repository.states()["rebase-apply/apply-opt"]
        assert repository.wrong() == {}

    def test_a_merge_with_recorded_resolutions(self, repository: Repository) -> None:
        repository.git("-c", "rerere.enabled=true", "merge", "--no-ff", "side", fails=True)

        assert repository.states()["MERGE_RR"]
        assert {"MERGE_HEAD", "MERGE_MODE", "AUTO_MERGE", "ORIG_HEAD"} <= set(repository.states())
        assert repository.wrong() == {}

    def test_a_bisection(self, repository: Repository) -> None:
        terms = ("--term-new=slow", "--term-old=fast-enough")
        repository.git("bisect", "start", *terms, "side", "main~1", "--", "a", "b c")

        assert {"BISECT_START", "BISECT_TERMS"} <= set(repository.states())
        assert repository.wrong() == {}

    def test_packs_and_their_index(self, repository: Repository) -> None:
        repository.git("repack", "-q", "-d", "--write-midx")

        assert "objects/pack/multi-pack-index" in repository.states()
        assert repository.wrong() == {}

    def test_a_detached_head_and_a_stash(self, repository: Repository) -> None:
        (repository.path / "a").write_text("changed\n", encoding="utf-8")
        repository.git("stash")
        repository.git("checkout", "-q", "--detach")
        repository.git("reset", "-q", "--hard", "HEAD~1")

        assert repository.wrong() == {}


TODO = "rebase-merge/git-rebase-todo"


def packs(names: bytes, count: int = 1) -> bytes:
    end = 12 + 24 + len(names)
    return (
        b"MIDX\1\1\1\0\0\0\0"
        + bytes([count])
        + struct.pack(">4sQ4sQ", b"PNAM", 36, bytes(4), end)
        + names
        + bytes(20)
    )


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (TODO, b"pick 1234 x\nexec touch x\n"),
        (TODO, b"x touch x"),
        (TODO, b"pick 1234 x\n \t x\ttouch x\r\n"),
        (TODO, b"# all is well\n\nexec\n"),
        (TODO, b"pick 1234\0\nexec touch x\n"),
        (TODO, b"run touch x\n"),
        (TODO, b"update-ref ../x\n"),
        (f"{TODO}.backup", b"exec touch x\n"),
        ("sequencer/todo", b"exec touch x\n"),
        ("sequencer/todo", b"edit 1234\n"),
        ("rebase-merge/strategy", b"x/../evil\n"),
        ("rebase-merge/strategy", b"ort x"),
        ("rebase-apply/strategy", b"evil"),
        ("rebase-merge/strategy_opts", b" --index-output=/tmp/x\n"),
        ("rebase-merge/strategy_opts", b"'--ours' \"--index-output=/tmp/x\""),
        ("rebase-merge/strategy_opts", b"--subtree=$(x)"),
        ("sequencer/opts", b"[options]\n\tstrategy = x/../evil\n"),
        ("sequencer/opts", b'[options] strategy = "x/.\\\n./evil"'),
        ("sequencer/opts", b"[options]\n\tstrategy = ort\n\tstrategy-option = index-output=/tmp/x\n"),
        ("sequencer/opts", b"[options]\n\tgpg-sign = -x\n"),
        ("sequencer/opts", b"[include]\n\tpath = /tmp/x\n"),
        ("sequencer/opts", b"nonsense"),
        ("rebase-apply/apply-opt", b"'--build-fake-ancestor=/tmp/x' '--apply'"),
        ("rebase-apply/apply-opt", b"'--unsafe-paths'"),
        ("rebase-apply/apply-opt", b"'--directory=../..'"),
        ("rebase-apply/apply-opt", b"'--directory=.git/hooks'"),
        ("rebase-apply/apply-opt", b"'--whitespace=fix'  '--unsafe-paths'"),
        ("rebase-apply/apply-opt", b"'--whitespace=fix'\\'' '--unsafe-paths'"),
        ("rebase-apply/apply-opt", b"--reject"),
        ("rebase-apply/apply-opt", b"'"),
        ("rebase-apply/gpg_sign_opt", b"--directory=../..\n"),
        ("rebase-merge/gpg_sign_opt", b"-S-x\n"),
        ("rebase-merge/gpg_sign_opt", b"-Sx;y\n"),
        ("rebase-merge/autostash", b"--index\n"),
        ("rebase-merge/head-name", b"refs/heads/../../config\n"),
        ("rebase-merge/head-name", b"hooks/post-commit\n"),
        ("rebase-merge/refs-to-delete", b"refs/heads/main\n"),
        ("rebase-merge/update-refs", b"hooks/x\n" + OBJECT + b"\n" + OBJECT + b"\n"),
        ("rebase-merge/update-refs", b"refs/heads/x\n" + OBJECT + b"\n--x\n"),
        ("rebase-merge/trailer", b"Key: $(touch x)\n"),
        ("rebase-merge/author-script", b"GIT_AUTHOR_NAME='x'; touch x\n"),
        ("rebase-merge/author-script", b"GIT_AUTHOR_NAME='x'$(touch x)'y'\n"),
        ("rebase-merge/author-script", b"PATH='/tmp'\n"),
        ("rebase-merge/unheard-of", b""),
        ("rebase-apply/0001x", b""),
        ("sequencer/more/todo", b""),
        ("HEAD", b""),
        ("HEAD", b"x"),
        ("HEAD", b"ref: config\n"),
        ("ORIG_HEAD", b"ref: hooks/post-commit\n"),
        ("ORIG_HEAD", b"ref: refs/../config\n"),
        ("MERGE_HEAD", b"--x\n"),
        ("MERGE_RR", OBJECT + b"\t../../.ssh/id\0"),
        ("MERGE_RR", OBJECT + b"\ta\0" + OBJECT + b".2\t/etc/passwd\0"),
        ("MERGE_RR", OBJECT + b"\t.git/hooks/x\0"),
        ("MERGE_RR", b"x"),
        ("BISECT_START", b"--orphan=x\n"),
        ("BISECT_START", b"main --x\n"),
        ("BISECT_TERMS", b"bad\n--x\n"),
        ("BISECT_NAMES", b" 'a' $(evil)\n"),
        ("BISECT_NAMES", b" 'a'$(evil)\n"),
        ("BISECT_NAMES", b" 'a'\\''b; evil\n"),
        ("BISECT_NAMES", b"a\n"),
        ("BISECT_NAMES", b"'a'\nevil\n"),
        ("refs/heads/main", b"ref: hooks/post-commit\n"),
        ("refs/heads/main", b"this repository uses the reftable format\n"),
        ("remotes/origin", b"URL: evil.git\n"),
        ("branches/origin", b"evil.git\n"),
        ("gitweb/lighttpd", b"#!/bin/sh\n"),
        ("pid", b"1\n"),
        ("objects/pack/multi-pack-index", packs(b"../../../x/pack-1.idx\0")),
        ("objects/pack/multi-pack-index", b"MIDX"),
        ("objects/pack/multi-pack-index", packs(b"pack-1.idx\0", count=2)),
        ("objects/pack/multi-pack-index.d/multi-pack-index-1.midx", packs(b"a/b.idx\0")),
        ("reftable/tables.list", b"../../x.ref\n"),
    ],
)
def test_what_would_run_or_write_more_is_not_left(name: str, data: bytes) -> None:
    assert is_state(name)
    assert unsafe_state(name, data)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (TODO, b""),
        (TODO, b"noop\n\n# Rebase x\n; another sign\n\tp 1234 # x\r\nfixup -c 12\nreset [new root]\n"),
        (TODO, b"merge -C 12 l # x\nm l\nsquash 12\ns 12\nreword 12\nedit 12\nrevert 12\nbreak\nl x\n"),
        (TODO, b"label onto\nt onto\nb\nd 1234 exec x\nu refs/heads/x\n"),
        ("rebase-merge/done", b"pick 1234 x\nexec make\n"),
        ("rebase-merge/gpg_sign_opt", b"-S\n"),
        ("rebase-merge/gpg_sign_opt", b"-SAnn <ann@example.org>\n"),
        ("rebase-merge/strategy_opts", b" --ours --subtree=a/b\n"),
        ("rebase-merge/strategy_opts", b"ours 'find-renames=50%'\n"),
        ("rebase-merge/trailer", b"Reviewed-by: Ann <ann@example.org>\n"),
        ("MERGE_RR", b""),
        ("objects/pack/multi-pack-index", packs(b"pack-1.idx\0")),
        ("reftable/tables.list", b"0x000000000001-0x000000000002-1a2b3c4d.ref\n"),
        ("refs/heads", b"this repository uses the reftable format\n"),
    ],
)
def test_what_git_writes_is_left(name: str, data: bytes) -> None:
    assert is_state(name)
    assert unsafe_state(name, data) == ""


@pytest.mark.parametrize("name", ["COMMIT_EDITMSG", "logs/HEAD", "FETCH_HEAD", "description"])
def test_other_files_are_not_judged(name: str) -> None:
    assert not is_state(name)
    assert unsafe_state(name, b"exec x") == ""


def test_git_runs_such_a_step(repository: Repository) -> None:
    """Without this the rest would prove nothing."""
    repository.git("checkout", "-q", "side")
    repository.git("rebase", "main", fails=True)
    with (repository.path / ".git" / TODO).open("a", encoding="utf-8") as todo:
        todo.write("x touch ran\n")
    repository.git("rebase", "--skip")

    assert (repository.path / "ran").exists()


def test_git_writes_where_such_an_option_says(repository: Repository, tmp_path: Path) -> None:
    repository.git("checkout", "-q", "side")
    repository.git("rebase", "main", fails=True)
    state = repository.path / ".git/rebase-merge"
    (state / "strategy").write_text("resolve\n", encoding="utf-8")
    (state / "strategy_opts").write_text(f"--index-output={tmp_path}/written\n", encoding="utf-8")
    repository.git("rebase", "--skip")

    assert (tmp_path / "written").read_bytes().startswith(b"DIRC")
