"""A module reads and writes what its task grants, and nothing else. Judged on the host."""

from __future__ import annotations

import os

import pytest

from corral.wasi import numbers
from corral.wasi.handles import WasiError
from corral.wasi.paths import PathCalls
from corral.wasi.process import ProcessCalls
from corral.wasi.task import Task
from corral.wasi.tree import Tree
from support.descriptors import count_descriptors
from support.module_runs import READ, HeldPaths, ModuleBounds, place, run_tool, run_unconfined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("wasmtime")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A granted directory, with a secret beside it."""
    (tmp_path / "work").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "key").write_text("the secret")
    return tmp_path / "work"


def test_what_is_granted_can_be_read_and_written(work: Path) -> None:
    assert run_tool(("w", "new", "text"), work).status == 0
    assert (work / "new").read_text() == "text"
    assert run_tool(("r", "new"), work).output == b"text"
    assert run_tool(("m", "sub"), work).status == 0
    assert run_tool(("n", "new", "sub/moved"), work).status == 0
    assert run_tool(("h", "sub/moved", "second"), work).status == 0
    assert run_tool(("s", "second", "link"), work).status == 0
    assert run_tool(("r", "link"), work).output == b"text"
    assert run_tool(("t", "second"), work).status == 0
    assert (work / "second").stat().st_mtime == 1
    assert run_tool(("u", "second"), work).status == 0
    assert b"link" in run_tool(("l", "."), work).output
    assert run_tool(("u", "sub/moved"), work).status == 0
    assert run_tool(("d", "sub"), work).status == 0
    assert os.listdir(work) == ["link"]


def test_the_control_reaches_what_lies_outside(work: Path) -> None:
    """Without corral's functions and with a wider directory, the same module reads the same file."""
    assert b"the secret" in run_unconfined(("r", "outside/key"), work, work.parent)
    run_unconfined(("w", "outside/new", "x"), work, work.parent)
    assert (work.parent / "outside" / "new").exists()


@pytest.mark.parametrize(
    "path", ["../outside/key", "/outside/key", "a/../../outside/key", "up/key", "abs/key"]
)
def test_nothing_outside_can_be_read(path: str, work: Path) -> None:
    (work / "a").mkdir()
    (work / "up").symlink_to("../outside")
    (work / "abs").symlink_to(work.parent / "outside")

    done = run_tool(("r", path), work)

    assert done.status != 0 and b"secret" not in done.output
    assert done.features == ["fs.read"]


@pytest.mark.parametrize(
    "words", [("w", "../outside/new", "x"), ("m", "../outside/new"), ("w", "up/new", "x")]
)
def test_nothing_outside_can_be_made(words: tuple[str, ...], work: Path) -> None:
    (work / "up").symlink_to("../outside")

    assert run_tool(words, work).status != 0
    assert not (work.parent / "outside" / "new").exists()


def test_a_link_that_exists_is_not_followed_to_be_written_through(work: Path) -> None:
    (work / "trap").symlink_to(work.parent / "outside" / "key")

    run_tool(("w", "trap", "changed"), work)
    run_tool(("a", "trap", "changed"), work)

    assert (work.parent / "outside" / "key").read_text() == "the secret"


@pytest.mark.parametrize(
    "words",
    [
        ("w", "file", "x"),
        ("a", "file", "x"),
        ("u", "file"),
        ("n", "file", "other"),
        ("h", "file", "other"),
        ("s", "file", "other"),
        ("m", "other"),
        ("t", "file"),
        ("d", "empty"),
    ],
)
def test_what_may_only_be_read_stays_as_it_is(words: tuple[str, ...], work: Path) -> None:
    (work / "file").write_text("original")
    (work / "empty").mkdir()
    before = (work / "file").stat()

    done = run_tool(words, work, places=(place(work, READ),))

    assert done.status != 0 and done.features == ["fs.write"]
    assert (work / "file").stat() == before  # ORDER: to read it is an access, and perhaps a second later
    assert (work / "file").read_text() == "original"
    assert sorted(os.listdir(work)) == ["empty", "file"]


