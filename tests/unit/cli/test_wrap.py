"""`corral wrap`: what an agent is given of the home and the network, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.cli.options import defaults
from corral.cli.wrap import PROGRAMS, WRAPPED, add_needs, is_wrapped
from corral.model.errors import PolicyError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for needs in PROGRAMS.values():
        monkeypatch.delenv(needs.base_url, raising=False)
    return tmp_path


def test_an_agent_gets_its_own_state_and_its_models_host(home: Path) -> None:
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").write_text("{}")
    options = add_needs({**defaults(), "write": ("/more",), "no_config": True}, ("/opt/bin/claude", "-p"))

    assert options["write"] == ("/more", f"{home}/.claude")
    assert options["read"][0] == f"{home}/.claude/settings.json"
    assert "api.anthropic.com" in options["allow"]
    assert f"{WRAPPED}=1" in options["env"]


def test_another_host_of_the_users_is_permitted_as_well(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".codex").mkdir()
    monkeypatch.setenv("OPENAI_BASE_URL", "http://gateway.example.org:8080/v1")

    allowed = add_needs({**defaults(), "no_config": True}, ("codex",))["allow"]
    assert allowed[-1] == "gateway.example.org:8080"


def test_a_program_that_is_no_agent_is_refused(home: Path) -> None:
    for argv in (("bash",), ()):
        with pytest.raises(PolicyError, match="not an agent that corral knows"):
            add_needs(defaults(), argv)


def test_an_agent_without_a_login_is_not_started(home: Path) -> None:
    with pytest.raises(PolicyError, match="would be lost"):
        add_needs({**defaults(), "no_config": True}, ("gemini",))


def test_a_variable_alone_does_not_make_a_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Path("/proc/1/comm").read_text() != "corral-launch\n"
    monkeypatch.setenv(WRAPPED, "1")

    assert not is_wrapped()
