"""`corral mcp install`: what is written for each client, and that it can be taken out to the letter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from corral.cli.install import agent_files
from corral.cli.install.install import apply
from corral.cli.mcp import install as mcp_install
from corral.cli.mcp.clients import CLIENTS
from corral.cli.mcp.install import plan_client
from corral.model.errors import PolicyError, SetupError

#: Client -> its file in a home, and where the servers are in it.
PLACES = {
    "claude-code": (".claude.json", "mcpServers"),
    "codex": (".codex/config.toml", "mcp_servers"),
    "gemini": (".gemini/settings.json", "mcpServers"),
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "vscode": (".config/Code/User/mcp.json", "servers"),
    "opencode": (".config/opencode/opencode.json", "mcp"),
}
ALL = pytest.mark.parametrize("name", list(CLIENTS))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    monkeypatch.setattr(sys, "argv", [str(Path(sys.executable).with_name("corral"))])
    monkeypatch.setattr(mcp_install, "check_sdk", lambda: None)
    return tmp_path


def run(name: str, *words: str, remove: bool = False, project: str = "", dry_run: bool = False) -> int:
    return apply(lambda: plan_client(name, words, remove=remove, project=project), yes=True, dry_run=dry_run)


def _servers(home: Path, name: str) -> dict[str, object]:
    file, key = PLACES[name]
    text = (home / file).read_text()
    read = tomllib.loads(text) if file.endswith(".toml") else json.loads(text)
    servers: dict[str, object] = read[key]
    return servers


@ALL
def test_the_client_starts_the_server_with_the_options_that_were_given(home: Path, name: str) -> None:
    assert run(name, "--allow", "example.org") == 0

    entry = _servers(home, name)["corral"]
    assert isinstance(entry, dict)
    command = entry["command"]
    words = command if isinstance(command, list) else [command, *entry["args"]]
    assert os.access(words[0], os.X_OK)
    assert words[1:5] == ["mcp", "serve", "--agent", name]
    assert words[-2:] == ["--allow", "example.org"]


@ALL
def test_what_was_there_before_is_there_again_afterwards(home: Path, name: str) -> None:
    file, key = PLACES[name]
    path = home / file
    path.parent.mkdir(parents=True, exist_ok=True)
    is_toml = file.endswith(".toml")
    before = f'[{key}.other]\ncommand = "x"' if is_toml else f'{{"{key}": {{"other": {{"command": "x"}}}} }}'
    path.write_text(before)

    assert run(name, dry_run=True) == 0
    assert path.read_text() == before
    assert run(name) == 0
    assert set(_servers(home, name)) == {"other", "corral"}
    assert run(name) == 0  # again: nothing to do
    assert run(name, remove=True) == 0
    assert path.read_text() == before
    assert run(name, remove=True) == 0
    assert path.read_text() == before


@ALL
def test_a_file_that_was_made_for_it_is_gone_afterwards(home: Path, name: str) -> None:
    run(name)
    run(name, remove=True)

    assert not (home / PLACES[name][0]).exists()


def test_an_entry_that_is_somebody_elses_is_left_alone(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / ".claude.json").write_text('{"mcpServers": {"corral": {"command": "other"}}}')
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text('[mcp_servers.corral]\ncommand = "other"\n')

    for name in ("claude-code", "codex"):
        assert run(name) == SetupError.exit_status
        assert "is there already, and corral has not written it" in capsys.readouterr().err
        assert run(name, remove=True) == 0
    assert "other" in (home / ".claude.json").read_text()
    assert "other" in (home / ".codex/config.toml").read_text()


def test_options_are_checked_before_anything_is_written(home: Path) -> None:
    for words in (("--no-such-option",), ("python",), ("--read",)):
        assert run("gemini", *words) == PolicyError.exit_status
    assert not (home / ".gemini").exists()


@pytest.mark.parametrize("first", ["hook", "server"])
def test_hooks_and_server_of_one_client_come_and_go_apart(
    home: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """Both are in one file of Codex's: whichever is removed, the other stays."""
    monkeypatch.setattr(agent_files, "_check_program", lambda name: None)

    def hook(*, remove: bool = False) -> None:
        assert apply(lambda: agent_files.plan_agent("codex", remove=remove), yes=True, dry_run=False) == 0

    def server(*, remove: bool = False) -> None:
        assert run("codex", remove=remove) == 0

    one, other = (hook, server) if first == "hook" else (server, hook)
    one()
    other()
    one(remove=True)
    text = (home / ".codex/config.toml").read_text()
    assert ("[mcp_servers.corral]" in text, "[hooks.state." in text) == (first == "hook", first != "hook")
    other(remove=True)
    assert not (home / ".codex/config.toml").exists()


def test_what_codex_has_noted_beneath_its_entry_goes_with_it(home: Path) -> None:
    """Codex refuses to start with a server that has no command."""
    path = home / ".codex/config.toml"
    run("codex")
    own = path.read_text()
    noted = '[mcp_servers.corral.tools.bash]\napproval_mode = "approve"\n'
    path.write_text(f'{own}enabled = true\n\n# mine\n[mcp_servers.other]\ncommand = "x"\n\n{noted}')
    run("codex", remove=True)

    assert path.read_text() == '\n# mine\n[mcp_servers.other]\ncommand = "x"\n\n'


def test_an_entry_of_codex_that_stands_apart_from_its_mark_is_left_alone(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / ".codex/config.toml"
    run("codex")
    path.write_text(apart := path.read_text().replace("\nargs = ", "\n\nargs = "))

    assert run("codex", remove=True) == SetupError.exit_status
    assert "remove it yourself" in capsys.readouterr().err
    assert path.read_text() == apart


def test_without_the_sdk_the_extra_is_named() -> None:
    program = "import sys; sys.modules['mcp'] = None; from corral.cli.main import main; main()"
    for words in (["serve"], ["install", "gemini", "--dry-run"]):
        done = subprocess.run(
            [sys.executable, "-c", program, "mcp", *words],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )

        assert done.returncode == SetupError.exit_status
        assert "fix: pip install 'corral[mcp]'" in done.stderr