@pytest.mark.parametrize("op", ["h", "n"])
def test_nothing_is_linked_or_moved_out_of_a_read_only_directory(op: str, work: Path) -> None:
    """RUSTSEC-2026-0188: a second name in a writable directory would make the file writable."""
    (work / "kept").mkdir()
    (work / "kept" / "file").write_text("original")
    places = (place(work), place(work / "kept", READ))

    run_tool((op, "kept/file", "second"), work, places=places)
    run_tool(("a", "second", "changed"), work, places=places)

    assert (work / "kept" / "file").read_text() == "original"
    assert not (work / "second").exists()


@pytest.mark.parametrize("op", ["h", "n"])
def test_nothing_is_linked_or_moved_between_two_places(op: str, work: Path) -> None:
    other = work.parent / "outside"

    done = run_tool((op, "../outside/key", "here"), work, places=(place(work), place(other)))

    assert done.status == 75 and not (work / "here").exists() and (other / "key").exists()


@pytest.mark.parametrize("text", ["/etc", "..", "a/../../outside", "../work/../outside", "a/../b"])
def test_no_link_out_can_be_made(text: str, work: Path) -> None:
    assert run_tool(("s", text, "link"), work).status != 0
    assert not (work / "link").is_symlink()


def test_a_link_upwards_inside_of_its_place_can_be_made(work: Path) -> None:
    (work / "sub").mkdir()
    (work / "text").write_text("content")

    assert run_tool(("s", "../text", "sub/link"), work).status == 0
    assert run_tool(("r", "sub/link"), work).output == b"content"
    assert run_tool(("s", "../../outside", "sub/out"), work).status == 63


def test_what_is_denied_is_denied_by_every_way_to_it(work: Path) -> None:
    (work / "private").mkdir()
    (work / "private" / "key").write_text("the secret")
    (work / "alias").symlink_to("private")
    held = HeldPaths(denied=(str(work / "private"),))

    for words in (("r", "private/key"), ("r", "alias/key"), ("l", "private"), ("h", "private/key", "k")):
        done = run_tool(words, work, held=held)
        assert done.status != 0 and b"secret" not in done.output and "fs.deny" in done.features
    assert run_tool(("n", "private", "public"), work, held=held).status != 0
    assert (work / "private" / "key").exists() and not (work / "k").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("w", "hooks/run", "x"),
        ("a", "hooks/old", "x"),
        ("u", "hooks/old"),
        ("n", "hooks", "h2"),
        ("w", "rc", "x"),
    ],
)
def test_what_is_protected_is_neither_changed_nor_planted_nor_moved(
    words: tuple[str, ...], work: Path
) -> None:
    (work / "hooks").mkdir()
    (work / "hooks" / "old").write_text("original")
    held = HeldPaths(read_only=(str(work / "hooks"),), absent=(str(work / "rc"),))

    done = run_tool(words, work, held=held)

    assert done.status != 0 and done.features == ["fs.protect"]
    assert os.listdir(work) == ["hooks"] and (work / "hooks" / "old").read_text() == "original"


def test_a_directory_above_what_is_held_is_not_moved_away(work: Path) -> None:
    (work / "a" / "b").mkdir(parents=True)
    held = HeldPaths(absent=(str(work / "a" / "b" / "name"),))

    for words in (("n", "a", "c"), ("n", "a/b", "a/c"), ("d", "a/b")):
        assert run_tool(words, work, held=held).status == 10
    assert (work / "a" / "b").is_dir()


def test_a_name_that_must_not_be_made_is_made_nowhere(work: Path) -> None:
    (work / "deep").mkdir()

    done = run_tool(("m", "deep/.git"), work, held=HeldPaths(names=(".git",)))

    assert done.status != 0 and not (work / "deep" / ".git").exists()


def test_a_granted_file_is_seen_and_its_neighbours_are_not(work: Path) -> None:
    outside = work.parent / "outside"
    (outside / "other").write_text("another secret")
    granted = place(outside / "key", READ).replace(is_file=True)
    places = (place(work), granted)

    assert run_tool(("r", "../outside/key"), work, places=places).output == b"the secret"
    assert run_tool(("r", "../outside/other"), work, places=places).status != 0
    assert b"other" not in run_tool(("l", "../outside"), work, places=places).output


