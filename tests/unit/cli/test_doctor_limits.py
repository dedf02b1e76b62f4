"""`corral doctor` on limits: who holds which, or why nobody does."""

from __future__ import annotations

import json

import pytest

from corral.cli import doctor
from corral.cli.doctor import examine
from corral.model.enforcer import CGROUP1, CGROUP2, SYSTEMD, TITLES, Enforcer
from corral.model.feature import Feature
from support.fake_host import FakeHost

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
    """What stands between `limits by` and the backends."""
    assert examine(as_json=False) == 0
    _, _, rest = capsys.readouterr().out.partition("  limits by       ")
    return [line.strip() for line in rest.partition("\n\n")[0].splitlines()]


@pytest.mark.parametrize(
    ("enforcer", "said"),
    [
        (Enforcer(CGROUP1, TWO), ["control group, version 1: limit.memory, limit.pids"]),
        (
            Enforcer(CGROUP2, TWO, "no controller for limit.cpu"),
            ["control group, version 2: limit.memory, limit.pids (no controller for limit.cpu)"],
        ),
        (Enforcer(SYSTEMD, TWO), ["systemd scope: limit.memory, limit.pids"]),
        (
            Enforcer(CGROUP2, frozenset(), "none is mounted", "mount one"),
            ["no control group: none is mounted", "fix: mount one"],
        ),
        (Enforcer(SYSTEMD, frozenset(), "it does not run"), ["no systemd scope: it does not run"]),
    ],
)
def test_an_enforcer_says_what_it_holds_or_why_it_holds_nothing(
    here, capsys: pytest.CaptureFixture[str], enforcer: Enforcer, said: list[str]
) -> None:
    here(enforcer)

    assert lines(capsys) == said


def test_several_follow_each_other(here, capsys: pytest.CaptureFixture[str]) -> None:
    here(Enforcer(CGROUP2, frozenset(), "it is not ours"), Enforcer(SYSTEMD, TWO))

    assert lines(capsys) == ["no control group: it is not ours", "systemd scope: limit.memory, limit.pids"]


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
