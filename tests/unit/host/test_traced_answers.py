"""A trace has every answer about a file that planning can get."""

from __future__ import annotations

import ast
import errno
from pathlib import Path

import pytest

import corral
from corral.compiled_plans.traced_host import Trace, TracedHost
from corral.host.real import RealHost
from corral.linux.compiled import ObjectKind, SeenLink, SeenNothing, SeenObject, SeenSilence, SeenStamp
from corral.model.enforcer import CGROUP1, CGROUP2

TYPE_CHECKING = False
if TYPE_CHECKING:
    from corral.linux.compiled import Seen


def _methods_about_paths() -> set[str]:
    """The methods of the protocol that are asked about a path."""
    source = (Path(corral.__file__).parent / "model/backend.py").read_text(encoding="utf-8")
    classes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef))
    hosts = [node for node in classes if node.name == "Host"]
    return {
        method.name
        for method in hosts[0].body
        if isinstance(method, ast.FunctionDef) and any(each.arg == "path" for each in method.args.args)
    }


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "directory").mkdir()
    return tmp_path


def _seen(method: str, path: Path, *more: object) -> tuple[Seen, ...]:
    trace = Trace()
    getattr(TracedHost(RealHost(), trace), method)(str(path), *more)
    return trace.seen


def test_every_question_about_a_path_is_noted(place: Path) -> None:
    listing = ("links", "subdirectories", "entries")
    asked = {**dict.fromkeys(("lstat", "readlink", "stamp", *listing), ()), "read_text": (100,)}
    names = {**dict.fromkeys(listing, "."), "readlink": "link"}

    assert set(asked) == _methods_about_paths()
    for method, more in asked.items():
        assert len(_seen(method, place / names.get(method, "file"), *more)) == 1, method


def test_what_is_noted_is_what_was_answered(place: Path) -> None:
    file, directory = (place / "file").lstat(), (place / "directory").lstat()

    assert _seen("lstat", place / "file") == (
        SeenObject(str(place / "file"), ObjectKind.OTHER, 0, 1, file.st_dev, file.st_ino),
    )
    assert _seen("lstat", place / "directory")[0].kind is ObjectKind.DIRECTORY  # type: ignore[union-attr]
    assert _seen("lstat", place / "none") == (SeenNothing(str(place / "none"), errno.ENOENT),)
    assert _seen("lstat", place / "file/x") == (SeenNothing(str(place / "file/x"), errno.ENOTDIR),)
    assert _seen("readlink", place / "link") == (SeenLink(str(place / "link"), "file"),)
    assert _seen("read_text", place / "link", 9) == (
        SeenStamp(
            str(place / "link"),
            *(file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns),
        ),
    )
    assert _seen("read_text", place / "none", 9) == (SeenNothing(str(place / "none"), errno.ENOENT, True),)
    assert _seen("subdirectories", place)[0].inode == place.stat().st_ino  # type: ignore[union-attr]
    assert directory.st_ino != file.st_ino


def test_the_first_answer_is_the_one_that_counts(place: Path) -> None:
    """It is what the plan was made with; a later one would hide that something has changed meanwhile."""
    trace = Trace()
    host = TracedHost(RealHost(), trace)
    host.read_text(str(place / "file"), 100)
    before = trace.seen
    (place / "file").write_text("longer text")
    host.read_text(str(place / "file"), 100)

    assert trace.seen == before


def test_what_appears_while_it_is_looked_at_never_fits(place: Path) -> None:
    trace = Trace()
    trace.note_object(str(place / "file"), None)  # it was not there when it was asked for

    assert [seen.inode for seen in trace.seen if isinstance(seen, SeenObject)] == [0]


def test_only_groups_of_its_own_are_offered_and_silence_is_noted() -> None:
    trace = Trace()
    trace.note_silence("/pyproject.toml")

    offered = {enforcer.name for enforcer in TracedHost(RealHost(), trace).enforcers()}

    assert offered <= {CGROUP1, CGROUP2}
    assert trace.seen == (SeenSilence("/pyproject.toml"),)
    assert trace.newest_ns == 0