def test_a_place_that_is_another_one_than_was_planned_is_refused(work: Path) -> None:
    changed = place(work).replace(device=1, inode=1)

    with pytest.raises(RuntimeError, match="not what it was"):
        run_tool(("r", "x"), work, places=(changed,))


def test_a_private_area_hides_what_is_there(work: Path, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    area = place(tmp_path / "scratch" / "0", "private", str(work.parent / "outside"))

    assert run_tool(("r", "../outside/key"), work, places=(place(work), area)).status == 44
    assert run_tool(("w", "../outside/new", "x"), work, places=(place(work), area)).status == 0
    assert not (work.parent / "outside" / "new").exists()


def test_a_fifo_is_not_waited_for(work: Path) -> None:
    os.mkfifo(work / "pipe")

    assert run_tool(("r", "pipe"), work).status == 2


def test_links_in_a_circle_end(work: Path) -> None:
    (work / "a").symlink_to("b")
    (work / "b").symlink_to("a")

    assert run_tool(("r", "a"), work).status == 32


def test_a_file_grows_to_its_limit_to_the_byte(work: Path) -> None:
    done = run_tool(("f", "big"), work, bounds=ModuleBounds(file_size_bytes=100_001))

    assert (work / "big").stat().st_size == 100_001 and done.features == ["limit.file-size"]


def test_the_table_of_files_has_an_end(work: Path) -> None:
    (work / "file").touch()

    assert run_tool(("o", "file"), work, bounds=ModuleBounds(open_files=20)).status == 33


def test_no_descriptor_of_the_host_is_left_open(work: Path) -> None:
    (work / "file").touch()
    run_tool(("r", "file"), work)
    before = count_descriptors()

    run_tool(("o", "file"), work, bounds=ModuleBounds(open_files=20))

    assert count_descriptors() <= before


def test_a_link_is_neither_moved_nor_linked_to_where_it_would_lead_out(work: Path) -> None:
    """At its first place it stays inside; nearer to the top the same text leads out."""
    (work / "a" / "b").mkdir(parents=True)
    assert run_tool(("s", "../../text", "a/b/link"), work).status == 0

    for words in (("n", "a/b/link", "link"), ("h", "a/b/link", "link"), ("n", "a/b", "b")):
        done = run_tool(words, work)
        assert done.status == 63 and done.features == ["fs.write"], words
    assert os.listdir(work) == ["a"] and os.listdir(work / "a" / "b") == ["link"]

    assert run_tool(("n", "a/b/link", "a/b/other"), work).status == 0
    assert run_tool(("n", "a/b", "a/c"), work).status == 0, "as deep as before"
    (work / "a" / "plain").mkdir()
    assert run_tool(("n", "a/plain", "plain"), work).status == 0


def test_a_file_that_has_just_been_removed_is_not_made_in_a_read_only_directory(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the opening, somebody else removes it."""
    (work / "file").write_text("original")

    def look_and_remove(calls: PathCalls, parts: tuple[str, ...]) -> bool:
        (work.joinpath(*parts[len(work.parts) - 1 :])).unlink()
        return True

    monkeypatch.setattr(PathCalls, "_is_there", look_and_remove)
    monkeypatch.setattr(Tree, "is_directory", lambda *_: False)
    calls = ProcessCalls(Task(directory=str(work)), Tree((place(work, READ),), HeldPaths()))
    memory = _Memory(b"file")

    with pytest.raises(WasiError) as refused:
        calls.path_open(memory, 3, 0, 0, 4, numbers.CREATE | numbers.EXCLUSIVE, 0, 0, 0, 0)  # type: ignore[arg-type]

    assert refused.value.number == numbers.EXISTS and os.listdir(work) == []


class _Memory:
    """As much of a module's memory as a path needs."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    def read_path(self, place: int, length: int) -> str:
        return self._text[place : place + length].decode()
