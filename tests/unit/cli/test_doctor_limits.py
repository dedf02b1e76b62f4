"""`corral doctor` on limits: who holds which, or why nobody does."""

from __future__ import annotations

import json

import pytest

from corral.cli import doctor
from corral.cli.doctor import examine
from corral.cli.run import _tell_once
from corral.model.enforcer import CGROUP1, CGROUP2, SYSTEMD, TITLES, Enforcer
from corral.model.feature import Feature
from support.fake_host import FakeHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

TWO = frozenset({Feature.LIMIT_PIDS, Feature.LIMIT_MEMORY})


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch):
    """Say which enforcers this host has."""

    def set_enforcers(*enforcers: Enforcer) -> None:
        host = FakeHost()
        monkeypatch.setattr(host, "enforcers", lambda: enforcers)
        monkeypatch.setattr(doctor, "RealHost", lambda: host)

    return set_enforcers


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert examine(as_json=False, verbose=True) == 0
    shown = capsys.readouterr().out.splitlines()
    first = next(number for number, line in enumerate(shown) if line.startswith("  limits by"))
    return [line[18:] for line in shown[first : shown.index("", first)]]


@pytest.mark.parametrize(
    ("enforcer", "line"),
    [
        (Enforcer(CGROUP1, TWO), "control group, version 1: limit.memory, limit.pids"),
        (
            Enforcer(CGROUP2, TWO, "no controller for limit.cpu"),
            "control group, version 2: limit.memory, limit.pids (no controller for limit.cpu)",
        ),
        (Enforcer(SYSTEMD, TWO), "systemd scope: limit.memory, limit.pids"),
        (
            Enforcer(CGROUP2, frozenset(), "no groups are mounted"),
            "no control group: no groups are mounted",
        ),
    ],
)
def test_an_enforcer_has_a_line(
    here, capsys: pytest.CaptureFixture[str], enforcer: Enforcer, line: str
) -> None:
    here(enforcer)

    assert lines(capsys) == [line]


def test_several_have_a_line_each(here, capsys: pytest.CaptureFixture[str]) -> None:
    here(Enforcer(CGROUP2, frozenset(), "it is not ours", "ask root"), Enforcer(SYSTEMD, TWO))

    assert lines(capsys) == [
        "no control group: it is not ours",
        "  fix: ask root",
        "systemd scope: limit.memory, limit.pids",
    ]


def test_as_json_they_have_their_fix_as_well(here, capsys: pytest.CaptureFixture[str]) -> None:
    here(Enforcer(CGROUP2, TWO), Enforcer(SYSTEMD, frozenset(), "there is no systemd", "install it"))

    assert examine(as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["limits"] == [
        {"enforcer": "cgroup2", "holds": ["limit.memory", "limit.pids"], "reason": "", "fix": ""},
        {"enforcer": "systemd", "holds": [], "reason": "there is no systemd", "fix": "install it"},
    ]


def test_every_enforcer_has_a_title() -> None:
    from corral.model import enforcer

    names = {value for name, value in vars(enforcer).items() if name.isupper() and isinstance(value, str)}
    assert names == TITLES.keys()


def test_a_default_that_is_not_held_is_said_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Before the first command; the record of each has it anyway. Another one is said again."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    memory, more = ((Feature.LIMIT_MEMORY, "6.0 GiB"),), ((Feature.LIMIT_MEMORY, "7.0 GiB"),)
    said = []
    for unheld in (memory, memory, more, memory, more):
        _tell_once(unheld)
        said.append(capsys.readouterr().err)

    assert [bool(text) for text in said] == [True, False, True, False, False]
    assert "limit.memory (6.0 GiB)" in said[0] and "corral doctor" in said[0]
