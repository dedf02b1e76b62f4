"""Tickets for commands without a sandbox: what lies in the state directory is no ticket."""

from __future__ import annotations

import pytest

from corral.cli.hook.call import TICKET
from corral.cli.hook.unconfined import use_ticket, with_ticket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def test_who_reads_the_state_directory_learns_no_ticket(state: Path) -> None:
    marked = with_ticket("make install")
    kept = [path for path in state.rglob("*") if path.is_file()]

    assert len(kept) == 1
    for told in (kept[0].name, kept[0].name[:32], kept[0].read_text()[:32]):
        assert told not in marked
        assert use_ticket(f"make install{TICKET}{told}") == ""
    assert use_ticket(marked) == "make install"
    assert use_ticket(marked) == ""
