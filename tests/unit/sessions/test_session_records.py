"""Records of named sessions: what is written is read, and what cannot be is no session."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral.sessions.named.record import (
    FAILED,
    RUNNING,
    STOPPED,
    SessionRecord,
    birth,
    read_entry,
    write_entry,
)
from corral.sessions.named.session_directory import SessionDirectory, default_name, is_name


@pytest.fixture
def place(tmp_path: Path) -> SessionDirectory:
    return SessionDirectory(str(tmp_path), os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY))


def test_every_field_comes_back(place: SessionDirectory) -> None:
    entry = SessionRecord(
        *("s", RUNNING, os.getpid(), birth(os.getpid()), "native", "strict"),
        workspace="/a b/\n=\udcff\\n/ü",
        limits="memory 1GiB",
        began=1.5,
        idle_seconds=0.25,
        output_bytes=7,
        is_fresh=True,
        token="00ff",
    )

    write_entry(place, entry)

    assert read_entry(place, "s") == entry


def test_a_process_that_is_gone_or_another_makes_a_failed_session(place: SessionDirectory) -> None:
    write_entry(place, SessionRecord("s", RUNNING, os.getpid(), "1 another start"))
    other = read_entry(place, "s")
    write_entry(place, SessionRecord("s", RUNNING, 2**22 + 1, "1 x"))
    gone = read_entry(place, "s")

    assert other is not None and other.state == FAILED and other.reason
    assert gone is not None and gone.state == FAILED
    write_entry(place, SessionRecord("s", STOPPED, os.getpid(), "1 another start"))
    assert getattr(read_entry(place, "s"), "state", "") == STOPPED


@pytest.mark.parametrize(
    "text", ["", "nonsense", "name=other\nstate=running", "name=s", "name=s\nstate=running\npid=x"]
)
def test_what_cannot_be_read_is_no_session(place: SessionDirectory, text: str) -> None:
    place.replace("s.session", text.encode())

    assert read_entry(place, "s") is None


def test_only_one_has_the_lock(place: SessionDirectory) -> None:
    first = place.lock("s")

    assert place.lock("s") == -1
    os.close(first)
    second = place.lock("s")
    assert second >= 0
    place.forget("s")
    third = place.lock("s")  # the file is another one: the name was free again
    assert third >= 0
    os.close(second)
    os.close(third)


def test_a_link_is_no_record(place: SessionDirectory, tmp_path: Path) -> None:
    (tmp_path / "real").write_text("name=s\nstate=stopped")
    (tmp_path / "s.session").symlink_to("real")

    assert read_entry(place, "s") is None


@pytest.mark.parametrize(
    "workspace", ["/", "/a/.hidden", "/a/-x", "/ü/ö", "/a/" + "x" * 200, "/a/with space\n"]
)
def test_a_workspace_always_has_a_name_that_is_permitted(workspace: str) -> None:
    assert is_name(default_name(workspace))
    assert default_name(workspace) == default_name(workspace) != default_name(f"{workspace}y")
