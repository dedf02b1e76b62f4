"""A plan that was kept is believed by the numbers of its paths alone, and only while they are the same."""

from __future__ import annotations

import os

import pytest

from corral.host.real import RealHost
from corral.host.remembered_plans import RememberedPlan
from corral.planning.answer_cache import AnswerCache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from corral.model.backend import Host


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "work").mkdir()
    (tmp_path / "work/there").write_text("x")
    return tmp_path / "work"


def _found(place: Path, calls: list[int]) -> tuple[bool, ...]:
    """What a new process finds, by asking about two paths."""

    def find(host: Host) -> tuple[bool, ...]:
        calls.append(1)
        return tuple(host.lstat(str(place / name)) is not None for name in ("there", "missing"))

    host = RealHost()
    return AnswerCache(RememberedPlan(host, str(place), ())).find(host, find)


def test_nothing_is_asked_again_while_all_is_as_it_was(place: Path) -> None:
    calls: list[int] = []

    assert [_found(place, calls) for _ in range(3)] == [(True, False)] * 3
    assert len(calls) == 1


@pytest.mark.parametrize("change", ["appears", "goes", "replaced", "mode", "linked"])
def test_any_change_of_a_path_is_seen(place: Path, change: str) -> None:
    calls: list[int] = []
    _found(place, calls)
    if change == "appears":
        (place / "missing").write_text("")
    elif change == "goes":
        (place / "there").unlink()
    elif change == "replaced":
        (place / "new").write_text("x")
        os.replace(place / "new", place / "there")
    elif change == "mode":
        (place / "there").chmod(0o755)
    else:
        os.link(place / "there", place / "other")

    now = _found(place, calls)

    assert len(calls) == 2
    assert now == (change != "goes", change == "appears")


def test_what_changes_while_it_is_kept_is_not_kept_as_it_is_then(place: Path) -> None:
    """The answer that a plan was made of is compared, not the state of the host when it was written down."""
    calls: list[int] = []

    def find(host: Host) -> tuple[bool, ...]:
        missing = host.lstat(str(place / "missing")) is not None
        (place / "missing").write_text("")
        return (missing,)

    host = RealHost()
    AnswerCache(RememberedPlan(host, str(place), ())).find(host, find)

    assert _found(place, calls) == (True, True)
    assert len(calls) == 1
